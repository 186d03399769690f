//! From the parser's tree to the plan's. Types of operands are checked here again: the parser leaves some cases out.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use promql_parser::label::MatchOp as ParsedOp;
use promql_parser::parser::{self as ast, Expr};
use regex::Regex;

use super::{
    Aggregate, AggregateOp, At, Binary, BinaryOp, Cardinality, Grouping, MatchOp, Matcher, Matching, Node,
    Plan, Selector, ValueKind, Window,
};
use crate::error::Error;
use crate::functions::{Function, Kind};
use crate::labels::METRIC_NAME;
use crate::limits::Limits;

/// Longer ranges and offsets are refused, so that sums of times do not overflow.
const DURATION_MAX_MS: u128 = 9_223_372_036_000;
/// Labels in a list, matchers of a selector, arguments of a call.
const LABELS_MAX: usize = 250;

fn fail<T>(text: impl AsRef<str>) -> Result<T, Error> {
    Err(Error::bad_data(format!("parse error: {}", text.as_ref())))
}

pub(super) fn lower(expr: &Expr, limits: &Limits, experimental: bool) -> Result<Plan, Error> {
    let mut lowering = Lowering {
        selectors: Vec::new(),
        subqueries: Vec::new(),
        depth: 0,
        depth_max: limits.depth_max,
        experimental,
    };
    let root = lowering.node(expr, None)?;
    let kind = root.kind();
    Ok(Plan { root, selectors: lowering.selectors, kind })
}

struct Lowering {
    selectors: Vec<Selector>,
    subqueries: Vec<Window>,
    depth: usize,
    depth_max: usize,
    experimental: bool,
}

impl Lowering {
    /// `function` is what reads the expression's value.
    fn node(&mut self, expr: &Expr, function: Option<&'static str>) -> Result<Node, Error> {
        self.depth += 1;
        if self.depth > self.depth_max {
            return fail(format!("expressions are nested deeper than {}", self.depth_max));
        }
        let node = match expr {
            Expr::NumberLiteral(number) => Node::Number(number.val),
            Expr::StringLiteral(text) => Node::Text(text.val.as_str().into()),
            Expr::Paren(paren) => {
                // A pair of brackets around an expression changes nothing.
                let mut inner = &paren.expr;
                while let Expr::Paren(paren) = inner.as_ref() {
                    inner = &paren.expr;
                }
                self.node(inner, function)?
            }
            Expr::VectorSelector(vector) => Node::Vector { selector: self.selector(vector, None, function)? },
            Expr::MatrixSelector(matrix) => {
                let range = milliseconds(matrix.range)?;
                Node::Range { selector: self.selector(&matrix.vs, Some(range), function)? }
            }
            Expr::Subquery(subquery) => self.subquery(subquery)?,
            Expr::Unary(unary) => {
                let expr = self.node(&unary.expr, function)?;
                let kind = expr.kind();
                if kind != ValueKind::Scalar && kind != ValueKind::Vector {
                    let got = kind.documented();
                    return fail(format!(
                        "unary expression only allowed on expressions of type scalar or instant vector, got {got:?}"
                    ));
                }
                let invariant = expr.is_invariant(&self.selectors);
                Node::Negate { expr: Box::new(expr), invariant, kind }
            }
            Expr::Binary(binary) => self.binary_chain(binary)?,
            Expr::Aggregate(aggregate) => self.aggregate(aggregate)?,
            Expr::Call(call) => self.call(call)?,
            Expr::Extension(_) => return fail("invalid promql query"),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn selector(
        &mut self,
        vector: &ast::VectorSelector,
        range: Option<i64>,
        function: Option<&'static str>,
    ) -> Result<usize, Error> {
        if !vector.matchers.or_matchers.is_empty() {
            return fail("unexpected \"or\" in label matching, expected \",\" or \"}\"");
        }
        if vector.matchers.matchers.len() > LABELS_MAX {
            return fail(format!("more than {LABELS_MAX} matchers in a selector"));
        }
        let mut matchers = Vec::with_capacity(vector.matchers.matchers.len() + 1);
        if let Some(name) = &vector.name {
            matchers.push(Matcher { name: METRIC_NAME.into(), value: name.clone(), op: MatchOp::Equal });
        }
        for parsed in &vector.matchers.matchers {
            let op = match &parsed.op {
                ParsedOp::Equal => MatchOp::Equal,
                ParsedOp::NotEqual => MatchOp::NotEqual,
                ParsedOp::Re(regex) => MatchOp::Matches(dot_all(regex)?),
                ParsedOp::NotRe(regex) => MatchOp::NotMatches(dot_all(regex)?),
            };
            matchers.push(Matcher { name: parsed.name.clone(), value: parsed.value.clone(), op });
        }
        let window = window(range.unwrap_or(0), vector.offset.as_ref(), vector.at.as_ref())?;
        self.selectors.push(Selector {
            matchers,
            window,
            is_range: range.is_some(),
            subqueries: self.subqueries.clone(),
            function,
        });
        Ok(self.selectors.len() - 1)
    }

    fn subquery(&mut self, subquery: &ast::SubqueryExpr) -> Result<Node, Error> {
        let window = window(milliseconds(subquery.range)?, subquery.offset.as_ref(), subquery.at.as_ref())?;
        let step = subquery.step.map(milliseconds).transpose()?;
        if window.range == 0 || step == Some(0) {
            return fail("duration must be greater than 0");
        }
        self.subqueries.push(window);
        let expr = self.node(&subquery.expr, None)?;
        self.subqueries.pop();
        if expr.kind() != ValueKind::Vector {
            let got = expr.kind().documented();
            return fail(format!("subquery is only allowed on instant vector, got {got} instead"));
        }
        Ok(Node::Subquery { expr: Box::new(expr), window, step })
    }

    /// The left operands of a chain are walked in a loop: chains may be long.
    fn binary_chain(&mut self, outermost: &ast::BinaryExpr) -> Result<Node, Error> {
        let mut chain = vec![outermost];
        let mut innermost = &outermost.lhs;
        while let Expr::Binary(binary) = innermost.as_ref() {
            chain.push(binary);
            innermost = &binary.lhs;
        }
        let mut node = self.node(innermost, None)?;
        for binary in chain.into_iter().rev() {
            let right = self.node(&binary.rhs, None)?;
            node = self.binary(binary, node, right)?;
        }
        Ok(node)
    }

    fn binary(&self, binary: &ast::BinaryExpr, left: Node, right: Node) -> Result<Node, Error> {
        let name = binary.op.to_string();
        let Some(op) = binary_op(&name) else {
            return fail(format!("binary expression does not support operator {name:?}"));
        };
        let kinds = (left.kind(), right.kind());
        let allowed = |kind| kind == ValueKind::Scalar || kind == ValueKind::Vector;
        if !allowed(kinds.0) || !allowed(kinds.1) {
            return fail("binary expression must contain only scalar and instant vector types");
        }
        let scalars = kinds == (ValueKind::Scalar, ValueKind::Scalar);
        let vectors = kinds == (ValueKind::Vector, ValueKind::Vector);
        if op.is_set() && !vectors {
            return fail(format!("set operator {name:?} not allowed in binary scalar expression"));
        }
        let returns_bool = binary.return_bool();
        if returns_bool && !op.is_comparison() {
            return fail("bool modifier can only be used on comparison operators");
        }
        if scalars && op.is_comparison() && !returns_bool {
            return fail("comparisons between scalars must use BOOL modifier");
        }
        let matching = matching(binary.modifier.as_ref())?;
        let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
        if fills && op.is_set() {
            return fail("filling in missing series not allowed for set operators");
        }
        if !vectors && (fills || !matching.labels.is_empty()) {
            return fail("vector matching only allowed between instant vectors");
        }
        let invariant = left.is_invariant(&self.selectors) && right.is_invariant(&self.selectors);
        let kind = if scalars { ValueKind::Scalar } else { ValueKind::Vector };
        Ok(Node::Binary(Box::new(Binary { op, left, right, matching, returns_bool, kind, invariant })))
    }

    fn aggregate(&mut self, aggregate: &ast::AggregateExpr) -> Result<Node, Error> {
        let name = aggregate.op.to_string();
        let Some((op, name, param_kind)) = aggregate_op(&name) else {
            return fail(format!("aggregation operator expected in aggregation expression but got {name:?}"));
        };
        if matches!(op, AggregateOp::Limitk | AggregateOp::LimitRatio) && !self.experimental {
            return fail(format!(
                "{name}() is experimental and must be enabled with --enable-feature=promql-experimental-functions"
            ));
        }
        let expr = self.node(&aggregate.expr, Some(name))?;
        expect_kind(ValueKind::Vector, &expr, "aggregation expression")?;
        let param = match (&aggregate.param, param_kind) {
            (Some(param), Some(kind)) => {
                let param = self.node(param, None)?;
                expect_kind(kind, &param, "aggregation parameter")?;
                Some(param)
            }
            _ => None,
        };
        let grouping = match &aggregate.modifier {
            Some(modifier) => {
                Grouping { without: !modifier.is_include(), labels: shared(&modifier.labels().labels)? }
            }
            None => Grouping { without: false, labels: Vec::new() },
        };
        let invariant = expr.is_invariant(&self.selectors)
            && param.as_ref().is_none_or(|param| param.is_invariant(&self.selectors));
        Ok(Node::Aggregate(Box::new(Aggregate { op, expr, param, grouping, invariant })))
    }

    fn call(&mut self, call: &ast::Call) -> Result<Node, Error> {
        let name = call.func.name;
        let Some(function) = Function::by_name(name) else {
            return fail(format!("function {name:?} is not supported"));
        };
        if matches!(function.kind, Kind::NativeHistogram) {
            return fail(format!("function {name:?} reads native histograms, which are not supported"));
        }
        if function.experimental && !self.experimental {
            return fail(format!("function {name:?} is not enabled"));
        }
        let given = call.args.len();
        if given > LABELS_MAX {
            return fail(format!("more than {LABELS_MAX} arguments in call to {name:?}"));
        }
        let (least, most) = function.arity();
        if given < least || most.is_some_and(|most| given > most) {
            return fail(format!("wrong number of arguments in call to {name:?}: {given}"));
        }
        let mut args = Vec::with_capacity(given);
        for (at, arg) in call.args.args.iter().enumerate() {
            let node = self.node(arg, Some(function.name))?;
            let expected = function.args[at.min(function.args.len() - 1)];
            expect_kind(expected, &node, &format!("call to function {name:?}"))?;
            // Texts are read from the tree.
            if expected == ValueKind::String && !matches!(node, Node::Text(_)) {
                return fail(format!("expected a string literal in call to function {name:?}"));
            }
            args.push(node);
        }
        let all_invariant = args.iter().all(|arg| arg.is_invariant(&self.selectors));
        let of_selector =
            matches!(function.kind, Kind::Timestamp) && matches!(args[..], [Node::Vector { .. }]);
        let invariant = all_invariant && (!function.reads_time() || of_selector);
        Ok(Node::Call { function, args, invariant })
    }
}

fn expect_kind(expected: ValueKind, node: &Node, context: &str) -> Result<(), Error> {
    let got = node.kind();
    if got == expected {
        return Ok(());
    }
    fail(format!("expected type {} in {context}, got {}", expected.documented(), got.documented()))
}

/// A list of labels, sorted.
fn shared(names: &[String]) -> Result<Vec<Arc<str>>, Error> {
    if names.len() > LABELS_MAX {
        return fail(format!("more than {LABELS_MAX} labels in a list"));
    }
    let mut names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort();
    Ok(names)
}

/// In Prometheus a dot matches line feeds, too.
fn dot_all(parsed: &Regex) -> Result<Regex, Error> {
    Regex::new(&format!("(?s){}", parsed.as_str())).or_else(|error| fail(error.to_string()))
}

fn milliseconds(duration: Duration) -> Result<i64, Error> {
    let milliseconds = duration.as_millis();
    if milliseconds > DURATION_MAX_MS {
        return fail("duration out of range");
    }
    Ok(milliseconds as i64)
}

fn window(range: i64, offset: Option<&ast::Offset>, at: Option<&ast::AtModifier>) -> Result<Window, Error> {
    let offset = match offset {
        Some(ast::Offset::Pos(duration)) => milliseconds(*duration)?,
        Some(ast::Offset::Neg(duration)) => -milliseconds(*duration)?,
        None => 0,
    };
    let at = match at {
        Some(ast::AtModifier::Start) => Some(At::Start),
        Some(ast::AtModifier::End) => Some(At::End),
        Some(ast::AtModifier::At(time)) => Some(At::Time(time_of(*time)?)),
        None => None,
    };
    Ok(Window { range, offset, at })
}

fn time_of(time: SystemTime) -> Result<i64, Error> {
    let milliseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_millis() as i128,
        Err(before) => -(before.duration().as_millis() as i128),
    };
    match i64::try_from(milliseconds) {
        Ok(milliseconds) if milliseconds.abs() < i64::MAX / 16 => Ok(milliseconds),
        _ => fail("timestamp out of bounds for @ modifier"),
    }
}

fn matching(modifier: Option<&ast::BinModifier>) -> Result<Matching, Error> {
    let mut matching = Matching {
        cardinality: Cardinality::OneToOne,
        on: false,
        labels: Vec::new(),
        include: Vec::new(),
        fill_left: None,
        fill_right: None,
    };
    let Some(modifier) = modifier else { return Ok(matching) };
    if let Some(labels) = &modifier.matching {
        matching.on = labels.is_include();
        matching.labels = shared(&labels.labels().labels)?;
    }
    match &modifier.card {
        ast::VectorMatchCardinality::ManyToOne(labels) => {
            matching.cardinality = Cardinality::ManyToOne;
            matching.include = shared(&labels.labels)?;
        }
        ast::VectorMatchCardinality::OneToMany(labels) => {
            matching.cardinality = Cardinality::OneToMany;
            matching.include = shared(&labels.labels)?;
        }
        ast::VectorMatchCardinality::OneToOne | ast::VectorMatchCardinality::ManyToMany => {}
    }
    matching.fill_left = modifier.fill_values.lhs;
    matching.fill_right = modifier.fill_values.rhs;
    Ok(matching)
}

fn binary_op(name: &str) -> Option<BinaryOp> {
    Some(match name {
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Sub,
        "*" => BinaryOp::Mul,
        "/" => BinaryOp::Div,
        "%" => BinaryOp::Mod,
        "^" => BinaryOp::Pow,
        "atan2" => BinaryOp::Atan2,
        "==" => BinaryOp::Equal,
        "!=" => BinaryOp::NotEqual,
        "<" => BinaryOp::Less,
        "<=" => BinaryOp::LessEqual,
        ">" => BinaryOp::Greater,
        ">=" => BinaryOp::GreaterEqual,
        "and" => BinaryOp::And,
        "or" => BinaryOp::Or,
        "unless" => BinaryOp::Unless,
        _ => return None,
    })
}

/// The operator, its name, and the type of its parameter.
fn aggregate_op(name: &str) -> Option<(AggregateOp, &'static str, Option<ValueKind>)> {
    use ValueKind::{Scalar, String};
    Some(match name {
        "sum" => (AggregateOp::Sum, "sum", None),
        "avg" => (AggregateOp::Avg, "avg", None),
        "count" => (AggregateOp::Count, "count", None),
        "min" => (AggregateOp::Min, "min", None),
        "max" => (AggregateOp::Max, "max", None),
        "group" => (AggregateOp::Group, "group", None),
        "stddev" => (AggregateOp::Stddev, "stddev", None),
        "stdvar" => (AggregateOp::Stdvar, "stdvar", None),
        "topk" => (AggregateOp::Topk, "topk", Some(Scalar)),
        "bottomk" => (AggregateOp::Bottomk, "bottomk", Some(Scalar)),
        "count_values" => (AggregateOp::CountValues, "count_values", Some(String)),
        "quantile" => (AggregateOp::Quantile, "quantile", Some(Scalar)),
        "limitk" => (AggregateOp::Limitk, "limitk", Some(Scalar)),
        "limit_ratio" => (AggregateOp::LimitRatio, "limit_ratio", Some(Scalar)),
        _ => return None,
    })
}

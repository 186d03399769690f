//! Converts the syntax tree to the plan: durations and times become milliseconds, and selectors get an index in the
//! list of reads.

use std::sync::Arc;

use super::selection::QueryTimes;
use super::{
    Aggregate, At, Binary, Call, Grouping, Info, LengthOp, Matcher, Matching, Node, Plan, Selector,
    ValueKind, Window,
};
use crate::error::{Error, Result};
use crate::functions::{Kind, math};
use crate::labels::METRIC_NAME;
use crate::plan::MatchKind;
use crate::syntax::{self, Expr, ExprKind, Length, LengthKind, Shift, Span};

/// Longer ranges and offsets are rejected, so that sums of times do not overflow.
const DURATION_MAX_MS: i64 = 9_223_372_036_000;

pub(super) fn lower(query: &str, expr: &Expr, times: QueryTimes) -> Result<Plan> {
    let mut lowering =
        Lowering { times, selectors: Vec::new(), subqueries: Vec::new(), has_subqueries: false };
    let root = lowering.node(expr, None)?;
    let Lowering { selectors, has_subqueries, .. } = lowering;
    Ok(Plan { root, selectors, has_subqueries, times, query: query.to_owned() })
}

struct Lowering {
    times: QueryTimes,
    selectors: Vec<Selector>,
    /// Those around the current expression.
    subqueries: Vec<Window>,
    has_subqueries: bool,
}

impl Lowering {
    /// `function` is the function or aggregation directly around the expression.
    fn node(&mut self, expr: &Expr, function: Option<&'static str>) -> Result<Node> {
        Ok(match &expr.kind {
            ExprKind::Number { value, .. } => Node::Number(*value),
            ExprKind::Text(text) => Node::Text(text.as_str().into()),
            ExprKind::Paren(_) => self.node(expr.inner(), function)?,
            ExprKind::Vector(selector) => Node::Vector { selector: self.selector(selector, None, function)? },
            ExprKind::Range { selector, range } => {
                Node::Range { selector: self.selector(selector, Some(range), function)? }
            }
            ExprKind::Subquery(subquery) => self.subquery(subquery)?,
            ExprKind::Unary { minus: false, expr } => self.node(expr, function)?,
            ExprKind::Unary { minus: true, expr } => {
                let expr = self.node(expr, function)?;
                let (invariant, kind) = (expr.is_invariant(&self.selectors), expr.kind());
                Node::Negate { expr: Box::new(expr), invariant, kind }
            }
            ExprKind::Binary(_) => self.binary_chain(expr)?,
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate)?,
            ExprKind::Call { function, args } if matches!(function.kind, Kind::Info) => self.info(args)?,
            ExprKind::Call { function, args } => {
                // Prometheus reports the position of subqueries at their beginning.
                let args_at = args.iter().map(|arg| match arg.inner() {
                    Expr { kind: ExprKind::Subquery(_), .. } => 0,
                    inner => inner.span.start,
                });
                let args_at = args_at.collect();
                let args = args.iter().map(|arg| self.node(arg, Some(function.name)));
                let args = args.collect::<Result<Vec<Node>>>()?;
                let all_invariant = args.iter().all(|arg| arg.is_invariant(&self.selectors));
                let of_selector =
                    matches!(function.kind, Kind::Timestamp) && matches!(args[..], [Node::Vector { .. }]);
                let invariant = all_invariant && (!function.reads_time() || of_selector);
                Node::Call(Call { function, args, at: expr.span.start, args_at, invariant })
            }
        })
    }

    fn selector(
        &mut self,
        parsed: &syntax::Selector,
        range: Option<&Length>,
        function: Option<&'static str>,
    ) -> Result<usize> {
        let matchers = matchers(parsed);
        let window = self.window(range, &parsed.shift)?;
        Ok(self.place(Selector {
            matchers,
            window,
            is_range: range.is_some(),
            extension: parsed.extension,
            subqueries: self.subqueries.clone(),
            function,
        }))
    }

    /// Equal selectors share an index, so that their series are read once.
    fn place(&mut self, selector: Selector) -> usize {
        let known = self.selectors.iter().position(|known| *known == selector);
        known.unwrap_or_else(|| {
            self.selectors.push(selector);
            self.selectors.len() - 1
        })
    }

    fn window(&self, range: Option<&Length>, shift: &Shift) -> Result<Window> {
        let positive = |length| self.milliseconds(length, false);
        let range = range.map(positive).transpose()?.unwrap_or(0);
        let offset = shift.offset.as_ref().map(|offset| self.milliseconds(offset, true)).transpose()?;
        let at = shift.at.map(|at| match at {
            At::Start => self.times.start_ms,
            At::End => self.times.end_ms,
            At::Time(time) => time,
        });
        Ok(Window { range, offset: offset.unwrap_or(0), at })
    }

    fn milliseconds(&self, length: &Length, may_be_negative: bool) -> Result<i64> {
        let fail = |text: &str| Err(fault(length, text));
        let milliseconds = if length.literal_seconds().is_some() {
            length.literal_ms()
        } else {
            let seconds = self.seconds(length)?;
            if !seconds.is_finite() {
                return fail("duration is NaN or infinite");
            }
            if seconds <= 0.0 && !may_be_negative {
                return fail("duration must be greater than 0");
            }
            (seconds * 1000.0) as i64
        };
        if milliseconds.saturating_abs() > DURATION_MAX_MS {
            return fail("duration is out of range");
        }
        Ok(milliseconds)
    }

    fn seconds(&self, length: &Length) -> Result<f64> {
        Ok(match &length.kind {
            LengthKind::Seconds { value, .. } => *value,
            LengthKind::Step => self.times.step_ms as f64 / 1000.0,
            LengthKind::Range => (self.times.end_ms - self.times.start_ms) as f64 / 1000.0,
            LengthKind::Unary { minus, length } => {
                let seconds = self.seconds(length)?;
                if *minus { -seconds } else { seconds }
            }
            LengthKind::Binary { op, left, right } => {
                let (left, right) = (self.seconds(left)?, self.seconds(right)?);
                match op {
                    LengthOp::Add => left + right,
                    LengthOp::Sub => left - right,
                    LengthOp::Mul => left * right,
                    LengthOp::Div if right == 0.0 => return Err(fault(length, "division by zero")),
                    LengthOp::Div => left / right,
                    LengthOp::Mod if right == 0.0 => return Err(fault(length, "modulo by zero")),
                    LengthOp::Mod => left % right,
                    LengthOp::Pow => left.powf(right),
                    // NaN is the result if one of them is NaN.
                    LengthOp::MinOf => math::min(left, right),
                    LengthOp::MaxOf => math::max(left, right),
                }
            }
        })
    }

    fn subquery(&mut self, subquery: &syntax::Subquery) -> Result<Node> {
        // In the order in which Prometheus reports errors.
        let shifted = self.window(None, &subquery.shift)?;
        let step = subquery.step.as_ref().map(|step| self.milliseconds(step, false)).transpose()?;
        let window = Window { range: self.milliseconds(&subquery.range, false)?, ..shifted };
        self.has_subqueries = true;
        self.subqueries.push(window);
        let expr = self.node(&subquery.expr, None)?;
        self.subqueries.pop();
        // Steps below a millisecond count as the default.
        Ok(Node::Subquery { expr: Box::new(expr), window, step: step.filter(|step| *step > 0) })
    }

    /// The left operands of a chain are visited iteratively: chains may be long.
    fn binary_chain(&mut self, outermost: &Expr) -> Result<Node> {
        let mut chain = Vec::new();
        let mut innermost = outermost;
        while let ExprKind::Binary(binary) = &innermost.kind {
            chain.push(binary.as_ref());
            innermost = &binary.left;
        }
        let mut node = self.node(innermost, None)?;
        for binary in chain.into_iter().rev() {
            let right = self.node(&binary.right, None)?;
            node = self.binary(binary, node, right);
        }
        Ok(node)
    }

    fn binary(&self, binary: &syntax::Binary, left: Node, right: Node) -> Node {
        let scalars = (left.kind(), right.kind()) == (ValueKind::Scalar, ValueKind::Scalar);
        let kind = if scalars { ValueKind::Scalar } else { ValueKind::Vector };
        let invariant = left.is_invariant(&self.selectors) && right.is_invariant(&self.selectors);
        let matching = matching(&binary.matching);
        let (op, returns_bool) = (binary.op, binary.returns_bool);
        Node::Binary(Box::new(Binary { op, left, right, matching, returns_bool, kind, invariant }))
    }

    fn aggregate(&mut self, aggregate: &syntax::Aggregate) -> Result<Node> {
        let expr = self.node(&aggregate.expr, Some(aggregate.op.name()))?;
        let param = aggregate.param.as_ref().map(|param| self.node(param, None)).transpose()?;
        let param_at = aggregate.param.as_ref().map_or(0, |param| param.span.start);
        let grouping = Grouping { without: aggregate.without, labels: shared(&aggregate.grouping) };
        let invariant = expr.is_invariant(&self.selectors)
            && param.as_ref().is_none_or(|param| param.is_invariant(&self.selectors));
        let op = aggregate.op;
        Ok(Node::Aggregate(Box::new(Aggregate { op, expr, param, param_at, grouping, invariant })))
    }

    fn info(&mut self, args: &[Expr]) -> Result<Node> {
        let expr = self.node(&args[0], None)?;
        let asked = match args.get(1).map(|arg| &arg.kind) {
            Some(ExprKind::Vector(selector)) => selector.matchers.clone(),
            _ => Vec::new(),
        };
        let (names, matchers): (Vec<Matcher>, Vec<Matcher>) =
            asked.into_iter().partition(|matcher| matcher.name == METRIC_NAME);
        let names = info_names(names)?;
        let mut references = References { lowering: self, found: Vec::new(), is_free: false };
        references.walk(&args[0], &mut Vec::new())?;
        let (offset, at) = references.shared().unwrap_or((0, None));
        let selector = self.place(Selector {
            matchers: names.iter().chain(&matchers).cloned().collect(),
            window: Window { range: 0, offset, at },
            is_range: false,
            extension: None,
            subqueries: self.subqueries.clone(),
            function: Some("info"),
        });
        let invariant = at.is_some() && expr.is_invariant(&self.selectors);
        Ok(Node::Info(Box::new(Info { expr, selector, names, matchers, invariant })))
    }
}

/// An error in a duration.
fn fault(length: &Length, text: &str) -> Error {
    let Span { start, end } = length.span;
    Error::bad_data(format!("{start}:{end}: {text}"))
}

/// The metrics whose labels `info` adds by default.
fn info_names(asked: Vec<Matcher>) -> Result<Vec<Matcher>> {
    if asked.is_empty() {
        return Ok(vec![Matcher::equal(METRIC_NAME, "target_info")]);
    }
    if asked.iter().any(|matcher| matches!(matcher.operator(), "=" | "=~")) {
        return Ok(asked);
    }
    let any = Matcher::new(MatchKind::Matches, METRIC_NAME, ".+_info")?;
    Ok([any].into_iter().chain(asked).collect())
}

/// The offset and `@` with which an expression reads each of its series.
struct References<'l> {
    lowering: &'l Lowering,
    found: Vec<(i64, Option<i64>)>,
    /// Whether a part of the expression reads no series.
    is_free: bool,
}

impl References<'_> {
    /// Collects the offsets of an expression; returns whether it reads series. `shifts` are those of the subqueries around it.
    fn walk(&mut self, expr: &Expr, shifts: &mut Vec<Window>) -> Result<bool> {
        if !matches!(expr.kind(), ValueKind::Vector | ValueKind::Matrix) {
            return Ok(false);
        }
        let children: Vec<&Expr> = match &expr.kind {
            ExprKind::Number { .. } | ExprKind::Text(_) => return Ok(false),
            ExprKind::Vector(selector) | ExprKind::Range { selector, .. } => {
                let window = self.lowering.window(None, &selector.shift)?;
                let (mut offset, mut at) = (window.offset, window.at);
                for outer in shifts.iter().rev().take_while(|_| window.at.is_none()) {
                    if at.is_none() {
                        offset += outer.offset;
                        at = outer.at;
                    }
                }
                self.found.push((offset, at));
                return Ok(true);
            }
            ExprKind::Subquery(subquery) => {
                shifts.push(self.lowering.window(None, &subquery.shift)?);
                let reads = self.walk(&subquery.expr, shifts);
                shifts.pop();
                return reads;
            }
            ExprKind::Call { function, args } if matches!(function.kind, Kind::Info) => vec![&args[0]],
            ExprKind::Paren(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Call { .. } => expr.children(),
        };
        let mut reads = false;
        for child in children {
            reads |= self.walk(child, shifts)?;
        }
        self.is_free |= !reads;
        Ok(reads)
    }

    /// The offset and `@` of all series, if they are equivalent.
    fn shared(&self) -> Option<(i64, Option<i64>)> {
        let first = *self.found.first()?;
        let absolute = |(offset, at): (i64, Option<i64>)| (at.map_or(offset, |at| at - offset), at.is_some());
        let same = self.found.iter().all(|other| absolute(*other) == absolute(first));
        (same && !self.is_free).then_some(first)
    }
}

/// What a selector matches, its name among them.
pub(super) fn matchers(selector: &syntax::Selector) -> Vec<Matcher> {
    let name = selector.name.as_deref().map(|name| Matcher::equal(METRIC_NAME, name));
    name.into_iter().chain(selector.matchers.iter().cloned()).collect()
}

/// A list of labels, sorted.
fn shared(names: &[String]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort();
    names
}

fn matching(matching: &syntax::Matching) -> Matching {
    Matching {
        cardinality: matching.cardinality,
        on: matching.on,
        labels: shared(&matching.labels),
        include: shared(&matching.include),
        fill_left: matching.fill_left,
        fill_right: matching.fill_right,
    }
}

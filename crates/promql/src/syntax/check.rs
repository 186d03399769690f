//! Type checks of operators, functions and aggregations, with Prometheus' error texts.

use super::tree::{Aggregate, Binary, Expr, ExprKind, Selector};
use super::{Parsed, fault};
use crate::functions::{Function, Kind};
use crate::labels::METRIC_NAME;
use crate::plan::{Cardinality, ValueKind};
use crate::quoted::quoted;

/// Checks an expression and all within it.
pub(super) fn check(expr: &Expr) -> Parsed<()> {
    let at = expr.span.start;
    match &expr.kind {
        ExprKind::Number { .. } | ExprKind::Text(_) => Ok(()),
        ExprKind::Paren(inner) => check(inner),
        ExprKind::Vector(selector) | ExprKind::Range { selector, .. } => check_selector(selector, at),
        ExprKind::Subquery(subquery) => {
            check(&subquery.expr)?;
            let kind = subquery.expr.kind();
            if kind != ValueKind::Vector {
                let got = kind.name();
                return fault(at, format!("subquery is only allowed on instant vector, got {got} instead"));
            }
            Ok(())
        }
        ExprKind::Unary { expr: inner, .. } => {
            check(inner)?;
            let kind = inner.kind();
            if !is_operand(kind) {
                let got = kind.documented();
                let text = "unary expression only allowed on expressions of type scalar or instant vector";
                return fault(at, format!("{text}, got {got:?}"));
            }
            Ok(())
        }
        ExprKind::Binary(_) => check_chain(expr),
        ExprKind::Aggregate(aggregate) => check_aggregate(aggregate),
        ExprKind::Call { function, args } => check_call(function, args, at),
    }
}

fn is_operand(kind: ValueKind) -> bool {
    kind == ValueKind::Scalar || kind == ValueKind::Vector
}

fn expect(expr: &Expr, wanted: ValueKind, context: &str) -> Parsed<()> {
    check(expr)?;
    let got = expr.kind();
    if got == wanted {
        return Ok(());
    }
    let (wanted, got) = (wanted.documented(), got.documented());
    fault(expr.span.start, format!("expected type {wanted} in {context}, got {got}"))
}

fn check_selector(selector: &Selector, at: usize) -> Parsed<()> {
    if let Some(name) = &selector.name {
        let other = selector.matchers.iter().find(|matcher| matcher.name == METRIC_NAME);
        return match other {
            Some(other) => {
                let (name, other) = (quoted(name), quoted(&other.value));
                fault(at, format!("metric name must not be set twice: {name} or {other}"))
            }
            None => Ok(()),
        };
    }
    if selector.matchers.iter().all(|matcher| matcher.matches("")) {
        return fault(at, "vector selector must contain at least one non-empty matcher");
    }
    Ok(())
}

/// The left operands of a chain are walked in a loop: chains may be long.
fn check_chain(outermost: &Expr) -> Parsed<()> {
    let mut chain = Vec::new();
    let mut innermost = outermost;
    while let ExprKind::Binary(binary) = &innermost.kind {
        chain.push((binary.as_ref(), innermost.span.start));
        innermost = &binary.left;
    }
    check(innermost)?;
    let mut kind = innermost.kind();
    for (binary, at) in chain.into_iter().rev() {
        check(&binary.right)?;
        kind = check_binary(binary, kind, binary.right.kind(), at)?;
    }
    Ok(())
}

fn check_binary(binary: &Binary, left: ValueKind, right: ValueKind, at: usize) -> Parsed<ValueKind> {
    let (op, matching) = (binary.op, &binary.matching);
    let scalars = (left, right) == (ValueKind::Scalar, ValueKind::Scalar);
    let vectors = (left, right) == (ValueKind::Vector, ValueKind::Vector);
    if binary.returns_bool && !op.is_comparison() {
        return fault(binary.op_at, "bool modifier can only be used on comparison operators");
    }
    if op.is_comparison() && !binary.returns_bool && scalars {
        return fault(binary.op_at, "comparisons between scalars must use BOOL modifier");
    }
    if matching.on
        && let Some(label) = matching.labels.iter().find(|label| matching.include.contains(label))
    {
        let text = format!("label {} must not occur in ON and GROUP clause at once", quoted(label));
        return fault(binary.op_at, text);
    }
    for (kind, operand) in [(left, &binary.left), (right, &binary.right)] {
        if !is_operand(kind) {
            let text = "binary expression must contain only scalar and instant vector types";
            return fault(operand.span.start, text);
        }
    }
    if !vectors && !matching.labels.is_empty() {
        return fault(at, "vector matching only allowed between instant vectors");
    }
    if !vectors && matching.fills() {
        return fault(at, "filling in missing series only allowed between instant vectors");
    }
    if op.is_set() {
        if !vectors {
            return fault(
                at,
                format!("set operator {:?} not allowed in binary scalar expression", op.name()),
            );
        }
        if matching.cardinality != Cardinality::OneToOne {
            return fault(at, format!("no grouping allowed for {:?} operation", op.name()));
        }
        if matching.fills() {
            return fault(at, "filling in missing series not allowed for set operators");
        }
    }
    Ok(if scalars { ValueKind::Scalar } else { ValueKind::Vector })
}

fn check_aggregate(aggregate: &Aggregate) -> Parsed<()> {
    expect(&aggregate.expr, ValueKind::Vector, "aggregation expression")?;
    if let (Some(param), Some(kind)) = (&aggregate.param, aggregate.op.param()) {
        expect(param, kind, "aggregation parameter")?;
    }
    Ok(())
}

fn check_call(function: &Function, args: &[Expr], at: usize) -> Parsed<()> {
    let name = function.name;
    if matches!(function.kind, Kind::NativeHistogram) {
        return fault(at, format!("function {name:?} reads native histograms, which are not supported"));
    }
    let given = args.len();
    let (least, most) = function.arity();
    let wanted = match most {
        Some(most) if given > most && least == most => Some(format!("{least}")),
        _ if given < least && most == Some(least) => Some(format!("{least}")),
        Some(most) if given > most => Some(format!("at most {most}")),
        _ if given < least => Some(format!("at least {least}")),
        _ => None,
    };
    if let Some(wanted) = wanted {
        return fault(at, format!("expected {wanted} argument(s) in call to {name:?}, got {given}"));
    }
    let is_info = matches!(function.kind, Kind::Info);
    if is_info && let Some(arg) = args.get(1) {
        check_label_selector(arg, at)?;
    }
    for (place, arg) in args.iter().enumerate().filter(|(place, _)| !is_info || *place != 1) {
        let kind = function.args[place.min(function.args.len() - 1)];
        expect(arg, kind, &format!("call to function {name:?}"))?;
    }
    Ok(())
}

/// The second argument of `info`: label matchers, which may match nothing.
fn check_label_selector(arg: &Expr, at: usize) -> Parsed<()> {
    if arg.kind() != ValueKind::Vector {
        let got = arg.kind().documented();
        return fault(at, format!("expected type instant vector in call to function \"info\", got {got}"));
    }
    match &arg.kind {
        ExprKind::Vector(selector) if selector.name.is_none() => Ok(()),
        ExprKind::Vector(_) => {
            fault(arg.span.start, "expected label selectors only, got vector selector instead")
        }
        _ => fault(arg.span.start, "expected label selectors only"),
    }
}

//! A tree as a JSON document, as Prometheus' `parse_query` gives it.

use serde_json::{Value, json};

use super::tree::{Aggregate, Binary, Expr, ExprKind, Length, LengthKind, Selector, Shift};
use crate::labels::METRIC_NAME;
use crate::numbers::plain;
use crate::plan::{At, Cardinality, Extension, Matcher, ValueKind};

/// Sets a field of a node by moving the value. `json!` would copy it, in time quadratic in the tree's depth.
fn with(mut node: Value, name: &str, inner: Value) -> Value {
    node[name] = inner;
    node
}

pub(super) fn document(expr: &Expr) -> Value {
    match &expr.kind {
        ExprKind::Number { value, .. } => json!({"type": "numberLiteral", "val": plain(*value)}),
        ExprKind::Text(text) => json!({"type": "stringLiteral", "val": text}),
        ExprKind::Paren(inner) => with(json!({"type": "parenExpr"}), "expr", document(inner)),
        ExprKind::Vector(selector) => selected("vectorSelector", selector),
        ExprKind::Range { selector, range } => {
            let mut value = selected("matrixSelector", selector);
            value["range"] = json!(range.literal_ms());
            value["rangeExpr"] = arithmetic(Some(range));
            value
        }
        ExprKind::Subquery(subquery) => {
            let mut value = shifted(&subquery.shift);
            value["type"] = json!("subquery");
            value["expr"] = document(&subquery.expr);
            value["range"] = json!(subquery.range.literal_ms());
            value["rangeExpr"] = arithmetic(Some(&subquery.range));
            value["step"] = json!(subquery.step.as_ref().map_or(0, Length::literal_ms));
            value["stepExpr"] = arithmetic(subquery.step.as_ref());
            value
        }
        ExprKind::Unary { minus, expr } => {
            let op = if *minus { "-" } else { "+" };
            with(json!({"type": "unaryExpr", "op": op}), "expr", document(expr))
        }
        ExprKind::Binary(binary) => operation(binary),
        ExprKind::Aggregate(aggregate) => aggregation(aggregate),
        ExprKind::Call { function, args } => {
            let types: Vec<&str> = function.args.iter().map(|kind| kind.name()).collect();
            let node = json!({
                "type": "call",
                "func": {
                    "name": function.name,
                    "argTypes": types,
                    "variadic": function.variadic,
                    "returnType": function.returns.name(),
                },
            });
            with(node, "args", args.iter().map(document).collect())
        }
    }
}

fn selected(kind: &str, selector: &Selector) -> Value {
    let mut value = shifted(&selector.shift);
    let name = selector.name.as_deref().unwrap_or_default();
    let of_name = selector.name.as_deref().map(|name| Matcher::equal(METRIC_NAME, name));
    let matchers = selector
        .matchers
        .iter()
        .chain(&of_name)
        .map(|matcher| json!({"name": matcher.name, "value": matcher.value, "type": matcher.operator()}));
    value["type"] = json!(kind);
    value["name"] = json!(name);
    value["matchers"] = matchers.collect();
    value["anchored"] = json!(selector.extension == Some(Extension::Anchored));
    value["smoothed"] = json!(selector.extension == Some(Extension::Smoothed));
    value
}

fn shifted(shift: &Shift) -> Value {
    let (timestamp, start_or_end) = match shift.at {
        None => (Value::Null, Value::Null),
        Some(At::Time(time)) => (json!(time), Value::Null),
        Some(At::Start) => (Value::Null, json!("start")),
        Some(At::End) => (Value::Null, json!("end")),
    };
    json!({
        "offset": shift.offset.as_ref().map_or(0, Length::literal_ms),
        "offsetExpr": arithmetic(shift.offset.as_ref()),
        "timestamp": timestamp,
        "startOrEnd": start_or_end,
    })
}

/// A duration that is no literal.
fn arithmetic(length: Option<&Length>) -> Value {
    length.filter(|length| length.literal_seconds().is_none()).map_or(Value::Null, term)
}

fn term(length: &Length) -> Value {
    let node = |op: &str, left: Value, right: Value| json!({"type": "durationExpr", "op": op, "lhs": left, "rhs": right, "wrapped": length.wrapped});
    match &length.kind {
        LengthKind::Seconds { value, is_duration } => {
            json!({"type": "numberLiteral", "val": plain(*value), "duration": is_duration})
        }
        LengthKind::Step => node("step", Value::Null, Value::Null),
        LengthKind::Range => node("range", Value::Null, Value::Null),
        LengthKind::Unary { minus, length } => {
            node(if *minus { "-" } else { "+" }, Value::Null, term(length))
        }
        LengthKind::Binary { op, left, right } => node(op.name(), term(left), term(right)),
    }
}

fn operation(binary: &Binary) -> Value {
    let matching = &binary.matching;
    let is_vector = |expr: &Expr| expr.kind() == ValueKind::Vector;
    let cardinality = match matching.cardinality {
        _ if binary.op.is_set() => "many-to-many",
        Cardinality::OneToOne => "one-to-one",
        Cardinality::ManyToOne => "many-to-one",
        Cardinality::OneToMany => "one-to-many",
    };
    let described = (is_vector(&binary.left) && is_vector(&binary.right)).then(|| {
        json!({
            "card": cardinality,
            "labels": matching.labels,
            "on": matching.on,
            "include": matching.include,
            "fillValues": {"lhs": matching.fill_left, "rhs": matching.fill_right},
        })
    });
    let node = json!({
        "type": "binaryExpr",
        "op": binary.op.name(),
        "matching": described,
        "bool": binary.returns_bool,
    });
    with(with(node, "lhs", document(&binary.left)), "rhs", document(&binary.right))
}

fn aggregation(aggregate: &Aggregate) -> Value {
    let node = json!({
        "type": "aggregation",
        "op": aggregate.op.name(),
        "grouping": aggregate.grouping,
        "without": aggregate.without,
    });
    let param = aggregate.param.as_ref().map_or(Value::Null, document);
    with(with(node, "expr", document(&aggregate.expr)), "param", param)
}

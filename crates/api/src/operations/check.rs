//! Validates a list of operations, with Gnocchi's error texts.
//!
//! In Gnocchi, voluptuous tries several schemas in order. Of their errors it reports the deepest in the
//! document, and among equals the first. Only the lists of names in a metric node report a position, and the
//! metric node's schema is the first. So the reported error is one in a metric node's names, if the operators
//! around it are valid, and otherwise that of the metric schema on the outermost list.

use gnudi_app::{
    json::Value,
    python,
    schema::{Checked, Invalid, integer_from},
};
use gnudi_series::{
    operations::{MetricName, Metrics, Operation, Operator, Reaggregation},
    resample::Resample,
};

/// Validates a metric node, or a list of an operator and its operands.
pub fn operation(document: &Value) -> Checked<Operation> {
    let fault = match metric(document) {
        Ok(metrics) => return Ok(Operation::Metric(metrics)),
        Err(fault) => fault,
    };
    let Value::Array(items) = document else { return Err(fault) };
    operator(items).map_err(|other| match other {
        Some(other) if other.depth() > fault.depth() => other,
        _ => fault,
    })
}

/// A metric node.
fn metric(document: &Value) -> Checked<Metrics> {
    let items = match document {
        Value::Array(items) => items,
        other => {
            let class = other.class_name();
            return Err(Invalid::new(format!("Expected a tuple/list, got a <class '{class}'>")));
        }
    };
    let [first, names @ ..] = &items[..] else {
        return Err(Invalid::new("Operation must not be empty"));
    };
    if names.is_empty() {
        return Err(Invalid::new("Operation need at least one argument"));
    }
    if *first != Value::from("metric") {
        let name = match first {
            Value::Str(name) => name.clone(),
            other => other.repr(),
        };
        return Err(Invalid::new(format!("'{name}' operation invalid")));
    }
    if let Some(name) = metric_name(names) {
        return Ok(Metrics::One(name));
    }
    let named = |(index, item): (usize, &Value)| {
        let (name, fault) = match item {
            Value::Array(pair) if pair.len() == 2 => (metric_name(pair), "expected str"),
            // The exception of Gnocchi's schema for what is no pair has no text.
            _ => (None, "None"),
        };
        name.ok_or_else(|| Invalid::new(fault).in_index(index))
    };
    names.iter().enumerate().map(named).collect::<Checked<_>>().map(Metrics::Many)
}

fn metric_name(items: &[Value]) -> Option<MetricName> {
    match items {
        [Value::Str(name), Value::Str(aggregation)] => {
            Some(MetricName { name: name.clone(), aggregation: aggregation.clone() })
        }
        _ => None,
    }
}

/// An operator and its operands. The error is that of the first invalid operand, if it has a position to
/// report.
fn operator(items: &[Value]) -> Result<Operation, Option<Invalid>> {
    let [Value::Str(name), arguments @ ..] = items else { return Err(None) };
    match (name.parse().map_err(|_| None)?, arguments) {
        (Operator::Clip, [value, min, rest @ ..]) if rest.len() <= 1 => Ok(Operation::Clip {
            value: operand(value)?,
            min: operand(min)?,
            max: rest.first().map(operand).transpose()?,
        }),
        (Operator::Aggregate, [method, value]) => {
            Ok(Operation::Aggregate { method: reaggregation(method)?, operand: operand(value)? })
        }
        (Operator::Rolling, [method, window, value]) => Ok(Operation::Rolling {
            method: reaggregation(method)?,
            window: integer_from(1)(window).map_err(|_| None)?,
            operand: operand(value)?,
        }),
        (Operator::Resample, [method, span, value]) => Ok(Operation::Resample {
            method: reaggregation(method)?.stored().ok_or(None)?,
            to: Resample::Span(python::timespan(span).map_err(|_| None)?),
            operand: operand(value)?,
        }),
        (Operator::Unary(operator), [value]) => Ok(Operation::Unary { operator, operand: operand(value)? }),
        (Operator::Binary(operator), [left, right]) => {
            Ok(Operation::Binary { operator, left: operand(left)?, right: operand(right)? })
        }
        // A wrong number of operands.
        (
            Operator::Clip
            | Operator::Aggregate
            | Operator::Rolling
            | Operator::Resample
            | Operator::Unary(_)
            | Operator::Binary(_),
            _,
        ) => Err(None),
    }
}

fn reaggregation(value: &Value) -> Result<Reaggregation, Option<Invalid>> {
    let Value::Str(name) = value else { return Err(None) };
    name.parse().map_err(|_| None)
}

/// An operation, or a value that Python's `float()` converts.
fn operand(value: &Value) -> Result<Box<Operation>, Option<Invalid>> {
    let operand = operation(value);
    operand
        .or_else(|fault| python::float(value).map(Operation::Constant).ok_or(fault))
        .map(Box::new)
        .map_err(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_app::json;

    fn error_text(text: &str) -> String {
        let document = json::parse(text.as_bytes()).unwrap();
        operation(&document)
            .map_or_else(|invalid| invalid.in_key("operations").reason(), |operation| operation.to_string())
    }

    /// The errors of voluptuous on Gnocchi's schemas.
    #[test]
    fn errors_have_gnocchis_texts() {
        let on = |message: &str| format!("{message} for dictionary value @ data['operations']");
        for (text, expected) in [
            ("[]", "Operation must not be empty"),
            ("{}", "Expected a tuple/list, got a <class 'dict'>"),
            ("null", "Expected a tuple/list, got a <class 'NoneType'>"),
            ("5", "Expected a tuple/list, got a <class 'int'>"),
            (r#"["metric"]"#, "Operation need at least one argument"),
            (r#"["+", ["metric", "a", "mean"]]"#, "'+' operation invalid"),
            (r#"["+", ["metric", "a", "mean"], ["metric"]]"#, "'+' operation invalid"),
            (r#"["+", ["metric", "a", "mean"], "x"]"#, "'+' operation invalid"),
            (r#"["+", true, null]"#, "'+' operation invalid"),
            (r#"["what", ["metric", ["a"]]]"#, "'what' operation invalid"),
            (r#"["aggregate", "what", ["metric", ["a"]]]"#, "'aggregate' operation invalid"),
            (r#"["aggregate", "last", 1]"#, "'aggregate' operation invalid"),
            (r#"["rolling", "mean", 0, ["metric", ["a"]]]"#, "'rolling' operation invalid"),
            (r#"["rolling", "mean", 1]"#, "'rolling' operation invalid"),
            (r#"["resample", "mean", null, 1]"#, "'resample' operation invalid"),
            (r#"["resample", "var", 60, 1]"#, "'resample' operation invalid"),
            (r#"["clip", 1]"#, "'clip' operation invalid"),
            (r#"["clip", 1, 2, 3, 4]"#, "'clip' operation invalid"),
            (r#"[["a"], 1]"#, "'['a']' operation invalid"),
            ("[1, 2]", "'1' operation invalid"),
        ] {
            assert_eq!(error_text(text), on(expected), "{text}");
        }
        for (text, index) in [
            (r#"["metric", "a"]"#, 0),
            (r#"["metric", "a", "b", "c"]"#, 0),
            (r#"["metric", ["a", "b"], 3]"#, 1),
            (r#"["+", ["metric", ["a", "b"], ["c"]], ["metric", ["a"]]]"#, 1),
            (r#"["clip", 1, ["neg", ["metric", ["a", "b"], ["c", "d"], ["e"]]], 2]"#, 2),
            (r#"["rolling", "mean", "2", ["metric", ["a"]]]"#, 0),
        ] {
            assert_eq!(error_text(text), format!("None @ data['operations'][{index}]"), "{text}");
        }
        for (text, index) in [
            (r#"["metric", ["a", 1]]"#, 0),
            (r#"["metric", [1, "b"]]"#, 0),
            (r#"["metric", ["a", "b"], [null, null], ["c"]]"#, 1),
            (r#"["rolling", "count", 2, ["metric", ["a", "b"], [1, "b"]]]"#, 1),
        ] {
            assert_eq!(error_text(text), format!("expected str @ data['operations'][{index}]"), "{text}");
        }
    }

    #[test]
    fn operations_are_understood() {
        for (text, expected) in [
            (r#"["metric", "a", "what?"]"#, "['metric', 'a', 'what?']"),
            (r#"["metric", ["a", "b"]]"#, "['metric', ['a', 'b']]"),
            (r#"["≤", ["metric", "a", "b"], "1e3"]"#, "['≤', ['metric', 'a', 'b'], 1000.0]"),
            (r#"["max", true, "-inf"]"#, "['max', 1.0, -inf]"),
            (r#"["clip", 1, 2]"#, "['clip', 1.0, 2.0]"),
            (r#"["rolling", "rate:sum", 2.7, ["ceil", 1]]"#, "['rolling', 'rate:sum', 2, ['ceil', 1.0]]"),
            (
                r#"["resample", "mean", "5 min", 1]"#,
                "['resample', 'mean', np.timedelta64(300000000000,'ns'), 1.0]",
            ),
        ] {
            assert_eq!(error_text(text), expected, "{text}");
        }
    }
}

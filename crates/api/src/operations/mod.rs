//! The operations in a request to `/v1/aggregates`, in two forms: a JSON list, and a text.
//!
//! A text is parsed to the equivalent list; the list is validated and converted to an [`Operation`]. Whether
//! the metrics and aggregations in it exist is checked elsewhere.

mod check;
mod text;

use gnudi_app::{ApiError, Result, json::Value, schema::Invalid};
use gnudi_series::{
    operations::{MetricName, Metrics, Operation},
    resample::Resample,
};

/// The maximum length of a text.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Why operations are refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A syntax error in a text, or an exceeded limit; it takes precedence over other errors in the request.
    Unreadable(ApiError),
    /// An invalid list; the position is relative to it.
    Invalid(Invalid),
}

/// Parses and validates the operations, and checks their size.
pub fn read(document: &Value) -> Result<Operation, Refusal> {
    let operation = match document {
        Value::Str(text) => check::operation(&list(text).map_err(Refusal::Unreadable)?),
        list => check::operation(list),
    };
    let operation = operation.map_err(Refusal::Invalid)?;
    operation
        .check_size()
        .map_err(|error| Refusal::Unreadable(refuse("Operations are too large", error.to_string())))?;
    Ok(operation)
}

fn list(text: &str) -> Result<Value> {
    if text.len() > TEXT_BYTES_MAX {
        let detail = format!("operations may have {TEXT_BYTES_MAX} bytes");
        return Err(refuse("Operations are too large", detail));
    }
    text::list(text).map_err(|fault| refuse("Fail to parse the operations string", fault.to_string()))
}

fn refuse(reason: &str, detail: String) -> ApiError {
    ApiError::bad_request(Value::cause_and_reason("Invalid operations", reason, detail))
}

/// The operations as a JSON list: numbers are floats, timespans are seconds.
pub fn shown(operation: &Operation) -> Value {
    let list = |name: String, arguments: Vec<Value>| {
        let mut items = vec![Value::Str(name)];
        items.extend(arguments);
        Value::Array(items)
    };
    match operation {
        Operation::Metric(Metrics::One(name)) => list("metric".to_owned(), texts(name)),
        Operation::Metric(Metrics::Many(names)) => {
            list("metric".to_owned(), names.iter().map(|name| Value::Array(texts(name))).collect())
        }
        Operation::Constant(number) => Value::Float(*number),
        Operation::Unary { operator, operand } => list(operator.to_string(), vec![shown(operand)]),
        Operation::Binary { operator, left, right } => {
            list(operator.to_string(), vec![shown(left), shown(right)])
        }
        Operation::Clip { .. } => list("clip".to_owned(), operation.operands().map(shown).collect()),
        Operation::Aggregate { method, operand } => {
            list("aggregate".to_owned(), vec![method.to_string().into(), shown(operand)])
        }
        Operation::Rolling { method, window, operand } => {
            list("rolling".to_owned(), vec![method.to_string().into(), (*window).into(), shown(operand)])
        }
        Operation::Resample { method, to, operand } => {
            let to = match to {
                Resample::Span(span) => Value::Float(span.as_secs_f64()),
                Resample::Calendar(calendar) => calendar.letter().to_string().into(),
            };
            list("resample".to_owned(), vec![method.to_string().into(), to, shown(operand)])
        }
    }
}

fn texts(name: &MetricName) -> Vec<Value> {
    vec![name.name.as_str().into(), name.aggregation.as_str().into()]
}

#[cfg(test)]
mod tests {
    use gnudi_series::operations::{DEPTH_MAX, NODES_MAX};
    use proptest::prelude::*;

    use super::*;

    fn refused(document: &Value) -> String {
        match read(document) {
            Err(Refusal::Unreadable(error)) => error.detail.to_json(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn operations_are_shown_as_they_are_understood() {
        for (text, expected) in [
            ("(metric a mean)", r#"["metric", "a", "mean"]"#),
            ("(+ (metric (a mean) (b max)) 2)", r#"["+", ["metric", ["a", "mean"], ["b", "max"]], 2.0]"#),
            ("(clip (neg 1) 1_0 nan)", r#"["clip", ["neg", 1.0], 10.0, NaN]"#),
            ("(resample rate:mean '5' 1)", "invalid"),
            (
                "(resample rate:mean 1m (rolling var 3 2))",
                r#"["resample", "rate:mean", 60.0, ["rolling", "var", 3, 2.0]]"#,
            ),
            ("(aggregate count (clip 1 2))", r#"["aggregate", "count", ["clip", 1.0, 2.0]]"#),
        ] {
            let shown = read(&text.into()).map(|operation| shown(&operation).to_json());
            assert_eq!(shown.unwrap_or("invalid".to_owned()), expected, "{text}");
        }
    }

    #[test]
    fn size_is_limited() {
        let deep = |depth: usize| Value::from(format!("{}1{}", "(neg ".repeat(depth), ")".repeat(depth)));
        assert!(read(&deep(DEPTH_MAX - 1)).is_ok());
        for depth in [DEPTH_MAX, DEPTH_MAX + 1, DEPTH_MAX + 2] {
            assert!(refused(&deep(depth)).contains("operations may be nested 64 deep"), "{depth}");
        }
        let names = |count: usize| {
            let name = Value::Array(vec!["a".into(), "mean".into()]);
            Value::Array([vec!["metric".into()], vec![name; count]].concat())
        };
        assert!(read(&names(NODES_MAX)).is_ok());
        assert!(refused(&names(NODES_MAX + 1)).contains("operations may have 100000 nodes"));
        let long = format!("(+ 1 2){}", " ".repeat(TEXT_BYTES_MAX));
        assert!(refused(&long.into()).contains("1048576 bytes"));
    }

    /// Fragments of texts, of which many sequences are valid.
    const PIECES: [&str; 24] = [
        "(",
        "(",
        "(",
        ")",
        ")",
        ")",
        " ",
        " ",
        "metric",
        "a mean",
        "(a mean)",
        "neg",
        "+",
        "clip",
        "aggregate mean",
        "max",
        "rolling sum 2",
        "resample mean 60",
        "2",
        "-0.5",
        "nan",
        "'x (y'",
        "\"",
        "\\x",
    ];

    proptest! {
        #[test]
        fn texts_are_read_or_refused(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30)) {
            for text in [pieces.concat(), pieces.join(" ")] {
                if let Ok(operation) = read(&text.as_str().into()) {
                    let again = read(&shown(&operation)).expect("it was read before");
                    prop_assert_eq!(again.to_string(), operation.to_string());
                }
            }
        }

        #[test]
        fn trees_are_what_their_texts_are(text in tree_text(4)) {
            let operation = read(&format!("(+ {text} 0)").into()).expect("the text is right");
            let again = read(&shown(&operation)).expect("it was read before");
            prop_assert_eq!(again.to_string(), operation.to_string());
        }
    }

    /// A random tree of operations, as a text.
    fn tree_text(depth: u32) -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(&["(metric a mean)", "(metric (a mean) (b max))", "2", "-1e3"][..]);
        leaf.prop_map(str::to_owned).prop_recursive(depth, 32, 3, |inner| {
            let unary = prop::sample::select(
                &["abs", "rateofchange", "aggregate var", "rolling std 3", "resample max 1h"][..],
            );
            let binary = prop::sample::select(&["/", "≥", "clip_max", "clip"][..]);
            prop_oneof![
                (unary, inner.clone()).prop_map(|(name, operand)| format!("({name} {operand})")),
                (binary, inner.clone(), inner)
                    .prop_map(|(name, left, right)| format!("({name} {left}\n{right})")),
            ]
        })
    }
}

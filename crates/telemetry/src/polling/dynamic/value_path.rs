//! The path of a value in a document, and operations on the value: `a.b | value * 2`.

use std::borrow::Cow;

use serde_json::Value;

use super::expression::Expression;

#[derive(Clone, Debug, PartialEq)]
pub struct ValuePath {
    /// The keys to follow; none for the document itself.
    steps: Vec<String>,
    /// Each gets the result of the one before it.
    operations: Vec<Expression>,
}

impl ValuePath {
    /// Parses the form in files. The error says what is wrong with an operation.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('|');
        let place = parts.next().unwrap_or_default().trim();
        let steps = if place == "." { Vec::new() } else { place.split('.').map(str::to_owned).collect() };
        let operations = parts.map(|operation| {
            let operation = operation.trim();
            if !operation.contains("value") {
                return Err(format!("the operation {operation} should use value"));
            }
            Expression::parse(operation, &["value"])
                .map_err(|error| format!("the operation {operation}: {error}"))
        });
        Ok(ValuePath { steps, operations: operations.collect::<Result<_, _>>()? })
    }

    /// The path of a field of the document.
    pub fn to(name: &str) -> Self {
        ValuePath { steps: vec![name.to_owned()], operations: Vec::new() }
    }

    /// The value after all operations. The error says what the document lacks, or why an operation failed.
    pub fn look<'a>(&self, document: &'a Value) -> Result<Cow<'a, Value>, String> {
        let found = self.steps.iter().try_fold(document, |value, step| value.get(step.as_str()));
        let found = found.ok_or_else(|| format!("there is no {}", self.steps.join(".")))?;
        self.operations.iter().try_fold(Cow::Borrowed(found), |value, operation| {
            let made = operation.evaluate(&[("value", &value)]);
            made.map(Cow::Owned).map_err(|error| error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ways_end_with_operations() {
        let document = json!({"a": {"b": "x$y"}, "n": 3});
        let look = |text: &str| ValuePath::parse(text).unwrap().look(&document).map(Cow::into_owned);
        assert_eq!(look("a.b"), Ok(json!("x$y")));
        assert_eq!(look(" n | value * 2 | value + 1"), Ok(json!(7)));
        assert_eq!(look(". | value['a']['b'].split('$')[0]"), Ok(json!("x")));
        assert_eq!(look("a.c | value"), Err("there is no a.c".to_owned()));
        assert!(look("a | value * 2").is_err());
        assert!(ValuePath::parse("n | 2").unwrap_err().contains("should use value"));
        assert!(ValuePath::parse("n | open(value)").unwrap_err().contains("there is no open here"));
    }
}

//! `split`: one segment of each text.

use serde_json::{Map, Value};

use super::integer;
use crate::definitions::{DefinitionError, python};

#[derive(Clone, Debug)]
pub struct Splitter {
    /// `None`: whitespace.
    separator: Option<String>,
    /// Counted from the end if negative.
    segment: i64,
    splits_max: Option<usize>,
}

impl Splitter {
    /// `separator` (default `.`), `segment` (default 0) and `max_split` (default: no limit).
    pub fn parse(parameters: &Map<String, Value>) -> Result<Self, DefinitionError> {
        let separator = match parameters.get("separator") {
            None => Some(".".to_owned()),
            Some(Value::Null) => None,
            Some(Value::String(separator)) if !separator.is_empty() => Some(separator.clone()),
            Some(other) => {
                return Err(DefinitionError(format!("separator is {other}, which separates nothing")));
            }
        };
        let segment = integer(parameters, "segment")?.unwrap_or(0);
        let splits_max = integer(parameters, "max_split")?.and_then(|splits| usize::try_from(splits).ok());
        Ok(Splitter { separator, segment, splits_max })
    }

    /// The segment of the value's text, if it exists.
    pub fn of(&self, value: &Value) -> Option<Value> {
        let text = python::text(value);
        let pieces = python::split(&text, self.separator.as_deref(), self.splits_max, false);
        pieces.get(python::place(self.segment, pieces.len())?).map(|piece| Value::from(*piece))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn segments_are_those_of_python() {
        let split = |parameters: Value, value: Value| {
            Splitter::parse(parameters.as_object().unwrap()).unwrap().of(&value).unwrap_or_default()
        };
        assert_eq!(split(json!({}), json!("a.b.c")), json!("a"));
        assert_eq!(split(json!({"segment": -1}), json!("a.b.c")), json!("c"));
        assert_eq!(split(json!({"segment": 1, "max_split": 1}), json!("a.b.c")), json!("b.c"));
        assert_eq!(split(json!({"segment": 3}), json!("a.b.c")), json!(null));
        assert_eq!(split(json!({"separator": ", ", "segment": 1}), json!([1, 2])), json!("2]"));
        let by_words = json!({"separator": null, "segment": 1, "max_split": 1});
        assert_eq!(split(by_words, json!(" a  b c ")), json!("b c "));
        assert!(Splitter::parse(json!({"separator": ""}).as_object().unwrap()).is_err());
    }
}

//! `map`: replaces known values by others.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::definitions::{DefinitionError, LookupError, python};

#[derive(Clone, Debug)]
pub struct Mapping {
    /// By key; of two keys that are equal (`1` and `true` are, and texts without their case), the last one counts.
    values: Vec<(Value, Value)>,
    default: Value,
    is_case_sensitive: bool,
}

impl Mapping {
    /// `values`, `default` (default: none) and `case_sensitive` (default: true).
    pub fn parse(parameters: &Map<String, Value>) -> Result<Self, DefinitionError> {
        let is_case_sensitive = parameters.get("case_sensitive").is_none_or(python::is_true);
        let wrong = || DefinitionError("`values` must be an object that is not empty".to_owned());
        let mut values: Vec<(Value, Value)> = match parameters.get("values") {
            Some(Value::Object(values)) => {
                values.iter().map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect()
            }
            // A map with keys that are no texts.
            Some(Value::Array(pairs)) => {
                let pairs = pairs.iter().map(|pair| match pair.as_array().map(Vec::as_slice) {
                    Some([key, value]) => Ok((key.clone(), value.clone())),
                    _ => Err(wrong()),
                });
                pairs.collect::<Result<_, _>>()?
            }
            _ => return Err(wrong()),
        };
        if values.is_empty() {
            return Err(wrong());
        }
        if !is_case_sensitive {
            for (key, _) in &mut values {
                if let Value::String(text) = key {
                    *text = case_folded(text);
                }
            }
        }
        let default = parameters.get("default").cloned().unwrap_or_default();
        Ok(Mapping { values, default, is_case_sensitive })
    }

    /// The mapped value, or the default for an unknown one.
    pub fn of(&self, value: &Value) -> Result<Value, LookupError> {
        let value = match value {
            Value::String(text) if !self.is_case_sensitive => Cow::Owned(Value::String(case_folded(text))),
            Value::Array(_) | Value::Object(_) => {
                return Err(LookupError("a list or an object cannot be mapped".to_owned()));
            }
            value => Cow::Borrowed(value),
        };
        let found =
            self.values.iter().rev().find(|(key, _)| python::is_equal(key, &value)).map(|(_, mapped)| mapped);
        Ok(found.unwrap_or(&self.default).clone())
    }
}

/// Folds case. Two results are equal exactly if the results of Python's `str.casefold` are: `ß` equals `ss`, and `ς` equals
/// `σ`. The result itself may differ from Python's. (Tested over all characters.)
fn case_folded(text: &str) -> String {
    let fold = |letter: char| -> Vec<char> {
        // Its capital is `I`, like that of `i`, but Python keeps the two letters apart.
        if letter == 'ı' {
            return vec![letter];
        }
        letter.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    text.chars().flat_map(fold).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_values_are_mapped() {
        let parameters =
            json!({"values": [["Active", 1], [2, "two"], [true, 3]], "default": -1, "case_sensitive": false});
        let mapping = Mapping::parse(parameters.as_object().unwrap()).unwrap();
        assert_eq!(mapping.of(&json!("ACTIVE")), Ok(json!(1)));
        assert_eq!(mapping.of(&json!(2.0)), Ok(json!("two")));
        assert_eq!((mapping.of(&json!(1)), mapping.of(&json!("2"))), (Ok(json!(3)), Ok(json!(-1))));
        assert_eq!(mapping.of(&json!("x")), Ok(json!(-1)));
        assert!(mapping.of(&json!([])).is_err());
        let texts = json!({"values": {"2": "two"}});
        let texts = Mapping::parse(texts.as_object().unwrap()).unwrap();
        assert_eq!((texts.of(&json!("2")), texts.of(&json!(2))), (Ok(json!("two")), Ok(json!(null))));
        for wrong in [json!({}), json!([]), json!(["a"])] {
            assert!(Mapping::parse(json!({"values": wrong}).as_object().unwrap()).is_err());
        }
    }

    #[test]
    fn cases_are_folded_as_by_python() {
        for equal in [
            ["Straße", "STRASSE"],
            ["STRA\u{1e9e}E", "strasse"],
            ["ΟΔΟΣ", "οδος"],
            ["οδοσ", "οδος"],
            ["\u{b5}", "\u{3bc}"],
            ["\u{212a}", "k"],
            ["\u{fb01}x", "FIX"],
            ["\u{13a0}", "\u{ab70}"],
            ["\u{130}", "i\u{307}"],
        ] {
            assert_eq!(case_folded(equal[0]), case_folded(equal[1]), "{equal:?}");
        }
        for [one, other] in [["ı", "i"], ["e", "é"], ["s", "ss"]] {
            assert_ne!(case_folded(one), case_folded(other));
        }
        let parameters = json!({"values": {"Straße": 1}, "case_sensitive": false});
        let mapping = Mapping::parse(parameters.as_object().unwrap()).unwrap();
        assert_eq!(mapping.of(&json!("STRASSE")), Ok(json!(1)));
    }
}

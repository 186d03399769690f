//! Paths and commands: plain texts, or expressions that evaluate to a text.

use serde_json::{Map, Value};

use super::expression::Expression;

#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    Text(String),
    /// With its source text, for messages.
    Expression(Expression, String),
}

impl Template {
    /// Parses a text that may refer to these names. As in Ceilometer, a text that is not a Python expression is taken
    /// literally. One that is clearly meant as an expression, but is not supported, is an error.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, String> {
        match Expression::parse(text, names) {
            Ok(expression) if is_meant(text, names) => Ok(Template::Expression(expression, text.to_owned())),
            // Constant: quoted, or a number.
            Ok(expression) => Ok(match expression.evaluate(&[]) {
                Ok(Value::String(made)) => Template::Text(made),
                _ => Template::Text(text.to_owned()),
            }),
            Err(error) if is_meant(text, names) => Err(error.to_string()),
            Err(_) => Ok(Template::Text(text.to_owned())),
        }
    }

    /// The text for these values of the names. `Err` says why there is none.
    pub fn text(&self, values: &Map<String, Value>) -> Result<String, String> {
        let (expression, text) = match self {
            Template::Text(text) => return Ok(text.clone()),
            Template::Expression(expression, text) => (expression, text),
        };
        let values: Vec<(&str, &Value)> = values.iter().map(|(name, value)| (name.as_str(), value)).collect();
        match expression.evaluate(&values) {
            Ok(Value::String(made)) => Ok(made),
            Ok(_) => Err(format!("{text} is no text")),
            Err(error) => Err(format!("{text}: {error}")),
        }
    }
}

/// Whether one of the names occurs in it with a subscript or an attribute.
fn is_meant(text: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        text.match_indices(name).any(|(at, _)| {
            let is_begin =
                !text[..at].ends_with(|before: char| before.is_alphanumeric() || "_-./".contains(before));
            is_begin && text[at + name.len()..].trim_start().starts_with(['[', '.', ')'])
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_expressions_or_what_they_are() {
        let values = json!({"sample": {"id": "x", "n": 1}});
        let text = |text: &str| {
            Template::parse(text, &["sample"]).and_then(|template| template.text(values.as_object().unwrap()))
        };
        for (given, made) in [
            ("v1/things", "v1/things"),
            ("'v1/' + 'things'", "v1/things"),
            ("'/v3/projects/' + str(sample['id'])", "/v3/projects/x"),
            ("f'/v3/{sample[\"id\"]}?n={sample[\"n\"]}'", "/v3/x?n=1"),
            ("cat /var/lib/sample.json", "cat /var/lib/sample.json"),
            ("'/usr/bin/tool' --json", "'/usr/bin/tool' --json"),
            ("expr 1 + 2", "expr 1 + 2"),
            ("2024", "2024"),
        ] {
            assert_eq!(text(given).as_deref(), Ok(made), "{given}");
        }
        assert!(text("'/v3/' + str(sample['project_id'])").unwrap_err().contains("there is no project_id"));
        assert!(text("sample['n']").unwrap_err().contains("is no text"));
        assert!(text("'/v3/' + hex(sample['n'])").unwrap_err().contains("there is no hex here"));
    }
}

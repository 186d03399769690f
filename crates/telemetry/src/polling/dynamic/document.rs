//! Parses responses into documents.

use serde_json::{Map, Value};

use super::definition::ResponseFormat;
use crate::{messaging::surrogates::parse, xml::Element};

/// The document from the first handler that can parse it. `Err` has the errors of all.
pub fn read(body: &[u8], handlers: &[ResponseFormat]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(body);
    let mut problems = Vec::new();
    for handler in handlers {
        let read = match handler {
            ResponseFormat::Json => parse(text.as_bytes()).map_err(|error| format!("JSON: {error}")),
            ResponseFormat::Xml => {
                Element::parse_as_written(&text).map_err(|error| error.to_string()).map(|root| {
                    let name = root.name.clone();
                    Value::Object(Map::from_iter([(name, of_element(&root))]))
                })
            }
            ResponseFormat::Text => Ok(serde_json::json!([{ "out": text }])),
        };
        match read {
            Ok(document) => return Ok(document),
            Err(problem) => problems.push(problem),
        }
    }
    Err(problems.join("; "))
}

/// Attributes as `@name`, children by name (a list if there are several), the text as `#text`; an element with text
/// only becomes the text, an empty one null.
fn of_element(element: &Element) -> Value {
    let mut map = Map::new();
    for (name, value) in &element.attributes {
        map.insert(format!("@{name}"), value.as_str().into());
    }
    for child in &element.children {
        let value = of_element(child);
        match map.get_mut(&child.name) {
            None => {
                map.insert(child.name.clone(), value);
            }
            Some(Value::Array(items)) => items.push(value),
            Some(other) => *other = Value::Array(vec![other.take(), value]),
        }
    }
    let text = element.whole_text.trim();
    match (map.is_empty(), text.is_empty()) {
        (true, true) => Value::Null,
        (true, false) => text.into(),
        (false, true) => Value::Object(map),
        (false, false) => {
            map.insert("#text".to_owned(), text.into());
            Value::Object(map)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_in_the_handlers_order() {
        let xml = b"<?xml version='1.0'?><a x='1'><b>2</b><b>3</b><c/><d y='4'>text</d></a>";
        let document =
            json!({"a": {"@x": "1", "b": ["2", "3"], "c": null, "d": {"@y": "4", "#text": "text"}}});
        assert_eq!(read(xml, &[ResponseFormat::Json, ResponseFormat::Xml]).unwrap(), document);
        let xml = b"<n:a xmlns:n='u' xmlns='v'><n:b n:c='1'>x</n:b><d>y</d></n:a>";
        let document =
            json!({"n:a": {"@xmlns:n": "u", "@xmlns": "v", "n:b": {"@n:c": "1", "#text": "x"}, "d": "y"}});
        assert_eq!(read(xml, &[ResponseFormat::Xml]).unwrap(), document);
        assert_eq!(
            read(b"{\"a\": 1}", &[ResponseFormat::Json, ResponseFormat::Text]).unwrap(),
            json!({"a": 1})
        );
        assert_eq!(read(br#"{"a": "\ud800"}"#, &[ResponseFormat::Json]).unwrap(), json!({"a": "\u{fffd}"}));
        assert_eq!(
            read(br#"{"a": NaN, "b": 1}"#, &[ResponseFormat::Json]).unwrap(),
            json!({"a": "nan", "b": 1})
        );
        assert_eq!(read(b"7", &[ResponseFormat::Text]).unwrap(), json!([{"out": "7"}]));
        assert!(read(b"<", &[ResponseFormat::Json, ResponseFormat::Xml]).unwrap_err().contains("; "));
    }
}

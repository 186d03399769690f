//! A line of the file: a request to Gnocchi's API, or a note of the export.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Version of the file format.
pub const FORMAT_VERSION: u32 = 1;

/// The position up to which each journal was read, by the journal's directory.
pub type Positions = BTreeMap<String, String>;

/// One line. Without a method it is a note, which is not posted.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The revision of a resource that the request transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ExportedRevision>,
    /// The metric that the request creates, to which Gnocchi assigns another id; or, of a DELETE, that an earlier line
    /// has created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Uuid>,
    /// Metric ids in the body, or without one in the path, that must be replaced by those that Gnocchi has assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Uuid>,
    /// Number of measures in the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measures: Option<u64>,
    /// All measures of the journals up to these positions are in the file up to this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Positions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub version: u32,
    /// The store's id in its index.
    pub store: Uuid,
}

/// A revision of a resource in gnudi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedRevision {
    pub id: Uuid,
    /// Its start in nanoseconds.
    pub start: i64,
    /// Whether the request creates the resource.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
}

impl Line {
    pub fn request(method: &str, path: impl Into<String>, body: Option<serde_json::Value>) -> Self {
        let body = body.map(|body| raw(body.to_string()));
        Self { method: Some(method.to_owned()), path: Some(path.into()), body, ..Self::default() }
    }
}

/// Valid JSON text.
pub fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let line = Line {
            metric: Some(Uuid::from_u128(7)),
            journal: Some(Positions::from([("/j".to_owned(), "00000001.log:4096".to_owned())])),
            ..Line::request("POST", "/v1/metric", Some(serde_json::json!({"name": "é\n"})))
        };
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'), "{text}");
        let again: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert!(serde_json::from_str::<Line>(r#"{"unheard": 1}"#).is_err());
    }
}

//! YAML files, with errors that name file, line and key.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use crate::definitions::python;

/// Why a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
}

impl YamlError {
    /// An error in a key's value, at a line of a file.
    pub fn at(path: &Path, line: u64, key: &str, problem: &str) -> Self {
        YamlError::Malformed { path: path.to_owned(), problem: format!("line {line}: {key}: {problem}") }
    }
}

/// The `*.yaml` of a folder, sorted by name, without hidden files, as Python's `glob` lists them; empty if the folder
/// does not exist.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, YamlError> {
    let unreadable = |error| YamlError::Unreadable { path: folder.to_owned(), error };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == "yaml") && !is_hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a file.
pub fn text(path: &Path) -> Result<String, YamlError> {
    std::fs::read_to_string(path).map_err(|error| YamlError::Unreadable { path: path.to_owned(), error })
}

/// Loads a file. `T` may be `serde_json::Value` if it is validated later.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, YamlError> {
    parse(path, &text(path)?)
}

/// Parses a text; `path` is for errors.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, YamlError> {
    serde_saphyr::from_str(text)
        .map_err(|error| YamlError::Malformed { path: path.to_owned(), problem: error.to_string() })
}

/// Whether a key of a map stands for this value. Keys are texts here; Python's are what they look like, and `1`, `1.0`
/// and `true` are the same key.
pub fn is_key(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => matches!(key, "" | "~" | "null" | "Null" | "NULL"),
        Value::String(text) => key == text,
        Value::Bool(_) | Value::Number(_) => scalar(key).is_some_and(|key| python::is_equal(&key, value)),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// A boolean of YAML 1.1, or a number.
fn scalar(text: &str) -> Option<Value> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true.into()),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false.into()),
        text => serde_json::from_str::<Number>(text).ok().map(Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_stand_for_what_they_look_like() {
        for (key, value) in [
            ("up", json!("up")),
            ("1", json!("1")),
            ("1", json!(1)),
            ("1", json!(1.0)),
            ("-2.50", json!(-2.5)),
            ("yes", json!(true)),
            ("yes", json!("yes")),
            ("OFF", json!(false)),
            ("0", json!(false)),
            ("~", json!(null)),
        ] {
            assert!(is_key(key, &value), "{key} {value}");
        }
        for (key, value) in [
            ("up", json!("Up")),
            ("1", json!(2)),
            ("x", json!(true)),
            ("no", json!(true)),
            ("", json!(0)),
            ("null", json!("None")),
            ("[]", json!([])),
        ] {
            assert!(!is_key(key, &value), "{key} {value}");
        }
    }

    #[test]
    fn hidden_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", ".b.yaml.swp", ".hidden.yaml", "a.yaml", "c.yml"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = files(folder.path()).unwrap();
        assert_eq!(found, ["a.yaml", "b.yaml"].map(|name| folder.path().join(name)));
        assert!(files(&folder.path().join("missing")).unwrap().is_empty());
        assert!(files(&folder.path().join("a.yaml")).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let value: Value =
            parse(Path::new("a.yaml"), "sources:\n  - {name: x, interval: 300, on: true, off: ~}\n").unwrap();
        assert_eq!(value, json!({"sources": [{"name": "x", "interval": 300, "on": true, "off": null}]}));
        let error = parse::<Value>(Path::new("a.yaml"), "a: 1\nb: [1,\nc: 2\n").unwrap_err().to_string();
        assert!(error.starts_with("a.yaml: ") && error.contains("line"), "{error}");
    }
}

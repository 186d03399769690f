//! YAML files, with errors that name file, line and key.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let value: Value =
            parse(Path::new("a.yaml"), "sources:\n  - {name: x, interval: 300, on: true, off: ~}\n").unwrap();
        assert_eq!(value, json!({"sources": [{"name": "x", "interval": 300, "on": true, "off": null}]}));
        let error = parse::<Value>(Path::new("a.yaml"), "a: 1\nb: [1,\nc: 2\n").unwrap_err().to_string();
        assert!(error.starts_with("a.yaml: ") && error.contains("line"), "{error}");
    }
}

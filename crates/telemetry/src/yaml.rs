//! YAML files, with errors that name file, line and key.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

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
    // The parser would take `y` and `n` for booleans: `Located` knows those of PyYAML.
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
        .map_err(|error| YamlError::Malformed { path: path.to_owned(), problem: error.to_string() })
}

/// What a text without quotes stands for in `PyYAML`, if that is a boolean or a number.
pub fn scalar(text: &str) -> Option<Value> {
    // A float needs a point, and its exponent a sign.
    let is_number = text
        .split_once(['e', 'E'])
        .is_none_or(|(digits, exponent)| digits.contains('.') && exponent.starts_with(['+', '-']));
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true.into()),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false.into()),
        text if is_number => serde_json::from_str::<Number>(text).ok().map(Value::Number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_those_of_pyyaml() {
        for (text, value) in [
            ("1", json!(1)),
            ("-2.50", json!(-2.5)),
            ("1.5e+3", json!(1500.0)),
            ("yes", json!(true)),
            ("OFF", json!(false)),
        ] {
            assert_eq!(scalar(text), Some(value), "{text}");
        }
        for text in ["up", "y", "yEs", "1e3", "1.5e3", "12e4", "1x", ""] {
            assert_eq!(scalar(text), None, "{text}");
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

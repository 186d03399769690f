//! A dynamic pollster as its file describes it.

use std::{path::Path, time::Duration};

use serde_json::Value;

use crate::{
    located::{Located, Node},
    sample::SampleKind,
    yaml::YamlError,
};

/// A way into a document: names one after the other; none for the document itself.
pub type Steps = Vec<String>;

/// How an answer is read; the first that succeeds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    Json,
    Xml,
    Text,
}

/// What makes several meters of one entry: `name.{attribute}` and `[list].value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    /// What of the name is replaced, with its braces.
    pub placeholder: String,
    /// By the value of this attribute of each item.
    pub attribute: String,
    /// The list within an entry.
    pub list: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub kind: SampleKind,
    pub unit: String,
    pub endpoint_type: String,
    pub url_path: String,
    pub value: Steps,
    pub several: Option<Several>,
    pub metadata_fields: Vec<(String, Steps)>,
    /// From a field to its name in samples.
    pub metadata_mapping: Vec<(String, String)>,
    pub preserve_mapped_metadata: bool,
    pub skip_sample_values: Vec<Value>,
    pub value_mapping: Vec<(Value, Value)>,
    pub default_value: Value,
    pub response_entries: Option<Steps>,
    pub next_url: Option<Steps>,
    pub user_id: Option<Steps>,
    pub project_id: Option<Steps>,
    pub resource_id: Option<Steps>,
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    pub handlers: Vec<Handler>,
    pub namespaces: Vec<String>,
}

/// Keys that need Python, or run programs, and what to say of them.
const REFUSED: [(&str, &str); 8] = [
    ("module", "Python modules are not loaded"),
    ("authentication_object", "Python modules are not loaded"),
    ("authentication_parameters", "Python modules are not loaded"),
    ("barbican_secret_id", "credentials are those of [service_credentials]"),
    ("host_command", "commands are not run"),
    ("extra_metadata_fields", "further requests for metadata are not made"),
    ("extra_metadata_fields_skip", "further requests for metadata are not made"),
    ("base_metadata", "Python expressions are not evaluated"),
];

impl Definition {
    pub fn is_for(&self, namespaces: &[String]) -> bool {
        self.namespaces.iter().any(|namespace| namespaces.contains(namespace))
    }
}

/// Reads a file's text: a list of pollsters, each of which may be wrong for itself.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Result<Definition, YamlError>>, YamlError> {
    let file = Located::parse(path, text)?;
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let list = file.list().ok_or_else(|| {
        let problem = format!("line {}: should be a list of pollsters", file.line);
        YamlError::Malformed { path: path.to_owned(), problem }
    })?;
    Ok(list.iter().map(|entry| Entry { path, map: entry }.definition()).collect())
}

/// One pollster in a file.
struct Entry<'a> {
    path: &'a Path,
    map: &'a Located,
}

impl<'a> Entry<'a> {
    fn wrong(&self, at: &Located, key: &str, problem: &str) -> YamlError {
        YamlError::at(self.path, at.line, key, problem)
    }

    /// `None` for null too.
    fn get(&self, key: &str) -> Option<&'a Located> {
        self.map.get(key).filter(|value| value.node != Node::Null)
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, YamlError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.text().map(Some).ok_or_else(|| self.wrong(value, key, "should be a text"))
    }

    fn needed(&self, key: &str) -> Result<&'a str, YamlError> {
        let text = self.text(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.wrong(self.map, key, "missing in a pollster"))
    }

    fn steps(&self, at: &Located, key: &str, text: &str) -> Result<Steps, YamlError> {
        if text.contains('|') {
            return Err(self.wrong(at, key, "operations on values are Python, which is not evaluated"));
        }
        let text = text.trim();
        Ok(if text == "." { Vec::new() } else { text.split('.').map(str::to_owned).collect() })
    }

    /// A way; `None` where the file says none and there is no default.
    fn way(&self, key: &str, default: Option<&str>) -> Result<Option<Steps>, YamlError> {
        match self.map.get(key) {
            Some(at) if at.is_empty() => Ok(default.map(|default| vec![default.to_owned()])),
            Some(at) => {
                let text = at.text().ok_or_else(|| self.wrong(at, key, "should be a text"))?;
                self.steps(at, key, text).map(Some)
            }
            None => Ok(default.map(|default| vec![default.to_owned()])),
        }
    }

    fn definition(&self) -> Result<Definition, YamlError> {
        for (key, why) in REFUSED {
            if let Some(value) = self.get(key).filter(|value| !value.is_empty()) {
                return Err(self.wrong(value, key, &format!("not supported: {why}")));
            }
        }
        let name = self.needed("name")?;
        let name_at = self.get("name").unwrap_or(self.map);
        if !is_name(name) {
            return Err(self.wrong(
                name_at,
                "name",
                "should be words of letters, digits, _ and - with dots between",
            ));
        }
        let kind = self.needed("sample_type")?;
        let kind = SampleKind::named(kind).ok_or_else(|| {
            let at = self.get("sample_type").unwrap_or(self.map);
            self.wrong(at, "sample_type", "should be gauge, delta or cumulative")
        })?;
        let (value, several) = self.value(name)?;
        Ok(Definition {
            name: name.to_owned(),
            kind,
            unit: self.needed("unit")?.to_owned(),
            endpoint_type: self.needed("endpoint_type")?.to_owned(),
            url_path: self.url_path()?,
            value,
            several,
            metadata_fields: self.metadata_fields()?,
            metadata_mapping: self.text_pairs("metadata_mapping")?,
            preserve_mapped_metadata: self
                .get("preserve_mapped_metadata")
                .is_none_or(|value| !value.is_empty()),
            skip_sample_values: self.list("skip_sample_values")?.iter().map(Located::json).collect(),
            value_mapping: self.value_mapping()?,
            default_value: self.get("default_value").map_or(Value::from(-1), Located::json),
            response_entries: self.way("response_entries_key", None)?,
            next_url: self.way("next_sample_url_attribute", None)?,
            user_id: self.way("user_id_attribute", Some("user_id"))?,
            project_id: self.way("project_id_attribute", Some("project_id"))?,
            resource_id: self.way("resource_id_attribute", Some("id"))?,
            headers: self.headers()?,
            timeout: self.timeout()?,
            handlers: self.handlers()?,
            namespaces: self.namespaces()?,
        })
    }

    fn value(&self, name: &str) -> Result<(Steps, Option<Several>), YamlError> {
        let text = self.needed("value_attribute")?;
        let at = self.get("value_attribute").unwrap_or(self.map);
        let last = name.rsplit('.').next().unwrap_or_default();
        let Some(attribute) = last.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return Ok((self.steps(at, "value_attribute", text)?, None));
        };
        let wrong =
            || self.wrong(at, "value_attribute", "should be [LIST].ATTRIBUTE, as the name ends with {...}");
        let (list, rest) = text.strip_prefix('[').and_then(|rest| rest.split_once("].")).ok_or_else(wrong)?;
        if list.is_empty() || rest.is_empty() {
            return Err(wrong());
        }
        let several =
            Several { placeholder: last.to_owned(), attribute: attribute.to_owned(), list: list.to_owned() };
        Ok((self.steps(at, "value_attribute", rest)?, Some(several)))
    }

    fn url_path(&self) -> Result<String, YamlError> {
        let path = self.needed("url_path")?;
        // Ceilometer evaluates it, and takes it as it is when that fails: as it does for every path that is none.
        if path.starts_with(['\'', '"'])
            || path.starts_with("f'")
            || path.starts_with("f\"")
            || path.contains(" + ")
        {
            let at = self.get("url_path").unwrap_or(self.map);
            return Err(self.wrong(at, "url_path", "Python expressions are not evaluated"));
        }
        Ok(path.to_owned())
    }

    fn list(&self, key: &str) -> Result<&'a [Located], YamlError> {
        let Some(value) = self.get(key).filter(|value| !value.is_empty()) else { return Ok(&[]) };
        value.list().ok_or_else(|| self.wrong(value, key, "should be a list"))
    }

    fn metadata_fields(&self) -> Result<Vec<(String, Steps)>, YamlError> {
        let fields = self.list("metadata_fields")?.iter().map(|field| {
            let text = field.text().ok_or_else(|| self.wrong(field, "metadata_fields", "should be texts"))?;
            Ok((text.to_owned(), self.steps(field, "metadata_fields", text)?))
        });
        fields.collect()
    }

    fn pairs(&self, key: &str) -> Result<Vec<(&'a str, &'a Located)>, YamlError> {
        let Some(value) = self.get(key).filter(|value| !value.is_empty()) else { return Ok(Vec::new()) };
        let Node::Map(entries) = &value.node else { return Err(self.wrong(value, key, "should be a map")) };
        Ok(entries.iter().map(|(name, value)| (name.value.as_str(), value)).collect())
    }

    fn text_pairs(&self, key: &str) -> Result<Vec<(String, String)>, YamlError> {
        let pairs = self.pairs(key)?.into_iter().map(|(name, value)| {
            let text = value.text().ok_or_else(|| self.wrong(value, key, "should be texts"))?;
            Ok((name.to_owned(), text.to_owned()))
        });
        pairs.collect()
    }

    /// The keys of YAML's maps are texts here; those that look like another value stand for that too.
    fn value_mapping(&self) -> Result<Vec<(Value, Value)>, YamlError> {
        Ok(self
            .pairs("value_mapping")?
            .into_iter()
            .map(|(name, value)| (name.into(), value.json()))
            .collect())
    }

    /// A map, or a list of maps.
    fn headers(&self) -> Result<Vec<(String, String)>, YamlError> {
        let Some(value) = self.get("headers").filter(|value| !value.is_empty()) else {
            return Ok(Vec::new());
        };
        let maps = match &value.node {
            Node::List(maps) => maps.iter().collect(),
            _ => vec![value],
        };
        let mut headers = Vec::new();
        for map in maps {
            let Node::Map(entries) = &map.node else {
                return Err(self.wrong(map, "headers", "should be a map"));
            };
            for (name, value) in entries {
                let text = match value.json() {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                headers.push((name.value.to_lowercase(), text));
            }
        }
        Ok(headers)
    }

    fn timeout(&self) -> Result<Duration, YamlError> {
        const DEFAULT: Duration = Duration::from_secs(30);
        let Some(value) = self.get("timeout") else { return Ok(DEFAULT) };
        let seconds = match value.node {
            Node::Integer(seconds) => Some(seconds as f64),
            Node::Float(seconds) => Some(seconds),
            _ => None,
        };
        let timeout = seconds.filter(|seconds| *seconds > 0.0).map(Duration::try_from_secs_f64);
        let timeout = timeout.and_then(Result::ok);
        timeout.ok_or_else(|| self.wrong(value, "timeout", "should be a number of seconds"))
    }

    fn handlers(&self) -> Result<Vec<Handler>, YamlError> {
        let list = self.list("response_handlers")?;
        if list.is_empty() {
            return Ok(vec![Handler::Json]);
        }
        let handlers = list.iter().map(|item| match item.text() {
            Some("json") => Ok(Handler::Json),
            Some("xml") => Ok(Handler::Xml),
            Some("text") => Ok(Handler::Text),
            _ => Err(self.wrong(item, "response_handlers", "should be json, xml or text")),
        });
        handlers.collect()
    }

    /// One, or a list.
    fn namespaces(&self) -> Result<Vec<String>, YamlError> {
        let Some(value) = self.get("namespaces") else { return Ok(vec!["central".to_owned()]) };
        if let Node::Text(namespace) = &value.node {
            return Ok(vec![namespace.clone()]);
        }
        let namespaces = self.list("namespaces")?.iter().map(|item| {
            let text = item.text().map(str::to_owned);
            text.ok_or_else(|| self.wrong(item, "namespaces", "should be texts"))
        });
        namespaces.collect()
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}

/// Words with dots between, the last of which may stand in braces.
fn is_name(name: &str) -> bool {
    let words: Vec<&str> = name.split('.').collect();
    let last = words.len() - 1;
    words.iter().enumerate().all(|(index, word)| {
        let braced = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        is_word(word) || (index > 0 && index == last && braced.is_some_and(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "- name: a.b\n  sample_type: gauge\n  unit: x\n  endpoint_type: t\n  url_path: v1/x\n  value_attribute: a.b\n";

    fn one(text: &str) -> Result<Definition, YamlError> {
        parse(Path::new("p.yaml"), text).unwrap().remove(0)
    }

    #[test]
    fn a_pollster_is_read() {
        let definition = one(&format!(
            "{GOOD}  metadata_fields: [c, d.e]\n  value_mapping: {{up: 1}}\n  headers: [{{X-A: b}}]\n  response_handlers: [xml, json]\n"
        ))
        .unwrap();
        assert_eq!(definition.value, ["a", "b"]);
        assert_eq!(definition.metadata_fields[1], ("d.e".to_owned(), vec!["d".to_owned(), "e".to_owned()]));
        assert_eq!(definition.value_mapping, [(Value::from("up"), Value::from(1))]);
        assert_eq!(definition.headers, [("x-a".to_owned(), "b".to_owned())]);
        assert_eq!(definition.handlers, [Handler::Xml, Handler::Json]);
        assert!(definition.is_for(&["central".to_owned()]) && !definition.is_for(&["compute".to_owned()]));
        let several = one(&GOOD
            .replace("a.b\n  sample", "a.{kind}\n  sample")
            .replace("value_attribute: a.b", "value_attribute: '[list].x.y'"))
        .unwrap();
        assert_eq!(several.value, ["x", "y"]);
        assert_eq!(several.several.unwrap().attribute, "kind");
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_key() {
        for (text, line, key) in [
            (GOOD.replace("  unit: x\n", ""), 1, "unit"),
            (GOOD.replace("gauge", "some"), 2, "sample_type"),
            (GOOD.replace("name: a.b", "name: a..b"), 1, "name"),
            (GOOD.replace("v1/x", "\"'v1/' + sample['id']\""), 5, "url_path"),
            (GOOD.replace("attribute: a.b", "attribute: a | value + 1"), 6, "value_attribute"),
            (format!("{GOOD}  module: some\n"), 7, "module"),
            (format!("{GOOD}  host_command: ls\n"), 7, "host_command"),
            (format!("{GOOD}  extra_metadata_fields:\n    name: x\n"), 8, "extra_metadata_fields"),
            (format!("{GOOD}  response_handlers: [yaml]\n"), 7, "response_handlers"),
            (format!("{GOOD}  timeout: soon\n"), 7, "timeout"),
        ] {
            let error = one(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("p.yaml: line {line}: {key}: ")), "{text}{error}");
        }
    }
}

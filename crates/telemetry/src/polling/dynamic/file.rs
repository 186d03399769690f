//! Parses files of dynamic pollsters.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::{
    definition::{DynamicDefinition, ExtraMetadata, MultipleMeters, ResponseFormat, ResponseSource},
    template::Template,
    value_path::ValuePath,
};
use crate::{
    located::{Key, Located, YamlNode, key_text, key_value},
    sample::SampleKind,
    yaml::YamlError,
};

/// Keys that need Python modules, and the error text.
const REFUSED: [(&str, &str); 4] = [
    ("module", "Python modules are not loaded"),
    ("authentication_object", "Python modules are not loaded"),
    ("authentication_parameters", "Python modules are not loaded"),
    ("barbican_secret_id", "credentials are those of [service_credentials]"),
];

/// Timeout of one response.
const DEFAULT_TIMEOUT_S: u64 = 30;
/// Cache lifetime of additional metadata.
const DEFAULT_LIFETIME_S: u64 = 3600;
/// Maximum nesting of additional metadata.
const EXTRA_DEPTH_MAX: usize = 3;
/// Variables in the texts of additional metadata: the metadata collected so far (`extra_metadata_captured`, and by
/// pollster name), and the entry.
pub const EXTRA_NAMES: [&str; 3] = ["extra_metadata_captured", "extra_metadata_by_name", "sample"];

/// Parses a file: a list of pollsters, each of which may be invalid on its own.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Result<DynamicDefinition, YamlError>>, YamlError> {
    let file = Located::parse(path, text)?;
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let list = file.list().ok_or_else(|| {
        let problem = format!("line {}: should be a list of pollsters", file.line);
        YamlError::Malformed { path: path.to_owned(), problem }
    })?;
    Ok(list.iter().map(|map| Entry { path, map, names: base_names(map), of: None }.definition()).collect())
}

/// Variables in a pollster's own texts: the keys of its `base_metadata`.
fn base_names(map: &Located) -> Vec<&str> {
    match map.get("base_metadata").map(|base| &base.node) {
        Some(YamlNode::Map(entries)) => entries.iter().map(|(name, _)| key_text(name)).collect(),
        _ => Vec::new(),
    }
}

/// One pollster in a file, or one that adds metadata to another.
struct Entry<'a> {
    path: &'a Path,
    map: &'a Located,
    /// Variables of its paths and commands.
    names: Vec<&'a str>,
    /// The pollster that it adds metadata to; missing keys are inherited from it.
    of: Option<&'a Entry<'a>>,
}

impl<'a> Entry<'a> {
    fn error(&self, at: &Located, key: &str, problem: &str) -> YamlError {
        YamlError::at(self.path, at.line, key, problem)
    }

    /// `None` for null, too.
    fn get(&self, key: &str) -> Option<&'a Located> {
        self.map.get(key).filter(|value| value.node != YamlNode::Null)
    }

    /// `None` for what Python counts as false, too.
    fn filled(&self, key: &str) -> Option<&'a Located> {
        self.map.get(key).filter(|value| !value.is_empty())
    }

    fn text(&self, at: &'a Located, key: &str, problem: &str) -> Result<&'a str, YamlError> {
        at.text().ok_or_else(|| self.error(at, key, problem))
    }

    fn needed(&self, key: &str) -> Result<&'a str, YamlError> {
        let text = self.get(key).map(|at| self.text(at, key, "should be a text")).transpose()?;
        text.filter(|text| !text.is_empty()).ok_or_else(|| self.error(self.map, key, "missing in a pollster"))
    }

    fn parsed(&self, at: &Located, key: &str, text: &str) -> Result<ValuePath, YamlError> {
        ValuePath::parse(text).map_err(|problem| self.error(at, key, &problem))
    }

    fn path(&self, key: &str) -> Result<Option<ValuePath>, YamlError> {
        let Some(at) = self.filled(key) else { return Ok(None) };
        self.parsed(at, key, self.text(at, key, "should be a text")?).map(Some)
    }

    /// The path of the id or of an owner; `None` if it is at the usual place.
    fn id(&self, key: &str, usual: &str) -> Result<Option<ValuePath>, YamlError> {
        Ok(self.path(key)?.filter(|path| *path != ValuePath::to(usual)))
    }

    /// Nesting of additional metadata.
    fn depth(&self) -> usize {
        self.of.map_or(0, |of| 1 + of.depth())
    }

    fn definition(&self) -> Result<DynamicDefinition, YamlError> {
        for (key, why) in REFUSED {
            if let Some(value) = self.filled(key) {
                return Err(self.error(value, key, &format!("not supported: {why}")));
            }
        }
        let name = self.needed("name")?;
        let name_at = self.get("name").unwrap_or(self.map);
        if !is_name(name) {
            return Err(self.error(
                name_at,
                "name",
                "should be words of letters, digits, _ and - with dots between",
            ));
        }
        let kind = self.inherited("sample_type")?;
        let kind = SampleKind::named(kind).ok_or_else(|| {
            let at = self.get("sample_type").unwrap_or(self.map);
            self.error(at, "sample_type", "should be gauge, delta or cumulative")
        })?;
        let (value, several) = self.value(name)?;
        Ok(DynamicDefinition {
            name: name.to_owned(),
            kind,
            unit: self.inherited("unit")?.to_owned(),
            source: self.source()?,
            base_metadata: self
                .pairs("base_metadata")?
                .iter()
                .map(|(name, value)| (key_text(name).to_owned(), value.json()))
                .collect(),
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
            response_entries: self.path("response_entries_key")?,
            next_url: self.path("next_sample_url_attribute")?,
            user_id: self.id("user_id_attribute", "user_id")?,
            project_id: self.id("project_id_attribute", "project_id")?,
            resource_id: self.id("resource_id_attribute", "id")?,
            headers: self.headers()?,
            timeout: self.seconds("timeout", DEFAULT_TIMEOUT_S)?,
            handlers: self.handlers()?,
            namespaces: self.namespaces()?,
            extra: self.extra()?,
        })
    }

    /// A text that additional metadata inherit from their pollster.
    fn inherited(&self, key: &str) -> Result<&'a str, YamlError> {
        match self.of.filter(|_| self.get(key).is_none()) {
            Some(of) => of.inherited(key),
            None => self.needed(key),
        }
    }

    /// The path of the value.
    fn value_text(&self) -> Result<(&'a str, &'a Located), YamlError> {
        let keys: &[&str] =
            if self.of.is_some() { &["value_attribute", "value"] } else { &["value_attribute"] };
        let said = keys.iter().find_map(|key| self.get(key));
        match (said, self.of) {
            (Some(at), _) => {
                let text = at.text().filter(|text| !text.is_empty());
                text.map(|text| (text, at))
                    .ok_or_else(|| self.error(at, "value_attribute", "should be a text"))
            }
            (None, Some(of)) => of.value_text(),
            (None, None) => Err(self.error(self.map, "value_attribute", "missing in a pollster")),
        }
    }

    fn value(&self, name: &str) -> Result<(ValuePath, Option<MultipleMeters>), YamlError> {
        let (text, at) = self.value_text()?;
        let key = "value_attribute";
        let last = name.rsplit('.').next().unwrap_or_default();
        let braced = last.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        // As for Ceilometer, braces around a name with a hyphen are a part of a single meter's name.
        let Some(attribute) = braced.filter(|attribute| !attribute.contains('-')) else {
            return Ok((self.parsed(at, key, text)?, None));
        };
        let wrong = || self.error(at, key, "should be [LIST].ATTRIBUTE, as the name ends with {...}");
        let (list, rest) = text.strip_prefix('[').and_then(|rest| rest.split_once("].")).ok_or_else(wrong)?;
        if list.is_empty() || rest.is_empty() || rest.contains('|') {
            return Err(wrong());
        }
        let several = MultipleMeters {
            placeholder: last.to_owned(),
            attribute: attribute.to_owned(),
            list: list.to_owned(),
        };
        Ok((self.parsed(at, key, rest)?, Some(several)))
    }

    /// A command takes precedence over a URL.
    fn source(&self) -> Result<ResponseSource, YamlError> {
        if self.filled("host_command").is_some() {
            return Ok(ResponseSource::Command(self.template("host_command")?));
        }
        let service = self.needed("endpoint_type")?.to_owned();
        Ok(ResponseSource::Endpoint { service, path: self.template("url_path")? })
    }

    fn template(&self, key: &str) -> Result<Template, YamlError> {
        let text = self.needed(key)?;
        let at = self.get(key).unwrap_or(self.map);
        let wrong = |problem: &str| self.error(at, key, problem);
        let template = Template::parse(text, &self.names).map_err(|problem| wrong(&problem))?;
        let is_quoted = text.starts_with(['\'', '"']) || text.starts_with("f'") || text.starts_with("f\"");
        if key == "url_path" && template == Template::Text(text.to_owned()) && is_quoted {
            // Ceilometer asks for the expression itself, which no service has.
            return Err(wrong("an expression that is not understood here"));
        }
        Ok(template)
    }

    fn value_mapping(&self) -> Result<Vec<(Value, Value)>, YamlError> {
        let pairs = self.pairs("value_mapping")?;
        Ok(pairs.iter().map(|(key, value)| (key_value(key), value.json())).collect())
    }

    /// One, or a list.
    fn extra(&self) -> Result<Vec<ExtraMetadata>, YamlError> {
        const KEY: &str = "extra_metadata_fields";
        let Some(value) = self.filled(KEY) else { return Ok(Vec::new()) };
        if self.depth() >= EXTRA_DEPTH_MAX {
            return Err(self.error(value, KEY, "more levels than are supported"));
        }
        let extra = one_or_more(value).iter().map(|map| {
            if !matches!(map.node, YamlNode::Map(_)) {
                return Err(self.error(map, KEY, "should be maps"));
            }
            let entry = Entry { path: self.path, map, names: EXTRA_NAMES.to_vec(), of: Some(self) };
            Ok(ExtraMetadata {
                definition: entry.definition()?,
                skip: entry.skip()?,
                lifetime: entry.lifetime()?,
            })
        });
        extra.collect()
    }

    /// Filters of additional metadata; those of the pollster apply to all of them.
    fn skip(&self) -> Result<Vec<Value>, YamlError> {
        const KEY: &str = "extra_metadata_fields_skip";
        if let Some(of) = self.of.filter(|_| self.get(KEY).is_none()) {
            return of.skip();
        }
        let skip = self.list(KEY)?;
        if let Some(other) = skip.iter().find(|entry| !matches!(entry.node, YamlNode::Map(_))) {
            return Err(self.error(other, KEY, "should be a list of maps"));
        }
        Ok(skip.iter().filter(|entry| !entry.is_empty()).map(Located::json).collect())
    }

    fn lifetime(&self) -> Result<Duration, YamlError> {
        const KEY: &str = "extra_metadata_fields_cache_seconds";
        match (self.get(KEY).map(|value| &value.node), self.of) {
            (None, Some(of)) => of.lifetime(),
            (Some(YamlNode::Integer(0)), _) => Ok(Duration::ZERO),
            _ => self.seconds(KEY, DEFAULT_LIFETIME_S),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [Located], YamlError> {
        let Some(value) = self.filled(key) else { return Ok(&[]) };
        value.list().ok_or_else(|| self.error(value, key, "should be a list"))
    }

    fn metadata_fields(&self) -> Result<Vec<(String, ValuePath)>, YamlError> {
        let fields = self.list("metadata_fields")?.iter().map(|field| {
            let text = self.text(field, "metadata_fields", "should be texts")?;
            Ok((text.to_owned(), self.parsed(field, "metadata_fields", text)?))
        });
        fields.collect()
    }

    fn pairs(&self, key: &str) -> Result<&'a [(Key, Located)], YamlError> {
        let Some(value) = self.filled(key) else { return Ok(&[]) };
        let YamlNode::Map(entries) = &value.node else {
            return Err(self.error(value, key, "should be a map"));
        };
        Ok(entries)
    }

    fn text_pairs(&self, key: &str) -> Result<Vec<(String, String)>, YamlError> {
        let pairs = self.pairs(key)?.iter().map(|(name, value)| {
            let text = self.text(value, key, "should be texts")?;
            Ok((key_text(name).to_owned(), text.to_owned()))
        });
        pairs.collect()
    }

    /// A map, or a list of maps.
    fn headers(&self) -> Result<Vec<(String, String)>, YamlError> {
        let Some(value) = self.filled("headers") else { return Ok(Vec::new()) };
        let mut headers = Vec::new();
        for map in one_or_more(value) {
            let YamlNode::Map(entries) = &map.node else {
                return Err(self.error(map, "headers", "should be a map"));
            };
            for (name, value) in entries {
                let text = match value.json() {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                headers.push((key_text(name).to_lowercase(), text));
            }
        }
        Ok(headers)
    }

    fn seconds(&self, key: &str, default: u64) -> Result<Duration, YamlError> {
        let Some(value) = self.get(key) else { return Ok(Duration::from_secs(default)) };
        let seconds = match value.node {
            YamlNode::Integer(seconds) => Some(seconds as f64),
            YamlNode::Float(seconds) => Some(seconds),
            _ => None,
        };
        let span = seconds.filter(|seconds| *seconds > 0.0).map(Duration::try_from_secs_f64);
        let span = span.and_then(Result::ok);
        span.ok_or_else(|| self.error(value, key, "should be a number of seconds"))
    }

    fn handlers(&self) -> Result<Vec<ResponseFormat>, YamlError> {
        let list = self.list("response_handlers")?;
        if list.is_empty() {
            return Ok(vec![ResponseFormat::Json]);
        }
        let handlers = list.iter().map(|item| match item.text() {
            Some("json") => Ok(ResponseFormat::Json),
            Some("xml") => Ok(ResponseFormat::Xml),
            Some("text") => Ok(ResponseFormat::Text),
            _ => Err(self.error(item, "response_handlers", "should be json, xml or text")),
        });
        handlers.collect()
    }

    /// One, or a list.
    fn namespaces(&self) -> Result<Vec<String>, YamlError> {
        let Some(value) = self.get("namespaces") else { return Ok(vec!["central".to_owned()]) };
        if let YamlNode::Text(namespace) = &value.node {
            return Ok(vec![namespace.clone()]);
        }
        let texts = self.list("namespaces")?.iter();
        texts.map(|item| self.text(item, "namespaces", "should be texts").map(str::to_owned)).collect()
    }
}

/// A list's items, or the value itself.
fn one_or_more(value: &Located) -> &[Located] {
    value.list().unwrap_or(std::slice::from_ref(value))
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}

/// Words separated by dots; the last one may be in braces.
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

    fn one(text: &str) -> Result<DynamicDefinition, YamlError> {
        parse(Path::new("p.yaml"), text).unwrap().remove(0)
    }

    #[test]
    fn a_pollster_is_read() {
        let definition = one(&format!(
            "{GOOD}  metadata_fields: [c, d.e]\n  value_mapping: {{up: 1, 2: 3, '4': 5, null: 6}}\n  headers: [{{X-A: b}}]\n  response_handlers: [xml, json]\n"
        ))
        .unwrap();
        assert_eq!(definition.value, ValuePath::parse("a.b").unwrap());
        assert_eq!(definition.metadata_fields[1], ("d.e".to_owned(), ValuePath::parse("d.e").unwrap()));
        let mapping: [(Value, Value); 4] =
            [("up".into(), 1.into()), (2.into(), 3.into()), ("4".into(), 5.into()), (Value::Null, 6.into())];
        assert_eq!(definition.value_mapping, mapping);
        assert_eq!(definition.headers, [("x-a".to_owned(), "b".to_owned())]);
        assert_eq!(definition.handlers, [ResponseFormat::Xml, ResponseFormat::Json]);
        assert!(definition.is_for(&["central".to_owned()]) && !definition.is_for(&["compute".to_owned()]));
        let several = one(&GOOD
            .replace("a.b\n  sample", "a.{kind}\n  sample")
            .replace("value_attribute: a.b", "value_attribute: '[list].x.y'"))
        .unwrap();
        assert_eq!(several.value, ValuePath::parse("x.y").unwrap());
        assert_eq!(several.several.unwrap().attribute, "kind");
        let single = one(&GOOD.replace("a.b\n  sample", "a.{some-kind}\n  sample")).unwrap();
        assert_eq!((&*single.name, single.several), ("a.{some-kind}", None));
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_key() {
        for (text, line, key) in [
            (GOOD.replace("  unit: x\n", ""), 1, "unit"),
            (GOOD.replace("gauge", "some"), 2, "sample_type"),
            (GOOD.replace("name: a.b", "name: a..b"), 1, "name"),
            (GOOD.replace("v1/x", "\"'v1/' + sample['id']\""), 5, "url_path"),
            (GOOD.replace("attribute: a.b", "attribute: a | open(value)"), 6, "value_attribute"),
            (GOOD.replace("attribute: a.b", "attribute: a | 7"), 6, "value_attribute"),
            (format!("{GOOD}  module: some\n"), 7, "module"),
            (format!("{GOOD}  host_command: [ls]\n"), 7, "host_command"),
            (format!("{GOOD}  extra_metadata_fields: [x]\n"), 7, "extra_metadata_fields"),
            (format!("{GOOD}  extra_metadata_fields:\n    name: x\n"), 8, "endpoint_type"),
            (
                format!(
                    "{GOOD}  extra_metadata_fields_skip: [x]\n  extra_metadata_fields: {{name: x, host_command: z}}\n"
                ),
                7,
                "extra_metadata_fields_skip",
            ),
            (format!("{GOOD}  response_handlers: [yaml]\n"), 7, "response_handlers"),
            (format!("{GOOD}  timeout: soon\n"), 7, "timeout"),
        ] {
            let error = one(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("p.yaml: line {line}: {key}: ")), "{text}{error}");
        }
    }

    #[test]
    fn metadata_of_others_have_what_their_pollster_says() {
        let text = format!(
            "{GOOD}  extra_metadata_fields_cache_seconds: 7\n  extra_metadata_fields_skip: [{{value: 1}}, {{}}]\n\
             \x20 extra_metadata_fields:\n\
             \x20   - {{name: p, endpoint_type: identity, url_path: \"'/v3/' + str(sample['id'])\", value: name}}\n\
             \x20   - {{name: q, host_command: date, extra_metadata_fields_cache_seconds: 0, extra_metadata_fields_skip: [{{a: 2}}]}}\n"
        );
        let definition = one(&text).unwrap();
        let [first, second] = &definition.extra[..] else { panic!("{definition:?}") };
        assert_eq!((first.definition.unit.as_str(), &first.definition.value), ("x", &ValuePath::to("name")));
        assert_eq!((first.lifetime.as_secs(), &first.skip[..]), (7, &[serde_json::json!({"value": 1})][..]));
        assert_eq!(second.definition.value, definition.value);
        assert_eq!((second.lifetime.as_secs(), &second.skip[..]), (0, &[serde_json::json!({"a": 2})][..]));
        assert_eq!(second.definition.source, ResponseSource::Command(Template::Text("date".to_owned())));
    }
}

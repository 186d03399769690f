//! Asks a service as a definition says, and makes samples of its answer.

use std::borrow::Cow;

use async_trait::async_trait;
use gnudi_http::Method;
use serde_json::{Map, Value};

use super::{
    definition::Definition,
    document::{look, read},
};
use crate::{
    polling::{
        cloud::{Cloud, same_origin},
        cycle::Cycle,
        outlet::Outlet,
        pollster::{PollError, Polled, Pollster},
        resource::Resource,
    },
    sample::{Metadata, Sample},
};

/// More pages has no list that ends.
const PAGES_MAX: usize = 10_000;

pub struct DynamicPollster {
    definition: Definition,
    discovery: String,
    cloud: Cloud,
}

impl DynamicPollster {
    pub fn new(definition: Definition, cloud: Cloud) -> Self {
        let discovery = format!("endpoint:{}", definition.endpoint_type);
        DynamicPollster { definition, discovery, cloud }
    }

    async fn page(&self, url: &str) -> Result<Value, PollError> {
        let headers: Vec<(&str, &str)> =
            self.definition.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.cloud.ask_within(&Method::GET, url, &headers, self.definition.timeout).await?;
        read(&answer.body, &self.definition.handlers).map_err(|error| PollError(format!("{url}: {error}")))
    }

    /// The items of a page.
    fn entries(&self, document: &Value) -> Vec<Value> {
        let entries = match (document, &self.definition.response_entries) {
            (Value::Array(_), _) => Some(document),
            (_, Some(steps)) => look(document, steps),
            (Value::Object(map), None) => map.values().next(),
            _ => None,
        };
        match entries {
            Some(Value::Array(entries)) => entries.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(entry) => vec![entry.clone()],
        }
    }

    /// The item with its ids under the usual names, where Ceilometer puts them before it looks for anything else. The usual
    /// names may lack; a name that the file gives must be there.
    fn with_ids(&self, mut entry: Value) -> Result<Value, String> {
        let Definition { user_id, project_id, resource_id, .. } = &self.definition;
        for (steps, usual) in [(user_id, "user_id"), (project_id, "project_id"), (resource_id, "id")] {
            let Some(steps) = steps.as_ref().filter(|steps| steps.as_slice() != [usual]) else { continue };
            let value = at(&entry, steps)?.clone();
            if let Some(fields) = entry.as_object_mut() {
                fields.insert(usual.to_owned(), value);
            }
        }
        Ok(entry)
    }

    /// The samples of one item. `Err` says what it lacks.
    fn samples(&self, entry: &Value) -> Result<Vec<Sample<'static>>, String> {
        let definition = &self.definition;
        let Some(several) = &definition.several else {
            let value = at(entry, &definition.value)?;
            if definition.skip_sample_values.contains(value) {
                return Ok(Vec::new());
            }
            return Ok(vec![self.sample(&definition.name, self.mapped(value), entry)?]);
        };
        let list = entry.get(&several.list).and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("{} is no list", several.list))?;
        let mut samples = Vec::new();
        for item in list {
            let part = item.get(&several.attribute).and_then(Value::as_str);
            let part = part.ok_or_else(|| format!("an item without {}", several.attribute))?;
            let value = at(item, &definition.value)?;
            let skipped = &definition.skip_sample_values;
            if skipped.contains(value) || skipped.iter().any(|skipped| skipped == part) {
                continue;
            }
            let name = definition.name.replace(&several.placeholder, part);
            samples.push(self.sample(&name, value.clone(), entry)?);
        }
        Ok(samples)
    }

    fn mapped(&self, value: &Value) -> Value {
        let definition = &self.definition;
        if definition.value_mapping.is_empty() {
            return value.clone();
        }
        let mapping = &definition.value_mapping;
        let found = mapping.iter().find(|(from, _)| from == value || is_written(from, value));
        found.map_or_else(
            || {
                tracing::warn!(%value, meter = definition.name, "a value that is not mapped: the default is told");
                definition.default_value.clone()
            },
            |(_, to)| to.clone(),
        )
    }

    fn sample(&self, name: &str, volume: Value, entry: &Value) -> Result<Sample<'static>, String> {
        let definition = &self.definition;
        let mut metadata = Map::new();
        for (field, steps) in &definition.metadata_fields {
            metadata.insert(field.clone(), at(entry, steps)?.clone());
        }
        for (field, mapped) in &definition.metadata_mapping {
            if let Some(value) = metadata.get(field).cloned() {
                metadata.insert(mapped.clone(), value);
                if !definition.preserve_mapped_metadata {
                    metadata.remove(field);
                }
            }
        }
        let id = |usual: &str| entry.get(usual).and_then(text);
        Ok(Sample {
            name: Cow::Owned(name.to_owned()),
            kind: definition.kind,
            unit: Cow::Owned(definition.unit.clone()),
            volume,
            user_id: id("user_id").map(Cow::Owned),
            project_id: id("project_id").map(Cow::Owned),
            resource_id: Cow::Owned(id("id").ok_or("no id of a resource")?),
            resource_metadata: Metadata::Parsed(metadata),
            ..Sample::default()
        })
    }
}

/// Whether a name in a file stands for this value: keys of maps are texts there.
fn is_written(name: &Value, value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Array(_) | Value::Object(_) => false,
        value => name.as_str().is_some_and(|name| name.eq_ignore_ascii_case(&value.to_string())),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

fn at<'a>(entry: &'a Value, steps: &[String]) -> Result<&'a Value, String> {
    look(entry, steps).ok_or_else(|| format!("there is no {}", steps.join(".")))
}

/// A path at an endpoint, by the rules of URLs: one that begins with `/` is from the host's root.
fn joined(endpoint: &str, path: &str) -> String {
    if path.starts_with("http://") || path.starts_with("https://") {
        return path.to_owned();
    }
    if path.starts_with('/') {
        let host_at = endpoint.find("://").map_or(0, |scheme| scheme + 3);
        let root = endpoint[host_at..].find('/').map_or(endpoint, |slash| &endpoint[..host_at + slash]);
        return format!("{root}{path}");
    }
    format!("{}/{path}", endpoint.trim_end_matches('/'))
}

#[async_trait]
impl Pollster for DynamicPollster {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some(&self.discovery)
    }

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        for endpoint in resources {
            let mut url = joined(&endpoint.id, &self.definition.url_path);
            for _ in 0..PAGES_MAX {
                let document = self.page(&url).await?;
                for entry in self.entries(&document) {
                    match self.with_ids(entry).and_then(|entry| self.samples(&entry)) {
                        Ok(samples) => {
                            for sample in samples {
                                outlet.push(sample).await?;
                            }
                        }
                        Err(error) => {
                            tracing::warn!(error, meter = self.definition.name, "no sample of an entry");
                        }
                    }
                }
                let next = self.definition.next_url.as_ref().and_then(|steps| look(&document, steps));
                match next.and_then(Value::as_str).filter(|next| !next.is_empty()) {
                    Some(next) => {
                        // The token is for the service, wherever its links lead.
                        let next = joined(&endpoint.id, next);
                        match same_origin(&url, &next) {
                            Some(next) if next != url => url = next,
                            _ => break,
                        }
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_links() {
        for (endpoint, path, url) in [
            ("http://a:1/v1", "x/y", "http://a:1/v1/x/y"),
            ("http://a:1/v1/", "x?y=z", "http://a:1/v1/x?y=z"),
            ("http://a:1/v1", "/x", "http://a:1/x"),
            ("http://a:1", "/x", "http://a:1/x"),
            ("http://a:1", "http://a:1/p?marker=2", "http://a:1/p?marker=2"),
        ] {
            assert_eq!(joined(endpoint, path), url);
        }
    }
}

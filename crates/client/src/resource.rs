//! `/v1/resource_type`, `/v1/resource/{type}` and `/v1/batch/resources/metrics/measures`.

use std::collections::BTreeMap;

use gnudi_model::{Measure, MetricId};
use serde::{Deserialize, Serialize};

use crate::{Client, Result, measures::write_measures, uri};

/// A resource type to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceTypeSpec {
    pub name: String,
    pub attributes: BTreeMap<String, StringAttribute>,
}

/// An attribute of a resource type that is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "string")]
pub struct StringAttribute {
    pub required: bool,
    pub min_length: u32,
    pub max_length: u32,
}

/// A resource; fields that this client does not need are left out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Resource {
    /// By name.
    pub metrics: BTreeMap<String, MetricId>,
}

/// The measures of one metric. The server creates the metric if its resource has none with this name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedMeasures {
    /// Of a new metric; `None`: by the server's rules.
    pub archive_policy_name: Option<String>,
    pub measures: Vec<Measure>,
}

/// Measures by resource (a UUID, or any text that identifies one together with the caller's name) and metric name.
pub type ResourcesBatch = BTreeMap<String, BTreeMap<String, NamedMeasures>>;

impl Client {
    /// A status of 409 means that it exists.
    pub async fn create_resource_type(&self, spec: &ResourceTypeSpec) -> Result<()> {
        let body = serde_json::to_vec(spec).expect("a resource type is JSON");
        self.post_only("/v1/resource_type".to_owned(), body).await
    }

    /// A status of 409 means that it exists.
    pub async fn create_resource(
        &self,
        resource_type: &str,
        id: &str,
        attributes: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mut body = BTreeMap::from([("id", id)]);
        body.extend(attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let body = serde_json::to_vec(&body).expect("a resource is JSON");
        self.post_only(uri::path("/v1/resource/", resource_type), body).await
    }

    /// A status of 404 means that it does not exist.
    pub async fn get_resource(&self, resource_type: &str, id: &str) -> Result<Resource> {
        let path = uri::path("/v1/resource/", resource_type);
        self.get(format!("{path}{}", uri::path("/", id))).await
    }

    /// Sends measures of named metrics of resources in one request, accepted or rejected as a whole; missing metrics
    /// are created. An error whose message contains `Unknown resources` means that a resource must be created first.
    pub async fn post_resources_batch(&self, batch: &ResourcesBatch) -> Result<()> {
        let path = "/v1/batch/resources/metrics/measures?create_metrics=true".to_owned();
        self.post_only(path, batch_body(batch)).await
    }
}

fn batch_body(batch: &ResourcesBatch) -> Vec<u8> {
    let mut body = Vec::new();
    body.push(b'{');
    for (index, (resource, metrics)) in batch.iter().enumerate() {
        put_key(resource, index, &mut body);
        body.push(b'{');
        for (index, (name, named)) in metrics.iter().enumerate() {
            put_key(name, index, &mut body);
            if let Some(policy) = &named.archive_policy_name {
                body.push(b'{');
                put_key("archive_policy_name", 0, &mut body);
                serde_json::to_writer(&mut body, policy).expect("a Vec takes it");
                put_key("measures", 1, &mut body);
                write_measures(&named.measures, &mut body);
                body.push(b'}');
            } else {
                write_measures(&named.measures, &mut body);
            }
        }
        body.push(b'}');
    }
    body.push(b'}');
    body
}

fn put_key(key: &str, index: usize, body: &mut Vec<u8>) {
    if index > 0 {
        body.push(b',');
    }
    serde_json::to_writer(&mut *body, key).expect("a Vec takes it");
    body.push(b':');
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_batch_names_resources_and_metrics() {
        let measures = vec![Measure { timestamp: Timestamp(0), value: 1.5 }];
        let named = |policy: Option<&str>| NamedMeasures {
            archive_policy_name: policy.map(str::to_owned),
            measures: measures.clone(),
        };
        let metrics =
            BTreeMap::from([("a|c".to_owned(), named(Some("low"))), ("b\"".to_owned(), named(None))]);
        let batch = BTreeMap::from([("r:1".to_owned(), metrics), ("s".to_owned(), BTreeMap::new())]);
        let body: Value = serde_json::from_slice(&batch_body(&batch)).unwrap();
        let measures = json!([{"timestamp": "1970-01-01T00:00:00.000000000", "value": 1.5}]);
        let expected = json!({
            "r:1": {"a|c": {"archive_policy_name": "low", "measures": measures}, "b\"": measures},
            "s": {},
        });
        assert_eq!(body, expected);
        assert_eq!(batch_body(&BTreeMap::new()), b"{}");
    }

    #[test]
    fn a_resource_type_has_gnocchis_form() {
        let attribute = StringAttribute { required: true, min_length: 0, max_length: 255 };
        let spec = ResourceTypeSpec {
            name: "t".to_owned(),
            attributes: BTreeMap::from([("host".to_owned(), attribute)]),
        };
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            json!({"name": "t", "attributes": {"host":
                {"type": "string", "required": true, "min_length": 0, "max_length": 255}}})
        );
    }
}

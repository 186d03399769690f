//! The resource types of Ceilometer's definitions, as `ceilometer-upgrade` creates them.

use serde_json::{Map, Value, json};

use super::store::{Store, StoreError};

/// Types with their attributes. `!` marks a required one (`!=`: existing resources get an empty text), `:` a type other
/// than a text of at most 255 characters.
const TYPES: &[(&str, &str)] = &[
    ("image", "name! container_format disk_format"),
    (
        "instance",
        "flavor_id! image_ref host display_name! server_group flavor_name!= launched_at:datetime created_at:datetime \
         deleted_at:datetime availability_zone",
    ),
    ("instance_disk", "name! instance_id:uuid!"),
    ("instance_network_interface", "name! instance_id:uuid!"),
    ("volume", "display_name volume_type image_id:uuid instance_id:uuid volume_type_id"),
    ("swift_account", "storage_policy"),
    ("ceph_account", ""),
    ("network", ""),
    ("identity", ""),
    ("ipmi", ""),
    ("stack", ""),
    ("host", "host_name!"),
    ("host_network_interface", "host_name! device_name"),
    ("host_disk", "host_name! device_name"),
    ("nova_compute", "host_name!"),
    ("manila_share", "name host! protocol availability_zone status!"),
    ("volume_provider", ""),
    ("volume_provider_pool", "provider!"),
    ("ipmi_sensor", "node!"),
    ("loadbalancer", "name availability_zone vip_address provider"),
    ("dns_zone", "zone_name email zone_type pool_id"),
    ("volume_service", "host binary zone status"),
];

/// An attribute in the form of the store's API, and its fill value for existing resources.
struct Attribute {
    name: &'static str,
    value: Value,
    fill: Option<&'static str>,
}

fn attributes(words: &'static str) -> impl Iterator<Item = Attribute> {
    words.split_whitespace().map(|word| {
        let (word, fill) = word.strip_suffix('=').map_or((word, None), |word| (word, Some("")));
        let (word, is_required) = word.strip_suffix('!').map_or((word, false), |word| (word, true));
        let (name, kind) = word.split_once(':').unwrap_or((word, "string"));
        let value = match kind {
            "string" => {
                json!({ "type": kind, "min_length": 0, "max_length": 255, "required": is_required })
            }
            kind => json!({ "type": kind, "required": is_required }),
        };
        Attribute { name, value, fill }
    })
}

/// Creates missing types, and missing attributes of existing ones. Idempotent.
pub async fn upgrade(store: &Store) -> Result<(), StoreError> {
    for (name, words) in TYPES {
        let path = format!("/v1/resource_type/{name}");
        let answer = store.get(&path).await;
        match answer.status.as_u16() {
            200 => add_attributes(store, &path, &answer.body, words).await?,
            404 => {
                let all: Map<String, Value> =
                    attributes(words).map(|attribute| (attribute.name.to_owned(), attribute.value)).collect();
                let body = json!({ "name": name, "attributes": all });
                let answer = store.post("/v1/resource_type", &body).await;
                // 409: somebody else did the same.
                if !answer.status.is_success() && answer.status.as_u16() != 409 {
                    return Err(StoreError::refused(&format!("resource type {name}"), &answer));
                }
                tracing::info!("resource type {name} created");
            }
            _ => return Err(StoreError::refused(&format!("resource type {name}"), &answer)),
        }
    }
    Ok(())
}

async fn add_attributes(
    store: &Store,
    path: &str,
    body: &[u8],
    words: &'static str,
) -> Result<(), StoreError> {
    let known: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(known) = known["attributes"].as_object() else {
        return Err(StoreError(format!("{path}: the store's answer is no resource type")));
    };
    let changes: Vec<Value> = attributes(words)
        .filter(|attribute| known.get(attribute.name) != Some(&attribute.value))
        .map(|Attribute { name, mut value, fill }| {
            if let Some(fill) = fill {
                value["options"] = json!({ "fill": fill });
            }
            json!({ "op": "add", "path": format!("/attributes/{name}"), "value": value })
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    let answer = store.patch(path, "application/json-patch+json", &Value::Array(changes)).await;
    if answer.status.is_success() {
        tracing::info!("{path}: attributes added");
        return Ok(());
    }
    Err(StoreError::refused(path, &answer))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::publishers::gnocchi::{GnocchiFigures, publisher::tests::options};

    #[tokio::test]
    async fn an_answer_that_is_no_type_adds_no_attributes() {
        let options = options("http://127.0.0.1:1".to_owned());
        let store = Store::new(&options, Duration::from_secs(1), GnocchiFigures::default()).unwrap();
        for body in ["<html>", "[]", r#"{"attributes": null}"#] {
            let added = add_attributes(&store, "/v1/resource_type/image", body.as_bytes(), "name!");
            assert!(added.now_or_never().is_some_and(|added| added.is_err()), "{body}");
        }
    }
}

//! Converts Nova's metadata in libvirt to an instance as Nova's API shows it, and to sample metadata.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha224};

use super::inspector::DomainDescription;
use crate::{hex::hex, meters::ReservedMetadata, xml::Element};

/// Instance attributes copied into samples, if known.
const PROPERTIES: [&str; 6] =
    ["reservation_id", "architecture", "OS-EXT-AZ:availability_zone", "kernel_id", "os_type", "ramdisk_id"];

/// `virDomainState` as Nova's power state and status.
fn states(state: u8) -> Option<(&'static str, &'static str)> {
    Some(match state {
        0 => ("pending", "building"),
        1 | 2 => ("running", "active"),
        3 => ("paused", "paused"),
        4 | 5 => ("shutdown", "stopped"),
        6 => ("crashed", "error"),
        7 => ("suspended", "suspended"),
        _ => return None,
    })
}

/// An instance of Nova. `Err` says what is missing. The flavor id is null if Nova is too old to store it.
pub fn from_domain(domain: &DomainDescription, metadata_xml: &str, host: &str) -> Result<Value, String> {
    let xml = Element::parse(&domain.xml).map_err(|error| error.to_string())?;
    let nova = Element::parse(metadata_xml).map_err(|error| error.to_string())?;
    let part = |path: &str| nova.find(path).ok_or(format!("no {path}"));
    let owner = |path: &str| part(path)?.attribute("uuid").ok_or(format!("{path} without a uuid"));
    let (user_id, project_id) = (owner("owner/user")?, owner("owner/project")?);
    let os_type = xml.find("os/type").ok_or("no os/type")?;
    let architecture = os_type.attribute("arch").ok_or("os/type without an arch")?;
    let (vm_state, status) = states(domain.state).ok_or(format!("unknown state {}", domain.state))?;
    let mut instance = json!({
        "id": domain.uuid,
        "name": part("name")?.own_text(),
        "flavor": flavor(part("flavor")?)?,
        "image": nova.all("root").find(|root| root.attribute("type") == Some("image")).map(
            |root| json!({ "id": root.attribute("uuid") }),
        ),
        "os_type": os_type.own_text(),
        "architecture": architecture,
        "OS-EXT-SRV-ATTR:instance_name": domain.name,
        "OS-EXT-SRV-ATTR:host": host,
        "OS-EXT-STS:vm_state": vm_state,
        "tenant_id": project_id,
        "user_id": user_id,
        "hostId": host_id(project_id, host),
        "status": status,
        "metadata": {},
    });
    if let Some(image) = nova.child("image") {
        instance["image_meta"] = Value::Object(image_meta(image));
    }
    Ok(instance)
}

/// The host id that Nova shows to a project.
fn host_id(project_id: &str, host: &str) -> String {
    hex(&Sha224::new().chain_update(project_id).chain_update(host).finalize())
}

fn flavor(flavor: &Element) -> Result<Value, String> {
    let name = flavor.attribute("name").ok_or("flavor without a name")?;
    let number = |key: &str| match flavor.child(key) {
        None => Ok(0),
        Some(element) => element.text.trim().parse::<i64>().map_err(|_| format!("flavor/{key} is no number")),
    };
    let id = flavor.attribute("id").filter(|id| !id.is_empty());
    let mut told = json!({
        "id": id,
        "name": name,
        "vcpus": number("vcpus")?,
        "ram": number("memory")?,
        "disk": number("disk")?,
        "ephemeral": number("ephemeral")?,
        "swap": number("swap")?,
    });
    if let Some(specs) = flavor.child("extraSpecs") {
        told["extra_specs"] = Value::Object(named_texts(specs, "extraSpec"));
    }
    Ok(told)
}

/// Texts of children by their attribute `name`.
fn named_texts(parent: &Element, child: &str) -> Map<String, Value> {
    let text = |item: &Element| Some((item.attribute("name")?.to_owned(), Value::from(item.own_text())));
    parent.all(child).filter_map(text).collect()
}

fn image_meta(image: &Element) -> Map<String, Value> {
    let mut meta = Map::new();
    if let Some(id) = image.attribute("uuid") {
        meta.insert("base_image_ref".to_owned(), id.into());
    }
    let names = [
        ("container_format", "containerFormat"),
        ("disk_format", "diskFormat"),
        ("min_disk", "minDisk"),
        ("min_ram", "minRam"),
    ];
    for (name, element) in names {
        if let Some(element) = image.child(element) {
            meta.insert(name.to_owned(), element.own_text().into());
        }
    }
    if let Some(properties) = image.child("properties") {
        meta.extend(named_texts(properties, "property"));
    }
    meta
}

/// The sample metadata of an instance. `Err` names what is missing.
pub fn metadata(instance: &Value, reserved: &ReservedMetadata) -> Result<Map<String, Value>, String> {
    let get = |key: &str| instance.get(key).cloned();
    let needed = |key: &str| get(key).ok_or(format!("the instance has no {key}"));
    let or_empty = |key: &str| get(key).unwrap_or_else(|| "".into());
    let flavor = needed("flavor")?;
    let of_flavor = |key: &str| flavor.get(key).cloned().ok_or(format!("the flavor has no {key}"));
    let (disk, ephemeral) = (of_flavor("disk")?, of_flavor("ephemeral")?);
    let status = needed("status")?.as_str().map(str::to_lowercase);
    let mut metadata = Map::new();
    let mut put = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
    put("display_name", needed("name")?);
    put("name", or_empty("OS-EXT-SRV-ATTR:instance_name"));
    put("instance_id", needed("id")?);
    put("instance_type", of_flavor("name")?);
    put("host", needed("hostId")?);
    put("instance_host", or_empty("OS-EXT-SRV-ATTR:host"));
    put("status", status.into());
    put("state", or_empty("OS-EXT-STS:vm_state"));
    put("task_state", or_empty("OS-EXT-STS:task_state"));
    let image = get("image").filter(Value::is_object);
    put("image_ref", image.as_ref().and_then(|image| image.get("id").cloned()).unwrap_or_default());
    let link = image.as_ref().and_then(|image| image.pointer("/links/0/href").cloned());
    put("image_ref_url", link.unwrap_or_default());
    put("image", image.unwrap_or_default());
    if let Some(meta) = get("image_meta").filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()))
    {
        put("image_meta", meta);
    }
    for name in PROPERTIES {
        if let Some(value) = get(name) {
            put(name, value);
        }
    }
    put("vcpus", of_flavor("vcpus")?);
    put("memory_mb", of_flavor("ram")?);
    let root = root_size(&disk, &ephemeral).ok_or("the flavor's sizes are no numbers, or out of range")?;
    put("root_gb", root.into());
    put("disk_gb", disk);
    put("ephemeral_gb", ephemeral);
    put("flavor", flavor);
    let own = get("metadata").and_then(|metadata| metadata.as_object().cloned()).unwrap_or_default();
    reserved.add(&own, &mut metadata);
    Ok(metadata)
}

/// The size of a flavor's root disk. `None` if its sizes are no numbers, or out of range.
pub fn root_size(disk: &Value, ephemeral: &Value) -> Option<i64> {
    whole(disk)?.checked_sub(whole(ephemeral)?)
}

/// An integer, also if written as a text.
pub fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_none() {
        assert_eq!(root_size(&json!(20), &json!("4")), Some(16));
        assert_eq!(root_size(&json!(i64::MIN), &json!(4)), None);
        assert_eq!(root_size(&json!(4), &json!(-1e30)), None);
        assert_eq!(root_size(&json!("small"), &json!(4)), None);
    }
}

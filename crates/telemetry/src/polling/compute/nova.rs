//! The instances on this machine as listed by Nova, for clouds that do not store instance metadata in libvirt.
//!
//! Nova is asked at most once per round; flavors and images are cached, with a lifetime. The jitter of rounds spreads
//! hosts that start together.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    time::Duration,
};

use async_trait::async_trait;
use gnudi_model::python::{float_of_text, quote, text_of_float};
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use super::LibvirtInspector;
use crate::polling::{
    cloud::{Cloud, CloudError},
    cycle::Cycle,
    discovery::{AgentGroup, Discovery, DiscoveryError},
    resource::Resource,
};

/// Cache lifetime: names and properties of images may change.
const LIFETIME: Duration = Duration::from_hours(1);
/// Pause after a failure, in which what is cached counts as valid.
const PAUSE: Duration = Duration::from_mins(1);
/// How much earlier than its interval, at most, the list of instances is requested again.
const EARLY_MAX: Duration = Duration::from_secs(1);
/// Maximum number of cached flavors and images.
const REMEMBERED_MAX: usize = 4096;
/// Image fields that are not properties.
const NO_PROPERTIES: [&str; 6] = ["id", "name", "metadata", "kernel_id", "ramdisk_id", "tags"];
/// Image properties that Ceilometer names differently than Glance.
const NAMES: [(&str, &str); 9] = [
    ("os_hidden", "is_hidden"),
    ("protected", "is_protected"),
    ("os_hash_algo", "hash_algo"),
    ("os_hash_value", "hash_value"),
    ("img_config_drive", "needs_config_drive"),
    ("os_secure_boot", "needs_secure_boot"),
    ("hw_vif_multiqueue_enabled", "is_hw_vif_multiqueue_enabled"),
    ("hw_boot_menu", "is_hw_boot_menu_enabled"),
    ("auto_disk_config", "has_auto_disk_config"),
];

/// `local_instances`, from Nova.
pub struct NovaInstances {
    cloud: Cloud,
    /// Measures the instances, and forgets those that are gone.
    inspector: LibvirtInspector,
    host: String,
    compute: String,
    image: String,
    /// Minimum time between two requests to Nova; 0 for every round.
    interval: Duration,
    known: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    instances: Vec<Resource>,
    asked: Option<Instant>,
    flavors: HashMap<String, Document>,
    images: HashMap<String, Document>,
}

impl Cache {
    /// Whether the instances are to be listed again. Rounds of the same interval are never exactly that far apart: one that
    /// begins a little early must not be left out.
    fn is_due(&self, now: Instant, interval: Duration) -> bool {
        let early = EARLY_MAX.min(interval / 10);
        self.asked.is_none_or(|asked| now.duration_since(asked) + early >= interval)
    }
}

/// A flavor or an image.
struct Document {
    /// Null if deleted.
    found: Value,
    /// When it is requested again.
    due: Instant,
}

impl NovaInstances {
    pub fn new(
        cloud: Cloud,
        inspector: LibvirtInspector,
        host: String,
        compute: String,
        image: String,
        interval: Duration,
    ) -> Self {
        NovaInstances { cloud, inspector, host, compute, image, interval, known: Mutex::default() }
    }

    async fn list(&self, known: &mut Cache) -> Result<Vec<Resource>, CloudError> {
        let base = self.cloud.versioned(&self.compute, "v2.1").await?;
        let host = quote(&self.host, "");
        let url = format!("{base}/servers/detail?host={host}&all_tenants=True");
        let mut instances = Vec::new();
        for mut server in self.cloud.list(&url, "servers", &[]).await? {
            let state = server.get("OS-EXT-STS:vm_state").and_then(Value::as_str);
            if matches!(state, Some("deleted" | "error")) {
                continue;
            }
            let Some(id) = server.get("id").and_then(Value::as_str).map(str::to_owned) else { continue };
            self.add_flavor(&base, &mut server, &mut known.flavors).await?;
            self.add_image(&mut server, &mut known.images).await?;
            instances.push(Resource::new(id, server));
        }
        Ok(instances)
    }

    async fn add_flavor(
        &self,
        base: &str,
        server: &mut Value,
        known: &mut HashMap<String, Document>,
    ) -> Result<(), CloudError> {
        let Some(id) = server.pointer("/flavor/id").and_then(Value::as_str).map(str::to_owned) else {
            return Ok(());
        };
        let url = format!("{base}/flavors/{}", quote(&id, ""));
        let found = self.cached(known, &id, &url).await?;
        let flavor = found.get("flavor").unwrap_or(&Value::Null);
        let unknown = Value::from(format!("unknown-id-{id}"));
        for (key, field, otherwise) in [
            ("name", "name", unknown),
            ("vcpus", "vcpus", 0.into()),
            ("ram", "ram", 0.into()),
            ("disk", "disk", 0.into()),
            ("ephemeral", "OS-FLV-EXT-DATA:ephemeral", 0.into()),
        ] {
            server["flavor"][key] = flavor.get(field).cloned().unwrap_or(otherwise);
        }
        Ok(())
    }

    async fn add_image(
        &self,
        server: &mut Value,
        known: &mut HashMap<String, Document>,
    ) -> Result<(), CloudError> {
        let Some(id) = server.pointer("/image/id").and_then(Value::as_str).map(str::to_owned) else {
            // For an instance booted from a volume it is an empty text.
            for key in ["image", "kernel_id", "ramdisk_id"] {
                server[key] = Value::Null;
            }
            return Ok(());
        };
        let url = format!("{}/images/{id}", self.cloud.versioned(&self.image, "v2").await?);
        let image = self.cached(known, &id, &url).await?;
        let name = image.get("name").cloned();
        server["image"]["name"] = name.unwrap_or_else(|| format!("unknown-id-{id}").into());
        for key in ["kernel_id", "ramdisk_id"] {
            server[key] = image.get(key).cloned().unwrap_or_default();
        }
        server["image_meta"] = Value::Object(image_meta(&id, image));
        Ok(())
    }

    /// The document at a URL, cached; null if there is none. If it cannot be requested again, the cached one is valid
    /// for a while longer: an outage of Glance must not hide instances whose image is known.
    async fn cached<'a>(
        &self,
        known: &'a mut HashMap<String, Document>,
        id: &str,
        url: &str,
    ) -> Result<&'a Value, CloudError> {
        if known.get(id).is_none_or(|document| document.due <= Instant::now()) {
            let answer = match self.cloud.get_json(url, &[]).await {
                Err(CloudError::Refused { status: 404, .. }) => Ok(Value::Null),
                answer => answer,
            };
            keep(known, id, answer)?;
        }
        Ok(&known[id].found)
    }
}

/// Caches an answer, or extends the lifetime of the cached one if there is none. `Err` if nothing is cached either.
fn keep(
    known: &mut HashMap<String, Document>,
    id: &str,
    answer: Result<Value, CloudError>,
) -> Result<(), CloudError> {
    match answer {
        Ok(found) => {
            if known.len() >= REMEMBERED_MAX && !known.contains_key(id) {
                known.clear();
            }
            known.insert(id.to_owned(), Document { found, due: Instant::now() + LIFETIME });
        }
        Err(error) => {
            let Some(document) = known.get_mut(id) else { return Err(error) };
            tracing::warn!(%error, "what was requested before is used");
            document.due = Instant::now() + PAUSE;
        }
    }
    Ok(())
}

/// An image's plain properties as texts, as in Nova's notifications; empty if the image is gone.
fn image_meta(id: &str, image: &Value) -> Map<String, Value> {
    let mut meta = Map::new();
    let Some(image) = image.as_object() else { return meta };
    meta.insert("base_image_ref".to_owned(), id.into());
    for (key, value) in image.iter().filter(|(key, _)| !NO_PROPERTIES.contains(&key.as_str())) {
        let text = match value {
            Value::String(text) => typed(key, text),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        let name = NAMES.iter().find(|(theirs, _)| theirs == key).map_or(key.as_str(), |(_, name)| *name);
        meta.insert(name.to_owned(), text.into());
    }
    if let Some(owner) = meta.get("owner").cloned() {
        meta.insert("owner_id".to_owned(), owner);
    }
    meta
}

/// A property's text as that of the type which Ceilometer's client library gives it.
fn typed(property: &str, text: &str) -> String {
    match property {
        "hw_boot_menu" | "hw_vif_multiqueue_enabled" | "os_require_quiesce" => {
            let text = text.trim().to_lowercase();
            let is_true = matches!(text.as_str(), "1" | "t" | "true" | "on" | "y" | "yes");
            if is_true { "True" } else { "False" }.to_owned()
        }
        "hw_cpu_sockets"
        | "hw_cpu_cores"
        | "hw_cpu_threads"
        | "hw_serial_port_count"
        | "hw_video_ram"
        | "os_shutdown_timeout" => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let digits = if is_number { text.trim_start_matches('0') } else { "" };
            if digits.is_empty() { "0" } else { digits }.to_owned()
        }
        "instance_type_rxtx_factor" => float_of_text(text).map_or_else(|| text.to_owned(), text_of_float),
        _ => text.to_owned(),
    }
}

#[async_trait]
impl Discovery for NovaInstances {
    fn name(&self) -> &'static str {
        "local_instances"
    }

    fn group(&self) -> AgentGroup {
        AgentGroup::ThisHost
    }

    fn key<'a>(&self, resource: &'a Resource) -> Cow<'a, str> {
        super::discovery::key("Server", resource)
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let mut known = self.known.lock().await;
        // Before the list, which takes some time.
        let now = Instant::now();
        if known.is_due(now, self.interval) {
            known.instances = self.list(&mut known).await?;
            known.asked = Some(now);
            let ids: HashSet<&str> = known.instances.iter().map(|instance| &*instance.id).collect();
            self.inspector.forget_others(|uuid| ids.contains(uuid));
        }
        Ok(known.instances.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_of_their_types() {
        for (property, text, expected) in [
            ("hw_boot_menu", "true", "True"),
            ("hw_vif_multiqueue_enabled", " Yes ", "True"),
            ("os_require_quiesce", "no", "False"),
            ("hw_cpu_cores", "04", "4"),
            ("hw_cpu_threads", "many", "0"),
            ("hw_video_ram", "-1", "0"),
            ("instance_type_rxtx_factor", "1", "1.0"),
            ("instance_type_rxtx_factor", "x", "x"),
            ("hw_qemu_guest_agent", "yes", "yes"),
        ] {
            assert_eq!(typed(property, text), expected, "{property}");
        }
    }

    #[test]
    fn instances_are_listed_in_each_round_of_the_same_interval() {
        let (began, interval) = (Instant::now(), Duration::from_mins(10));
        let mut known = Cache::default();
        assert!(known.is_due(began, interval));
        known.asked = Some(began);
        assert!(known.is_due(began + Duration::from_millis(599_980), interval));
        assert!(!known.is_due(began + interval / 2, interval));
        assert!(known.is_due(began, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn images_are_requested_again_and_outlive_an_outage() {
        let away = || Err(CloudError::Failed("away".to_owned()));
        let mut known = HashMap::new();
        assert_eq!(keep(&mut known, "i", away()), Err(CloudError::Failed("away".to_owned())));
        keep(&mut known, "i", Ok(Value::from("old"))).unwrap();
        assert_eq!((&known["i"].found, known["i"].due), (&Value::from("old"), Instant::now() + LIFETIME));
        tokio::time::sleep(LIFETIME).await;
        keep(&mut known, "i", away()).unwrap();
        assert_eq!((&known["i"].found, known["i"].due), (&Value::from("old"), Instant::now() + PAUSE));
        keep(&mut known, "i", Ok(Value::from("new"))).unwrap();
        assert_eq!((&known["i"].found, known["i"].due), (&Value::from("new"), Instant::now() + LIFETIME));
        for number in 0..REMEMBERED_MAX {
            keep(&mut known, &number.to_string(), Ok(Value::Null)).unwrap();
        }
        assert!(known.len() <= REMEMBERED_MAX);
    }
}

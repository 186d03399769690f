//! Data of instances that only Nova has: user metadata, and flavor ids if Nova is too old to store them in libvirt.
//!
//! Cached per instance and flavor, with a lifetime. A host with an empty cache fetches all instances with one list.
//! After a failure Nova is not asked for a while: instances are reported without these data.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use gnudi_model::python::quote;
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use crate::polling::cloud::{Cloud, CloudError};

/// Cache lifetime: users may change the metadata of an instance.
const LIFETIME: Duration = Duration::from_hours(1);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_mins(1);
/// Above this number, instances are fetched with one list.
const ONE_BY_ONE_MAX: usize = 2;

/// Fetches from Nova what libvirt does not have.
pub struct NovaExtra {
    cloud: Cloud,
    host: String,
    /// Nova's type in the catalogue.
    service: String,
    /// Whether to fetch user metadata.
    fetches_metadata: bool,
    known: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// The host's instances by id.
    servers: HashMap<String, Cached<NovaServer>>,
    /// Flavor ids by name.
    flavors: HashMap<String, Cached<String>>,
    paused_until: Option<Instant>,
}

/// `None` if it does not exist.
struct Cached<T> {
    found: Option<T>,
    asked: Instant,
}

impl<T> Cached<T> {
    fn now(found: Option<T>) -> Self {
        Cached { found, asked: Instant::now() }
    }
}

#[derive(Clone, Default)]
struct NovaServer {
    metadata: Map<String, Value>,
    flavor_id: Option<String>,
}

impl NovaServer {
    fn read(server: &Value) -> Self {
        NovaServer {
            metadata: server.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
            flavor_id: server.pointer("/flavor/id").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// Those of `names` that are not cached or have expired.
fn due<'a, T>(names: &[&'a str], known: &HashMap<String, Cached<T>>) -> Vec<&'a str> {
    let is_known = |name: &str| known.get(name).is_some_and(|answer| answer.asked.elapsed() < LIFETIME);
    let distinct: HashSet<&str> = names.iter().copied().filter(|name| !is_known(name)).collect();
    distinct.into_iter().collect()
}

impl NovaExtra {
    pub fn new(cloud: Cloud, host: String, service: String, fetches_metadata: bool) -> Self {
        NovaExtra { cloud, host, service, fetches_metadata, known: Mutex::default() }
    }

    /// Adds Nova's data, as far as available, to all instances discovered on this host: `metadata`, and missing flavor
    /// ids.
    pub async fn complete(&self, instances: &mut [Value]) {
        let mut known = self.known.lock().await;
        if self.fetches_metadata {
            let ids: Vec<&str> = instances.iter().filter_map(|instance| text(instance, "/id")).collect();
            // Forget instances that have left this host.
            known.servers.retain(|id, _| ids.contains(&id.as_str()));
            self.cache_servers(&ids, &mut known).await;
            for instance in instances.iter_mut() {
                add_server(instance, &known.servers);
            }
        }
        let without_id = |instance: &&Value| instance.pointer("/flavor/id").is_some_and(Value::is_null);
        let nameless = instances.iter().filter(without_id);
        let names: Vec<&str> = nameless.filter_map(|instance| text(instance, "/flavor/name")).collect();
        self.cache_flavors(&names, &mut known).await;
        for instance in instances.iter_mut().filter(|instance| without_id(&&**instance)) {
            let answer = text(instance, "/flavor/name").and_then(|name| known.flavors.get(name));
            if let Some(id) = answer.and_then(|answer| answer.found.clone()) {
                instance["flavor"]["id"] = id.into();
            }
        }
    }

    async fn cache_servers(&self, ids: &[&str], known: &mut Cache) {
        let due = due(ids, &known.servers);
        if due.is_empty() || known.is_paused() {
            return;
        }
        if let Err(error) = self.fetch_servers(due, &mut known.servers).await {
            known.pause(&error, "metadata of instances");
        }
    }

    async fn fetch_servers(
        &self,
        mut due: Vec<&str>,
        servers: &mut HashMap<String, Cached<NovaServer>>,
    ) -> Result<(), CloudError> {
        let base = self.cloud.versioned(&self.service, "v2.1").await?;
        if due.len() > ONE_BY_ONE_MAX {
            let host = quote(&self.host, "");
            let url = format!("{base}/servers/detail?host={host}&all_tenants=True");
            let listed = self.cloud.list(&url, "servers", &[]).await?;
            for server in &listed {
                let Some(at) = due.iter().position(|id| text(server, "/id") == Some(*id)) else { continue };
                servers.insert(due.swap_remove(at).to_owned(), Cached::now(Some(NovaServer::read(server))));
            }
        }
        // Those that are on another host according to Nova: being migrated.
        for id in due {
            let found = match self.cloud.get_json(&format!("{base}/servers/{}", quote(id, "")), &[]).await {
                Err(CloudError::Refused { status: 404, .. }) => {
                    tracing::warn!(id, "Nova has no such instance: its samples lack user metadata");
                    None
                }
                answer => answer?.get("server").map(NovaServer::read),
            };
            servers.insert(id.to_owned(), Cached::now(found));
        }
        Ok(())
    }

    async fn cache_flavors(&self, names: &[&str], known: &mut Cache) {
        let due = due(names, &known.flavors);
        if due.is_empty() || known.is_paused() {
            return;
        }
        let listed = async {
            let base = self.cloud.versioned(&self.service, "v2.1").await?;
            self.cloud.list(&format!("{base}/flavors?is_public=None"), "flavors", &[]).await
        };
        match listed.await {
            Ok(listed) => {
                known.flavors.retain(|name, _| names.contains(&name.as_str()));
                for name in due {
                    let found = listed.iter().find(|flavor| text(flavor, "/name") == Some(name));
                    let id = found.and_then(|flavor| text(flavor, "/id")).map(str::to_owned);
                    known.flavors.insert(name.to_owned(), Cached::now(id));
                }
            }
            Err(error) => known.pause(&error, "ids of flavors"),
        }
    }
}

impl Cache {
    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    fn pause(&mut self, error: &CloudError, what: &str) {
        let pause_s = PAUSE.as_secs();
        tracing::error!(%error, what, pause_s, "Nova does not respond: samples lack this");
        self.paused_until = Some(Instant::now() + PAUSE);
    }
}

fn add_server(instance: &mut Value, servers: &HashMap<String, Cached<NovaServer>>) {
    let answer = text(instance, "/id").and_then(|id| servers.get(id));
    let Some(server) = answer.and_then(|answer| answer.found.clone()) else { return };
    instance["metadata"] = Value::Object(server.metadata);
    if let (Some(Value::Null), Some(id)) = (instance.pointer("/flavor/id"), server.flavor_id) {
        instance["flavor"]["id"] = id.into();
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_long_ago_is_due() {
        let known = HashMap::from([
            ("there".to_owned(), Cached::now(Some(1))),
            ("nowhere".to_owned(), Cached::<i32>::now(None)),
        ]);
        let names = ["there", "nowhere", "new", "new"];
        assert_eq!(due(&names, &known), ["new"]);
        tokio::time::sleep(LIFETIME).await;
        let mut all = due(&names, &known);
        all.sort_unstable();
        assert_eq!(all, ["new", "nowhere", "there"]);
    }
}

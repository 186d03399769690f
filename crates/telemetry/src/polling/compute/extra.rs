//! What of instances that libvirt finds only Nova knows: a user's own metadata, and the ids of flavors where Nova is too old to
//! leave them with libvirt.
//!
//! It is asked once for each instance and flavor, and again when that is long ago. A host that knows nothing yet asks for all
//! its instances with one list. A Nova that is away is left alone for a while: instances are told without what it knows.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use gnudi_model::python::quote;
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use crate::polling::cloud::{Cloud, CloudError};

/// After so long Nova is asked again: a user may have changed what he says of his instance.
const LIFETIME: Duration = Duration::from_hours(1);
/// After a failure Nova is not asked for so long.
const PAUSE: Duration = Duration::from_mins(1);
/// More instances than this are asked for together.
const ONE_BY_ONE_MAX: usize = 2;

/// Asks Nova what libvirt does not tell.
pub struct NovaExtra {
    cloud: Cloud,
    host: String,
    /// Nova's type in the catalogue.
    service: String,
    /// Whether a user's own metadata are asked for.
    fetches_metadata: bool,
    known: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// Of the host's instances, by their ids.
    servers: HashMap<String, Answer<Server>>,
    /// Ids by names.
    flavors: HashMap<String, Answer<String>>,
    paused_until: Option<Instant>,
}

/// `None` for what there is not.
struct Answer<T> {
    found: Option<T>,
    asked: Instant,
}

impl<T> Answer<T> {
    fn now(found: Option<T>) -> Self {
        Answer { found, asked: Instant::now() }
    }
}

#[derive(Clone, Default)]
struct Server {
    metadata: Map<String, Value>,
    flavor_id: Option<String>,
}

impl Server {
    fn read(server: &Value) -> Self {
        Server {
            metadata: server.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
            flavor_id: server.pointer("/flavor/id").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// Those of `names` that nobody has asked for, or not for long.
fn due<'a, T>(names: &[&'a str], known: &HashMap<String, Answer<T>>) -> Vec<&'a str> {
    let is_known = |name: &str| known.get(name).is_some_and(|answer| answer.asked.elapsed() < LIFETIME);
    let distinct: HashSet<&str> = names.iter().copied().filter(|name| !is_known(name)).collect();
    distinct.into_iter().collect()
}

impl NovaExtra {
    pub fn new(cloud: Cloud, host: String, service: String, fetches_metadata: bool) -> Self {
        NovaExtra { cloud, host, service, fetches_metadata, known: Mutex::default() }
    }

    /// Adds what Nova knows, as far as it can be had, to all instances that libvirt has found here: `metadata`, and the ids of
    /// flavors that are null.
    pub async fn complete(&self, instances: &mut [Value]) {
        let mut known = self.known.lock().await;
        if self.fetches_metadata {
            let ids: Vec<&str> = instances.iter().filter_map(|instance| text(instance, "/id")).collect();
            // What is not here any more need not be remembered.
            known.servers.retain(|id, _| ids.contains(&id.as_str()));
            self.learn_servers(&ids, &mut known).await;
            for instance in instances.iter_mut() {
                add_server(instance, &known.servers);
            }
        }
        let without_id = |instance: &&Value| instance.pointer("/flavor/id").is_some_and(Value::is_null);
        let nameless = instances.iter().filter(without_id);
        let names: Vec<&str> = nameless.filter_map(|instance| text(instance, "/flavor/name")).collect();
        self.learn_flavors(&names, &mut known).await;
        for instance in instances.iter_mut().filter(|instance| without_id(&&**instance)) {
            let answer = text(instance, "/flavor/name").and_then(|name| known.flavors.get(name));
            if let Some(id) = answer.and_then(|answer| answer.found.clone()) {
                instance["flavor"]["id"] = id.into();
            }
        }
    }

    async fn learn_servers(&self, ids: &[&str], known: &mut Cache) {
        let due = due(ids, &known.servers);
        if due.is_empty() || known.is_paused() {
            return;
        }
        if let Err(error) = self.ask_for_servers(due, &mut known.servers).await {
            known.pause(&error, "metadata of instances");
        }
    }

    async fn ask_for_servers(
        &self,
        mut due: Vec<&str>,
        servers: &mut HashMap<String, Answer<Server>>,
    ) -> Result<(), CloudError> {
        let base = self.cloud.versioned(&self.service, "v2.1").await?;
        if due.len() > ONE_BY_ONE_MAX {
            let host = quote(&self.host, "");
            let url = format!("{base}/servers/detail?host={host}&all_tenants=True");
            let listed = self.cloud.list(&url, "servers", &[]).await?;
            for server in &listed {
                let Some(at) = due.iter().position(|id| text(server, "/id") == Some(*id)) else { continue };
                servers.insert(due.swap_remove(at).to_owned(), Answer::now(Some(Server::read(server))));
            }
        }
        // Those of another host by what Nova knows, on their way from there or to there.
        for id in due {
            let found = match self.cloud.get_json(&format!("{base}/servers/{}", quote(id, "")), &[]).await {
                Err(CloudError::Refused { status: 404, .. }) => {
                    tracing::warn!(
                        id,
                        "Nova does not know the instance: it is told without a user's own metadata"
                    );
                    None
                }
                answer => answer?.get("server").map(Server::read),
            };
            servers.insert(id.to_owned(), Answer::now(found));
        }
        Ok(())
    }

    async fn learn_flavors(&self, names: &[&str], known: &mut Cache) {
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
                    known.flavors.insert(name.to_owned(), Answer::now(id));
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
        tracing::error!(%error, what, pause_s, "Nova does not tell: instances are told without");
        self.paused_until = Some(Instant::now() + PAUSE);
    }
}

fn add_server(instance: &mut Value, servers: &HashMap<String, Answer<Server>>) {
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
            ("there".to_owned(), Answer::now(Some(1))),
            ("nowhere".to_owned(), Answer::<i32>::now(None)),
        ]);
        let names = ["there", "nowhere", "new", "new"];
        assert_eq!(due(&names, &known), ["new"]);
        tokio::time::sleep(LIFETIME).await;
        let mut all = due(&names, &known);
        all.sort_unstable();
        assert_eq!(all, ["new", "nowhere", "there"]);
    }
}

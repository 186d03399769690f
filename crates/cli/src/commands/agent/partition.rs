//! How polling agents share their resources: each knows who is there from a coordinator, and all of them compute alike
//! whose a resource is, by the ring that shares out sacks.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use gnudi_drivers::{
    OpenError,
    clients::redis::{RedisOptions, RedisUrl},
    coordination::{
        CoordinationError, Coordinator, Session,
        etcd::{EtcdCoordinator, EtcdOptions},
        redis::RedisCoordinator,
    },
};
use gnudi_engine::metricd::ring::Ring;
use gnudi_model::{MetricId, SackCount};
use gnudi_telemetry::polling::{discovery::Group, partition::Partition};
use tokio::{
    sync::{Mutex, OnceCell},
    task::JoinHandle,
};
use uuid::Uuid;

use crate::config::Config;

/// How long the coordinator may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Parts into which resources are shared out.
const PARTS: u16 = 4096;

/// Where agents find each other.
enum Place {
    Redis(Box<RedisOptions>),
    Etcd(EtcdOptions),
}

impl Place {
    async fn open(&self, cluster: Uuid) -> Result<Arc<dyn Coordinator>, OpenError> {
        Ok(match self {
            Place::Redis(options) => Arc::new(RedisCoordinator::open((**options).clone(), cluster).await?),
            Place::Etcd(options) => Arc::new(EtcdCoordinator::open(options.clone(), cluster).await?),
        })
    }
}

/// The membership of an agent in its group.
pub struct Members {
    place: Place,
    /// What the group's sessions lie under.
    cluster: Uuid,
    /// Opened when it is first reached: one that is away keeps nobody from polling.
    coordinator: OnceCell<Arc<dyn Coordinator>>,
    /// How long an agent counts as alive that has not said so: its resources move then.
    lease: Duration,
    /// The machine, a slash, and what is only this process's.
    name: String,
    host: String,
    session: Mutex<Option<Session>>,
    rings: std::sync::RwLock<Rings>,
}

/// Who owns what: for everything, and for what only the agents of this machine see.
#[derive(Default)]
struct Rings {
    everywhere: Option<Owners>,
    this_host: Option<Owners>,
}

struct Owners {
    ring: Ring,
    /// This agent's place among the members.
    own: usize,
}

impl Owners {
    /// `None` where this agent is not among the members.
    fn new(members: &[String], own: &str) -> Option<Self> {
        let own = members.iter().position(|member| member == own)?;
        Some(Owners { ring: Ring::new(members, parts()), own })
    }
}

fn parts() -> SackCount {
    SackCount(PARTS.try_into().expect("not zero"))
}

impl Rings {
    fn new(members: &[String], own: &str, host: &str) -> Self {
        let here = |member: &&String| member.strip_prefix(host).is_some_and(|rest| rest.starts_with('/'));
        let neighbours: Vec<String> = members.iter().filter(here).cloned().collect();
        Rings { everywhere: Owners::new(members, own), this_host: Owners::new(&neighbours, own) }
    }

    /// An agent that knows of nobody, itself included, polls everything: nothing is lost that way.
    fn is_mine(&self, group: Group, id: &str) -> bool {
        let owners = match group {
            Group::Everywhere => &self.everywhere,
            Group::ThisHost => &self.this_host,
        };
        let part = parts().sack_of(MetricId(Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes())));
        owners.as_ref().is_none_or(|owners| owners.ring.owner(part) == owners.own)
    }
}

/// What `[coordination] backend_url` asks for; `None` where it says nothing. Agents of one `group` share their work.
pub fn members(config: &Config, group: &str, host: &str) -> Result<Option<Arc<Members>>> {
    let Some(url) = config.text("coordination", "backend_url") else { return Ok(None) };
    let at = || config.place("coordination", "backend_url");
    let place = match url.split(':').next() {
        Some("redis" | "rediss" | "unix") => {
            let mut options = RedisOptions::new(url.parse::<RedisUrl>().with_context(at)?);
            options.timeout = TIMEOUT;
            Place::Redis(options.into())
        }
        Some(scheme) if scheme.starts_with("etcd") => {
            let options = EtcdOptions::parse(url).map_err(|reason| anyhow::anyhow!("{}: {reason}", at()))?;
            Place::Etcd(options.with_deadline(TIMEOUT))
        }
        _ => bail!("{}: redis:// and etcd3+http:// coordinate polling agents", at()),
    };
    Ok(Some(Arc::new(Members {
        place,
        cluster: Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("gnudi agent polling {group}").as_bytes()),
        coordinator: OnceCell::new(),
        lease: config.seconds("coordination", "lease_seconds"),
        name: format!("{host}/{}", Uuid::new_v4()),
        host: host.to_owned(),
        session: Mutex::default(),
        rings: std::sync::RwLock::default(),
    })))
}

impl Members {
    /// Stays a member until the task is aborted.
    pub fn keep(self: &Arc<Self>) -> JoinHandle<()> {
        let members = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                if let Err(error) = members.renew().await {
                    tracing::warn!(%error, "polling agents cannot be coordinated for now");
                }
                tokio::time::sleep(members.lease / 3).await;
            }
        })
    }

    async fn coordinator(&self) -> Result<&dyn Coordinator, CoordinationError> {
        let opened = self.coordinator.get_or_try_init(|| self.place.open(self.cluster)).await;
        opened.map(AsRef::as_ref).map_err(|error| CoordinationError::Unavailable(error.to_string()))
    }

    /// Joins, or says that the agent is still there.
    async fn renew(&self) -> Result<(), CoordinationError> {
        const ABOUT: &str = "{}";
        let coordinator = self.coordinator().await?;
        let mut session = self.session.lock().await;
        if let Some(joined) = *session {
            match coordinator.renew(joined, ABOUT).await {
                Err(CoordinationError::Expired) => {}
                renewed => return renewed,
            }
        }
        *session = Some(coordinator.join(&self.name, ABOUT, self.lease).await?);
        Ok(())
    }

    /// Has others take over at once.
    pub async fn leave(&self) {
        if let Some(session) = self.session.lock().await.take()
            && let Ok(coordinator) = self.coordinator().await
            && let Err(error) = coordinator.leave(session).await
        {
            tracing::debug!(%error, "others will notice later that this agent is gone");
        }
    }

    async fn look(&self) -> Result<Rings, CoordinationError> {
        self.renew().await?;
        let members = self.coordinator().await?.members().await?;
        let names: Vec<String> = members.into_iter().map(|member| member.name).collect();
        Ok(Rings::new(&names, &self.name, &self.host))
    }
}

#[async_trait]
impl Partition for Members {
    async fn refresh(&self) {
        match self.look().await {
            Ok(rings) => *self.rings.write().expect("nobody panics with it") = rings,
            Err(error) => {
                tracing::warn!(%error, "polling agents share their work as before: the coordinator does not answer");
            }
        }
    }

    fn is_mine(&self, group: Group, id: &str) -> bool {
        self.rings.read().expect("nobody panics with it").is_mine(group, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_one_agents_and_few_move() {
        let names: Vec<String> = ["a/1", "a/2", "b/3"].map(str::to_owned).to_vec();
        let ids: Vec<String> = (0..1000).map(|number| format!("resource {number}")).collect();
        let owner = |names: &[String], group, id: &str| {
            let mine = names.iter().filter(|name| {
                let host = name.split('/').next().unwrap();
                Rings::new(names, name, host).is_mine(group, id)
            });
            mine.cloned().collect::<Vec<_>>()
        };
        let rest: Vec<String> = names[..2].to_vec();
        let mut moved = 0;
        for id in &ids[..100] {
            let before = owner(&names, Group::Everywhere, id);
            let after = owner(&rest, Group::Everywhere, id);
            assert_eq!((before.len(), after.len()), (1, 1));
            moved += usize::from(before != after);
            // Each machine polls its own, and shares that only with the agents beside.
            assert_eq!(owner(&names, Group::ThisHost, id).len(), 2);
        }
        assert!((15..=60).contains(&moved), "{moved} of 100 moved");
        // Who is not (any more) a member polls everything.
        assert!(ids.iter().all(|id| Rings::new(&rest, "b/3", "b").is_mine(Group::Everywhere, id)));
    }
}

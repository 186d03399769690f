//! How polling agents share their resources: each knows who is there from a coordinator, and all of them compute alike
//! whose a resource is, by the groups and the ring of tooz, so that Ceilometer's agents are among them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use gnudi_drivers::{
    OpenError,
    clients::redis::{RedisOptions, RedisUrl},
    coordination::{
        CoordinationError,
        etcd::EtcdOptions,
        tooz::{EtcdGroups, GroupMember, Groups, RedisGroups, ring::Ring},
    },
};
use gnudi_telemetry::polling::{discovery::Group, partition::Partition, source::PollingSource};
use tokio::{sync::OnceCell, task::JoinHandle};
use uuid::Uuid;

use crate::config::Config;

/// How long the coordinator may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where agents find each other.
enum Place {
    Redis(Box<RedisOptions>),
    Etcd(EtcdOptions),
}

impl Place {
    async fn open(&self, id: &str, lease: Duration) -> Result<Arc<dyn Groups>, OpenError> {
        Ok(match self {
            Place::Redis(options) => Arc::new(RedisGroups::open((**options).clone(), id, lease).await?),
            Place::Etcd(options) => Arc::new(EtcdGroups::open(options, id, lease)?),
        })
    }
}

/// The membership of an agent in its groups.
pub struct Members {
    place: Place,
    /// Opened when it is first reached: one that is away keeps nobody from polling.
    groups: OnceCell<Arc<dyn Groups>>,
    /// How long an agent counts as alive that has not said so: its resources move then.
    lease: Duration,
    /// A UUID, as Ceilometer's agents have one.
    id: String,
    names: GroupNames,
    rings: std::sync::RwLock<HashMap<String, Ring>>,
}

/// What groups are called, as Ceilometer calls them.
struct GroupNames {
    /// The namespaces, and `[polling] partitioning_group_prefix`.
    prefix: String,
    host: String,
    /// Those that polling files name.
    named: HashSet<Arc<str>>,
}

impl GroupNames {
    fn of(&self, group: &Group) -> String {
        match group {
            Group::Everywhere => format!("{}-gnudi", self.prefix),
            Group::ThisHost => format!("{}-{}", self.prefix, self.host),
            Group::LocalNode => format!("{}-LocalNode-{}", self.prefix, self.host),
            Group::Named(name) => name.to_string(),
        }
    }

    fn all(&self) -> Vec<String> {
        let named = self.named.iter().cloned().map(Group::Named);
        [Group::Everywhere, Group::ThisHost, Group::LocalNode]
            .into_iter()
            .chain(named)
            .map(|group| self.of(&group))
            .collect()
    }
}

/// What `[coordination] backend_url` asks for; `None` where it says nothing. Agents of one `prefix` share their work.
pub fn members(
    config: &Config,
    prefix: &str,
    host: &str,
    sources: &[PollingSource],
) -> Result<Option<Arc<Members>>> {
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
    let named = |source: &PollingSource| match &source.group {
        Some(Group::Named(name)) => Some(name.clone()),
        _ => None,
    };
    let named = sources.iter().filter_map(named).collect();
    Ok(Some(Arc::new(Members {
        place,
        groups: OnceCell::new(),
        lease: lease(config, url),
        id: Uuid::new_v4().to_string(),
        names: GroupNames { prefix: prefix.to_owned(), host: host.to_owned(), named },
        rings: std::sync::RwLock::default(),
    })))
}

/// How long a member counts as alive: what the option says, or tooz' own options in the URL.
fn lease(config: &Config, url: &str) -> Duration {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let seconds = |wanted: &str| {
        let mut named = query.split('&').filter_map(|option| option.split_once('='));
        let (_, value) = named.find(|(name, _)| *name == wanted)?;
        value.parse().ok().filter(|seconds| (1.0..=1e6).contains(seconds))
    };
    match seconds("membership_timeout").or_else(|| seconds("timeout")) {
        Some(seconds) if !config.is_set("coordination", "lease_seconds") => Duration::from_secs_f64(seconds),
        _ => config.seconds("coordination", "lease_seconds"),
    }
}

impl Members {
    /// Stays a member until the task is aborted.
    pub fn keep(self: &Arc<Self>) -> JoinHandle<()> {
        let members = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                if let Err(error) = members.beat().await {
                    tracing::warn!(%error, "polling agents cannot be coordinated for now");
                }
                tokio::time::sleep(members.lease / 3).await;
            }
        })
    }

    async fn groups(&self) -> Result<&dyn Groups, CoordinationError> {
        let opened = self.groups.get_or_try_init(|| self.place.open(&self.id, self.lease)).await;
        opened.map(AsRef::as_ref).map_err(|error| CoordinationError::Unavailable(error.to_string()))
    }

    async fn beat(&self) -> Result<(), CoordinationError> {
        self.groups().await?.beat().await
    }

    /// Has others take over at once.
    pub async fn leave(&self) {
        if let Some(groups) = self.groups.get()
            && let Err(error) = groups.leave(&self.names.all()).await
        {
            tracing::debug!(%error, "others will notice later that this agent is gone");
        }
    }

    async fn look(&self) -> Result<HashMap<String, Ring>, CoordinationError> {
        let groups = self.groups().await?;
        groups.beat().await?;
        let mut rings = HashMap::new();
        for name in self.names.all() {
            let is_own = |member: &GroupMember| member.id == self.id.as_bytes();
            let mut members = groups.members(&name).await?;
            // Not yet, or others have thought it dead.
            if !members.iter().any(is_own) {
                groups.join(&name).await?;
                members = groups.members(&name).await?;
            }
            rings.insert(name, Ring::new(&members));
        }
        Ok(rings)
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

    /// An agent that knows of nobody, itself included, polls everything: nothing is lost that way.
    fn is_mine(&self, group: &Group, key: &str) -> bool {
        let rings = self.rings.read().expect("nobody panics with it");
        let owner = rings.get(&self.names.of(group)).and_then(|ring| ring.owner(key));
        owner.is_none_or(|owner| owner == self.id.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_called_as_ceilometer_calls_them() {
        let names =
            GroupNames { prefix: "compute-east".into(), host: "cmp1".into(), named: ["s-x".into()].into() };
        assert_eq!(
            names.all(),
            ["compute-east-gnudi", "compute-east-cmp1", "compute-east-LocalNode-cmp1", "s-x"]
        );
    }
}

//! Distributes resources over polling agents: each learns the members from a coordinator, and all compute the same
//! owner of a resource with the groups and the hash ring of tooz, so that Ceilometer's agents can be members.

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
use gnudi_telemetry::polling::{discovery::AgentGroup, partition::Partition, source::PollingSource};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::config::Config;

/// Timeout of the coordinator.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The coordinator of polling agents.
enum CoordinatorUrl {
    Redis(Box<RedisOptions>),
    Etcd(EtcdOptions),
}

impl CoordinatorUrl {
    async fn open(&self, id: &str, lease: Duration) -> Result<Arc<dyn Groups>, OpenError> {
        Ok(match self {
            CoordinatorUrl::Redis(options) => {
                Arc::new(RedisGroups::open((**options).clone(), id, lease).await?)
            }
            CoordinatorUrl::Etcd(options) => Arc::new(EtcdGroups::open(options, id, lease)?),
        })
    }
}

/// The membership of an agent in its groups.
pub struct Members {
    place: CoordinatorUrl,
    /// Opened on first use: an unavailable coordinator must not prevent polling.
    groups: OnceCell<Arc<dyn Groups>>,
    /// After this time without a heartbeat an agent counts as dead, and its resources move.
    lease: Duration,
    /// A UUID, as in Ceilometer's agents.
    id: String,
    names: GroupNames,
    rings: std::sync::RwLock<HashMap<String, Ring>>,
}

/// Group names, as in Ceilometer.
struct GroupNames {
    /// The namespaces, and `[polling] partitioning_group_prefix`.
    prefix: String,
    host: String,
    /// Groups named in polling files.
    named: HashSet<Arc<str>>,
}

impl GroupNames {
    fn of(&self, group: &AgentGroup) -> String {
        match group {
            AgentGroup::Everywhere => format!("{}-gnudi", self.prefix),
            AgentGroup::ThisHost => format!("{}-{}", self.prefix, self.host),
            AgentGroup::LocalNode => format!("{}-LocalNode-{}", self.prefix, self.host),
            AgentGroup::Named(name) => name.to_string(),
        }
    }

    fn all(&self) -> Vec<String> {
        let named = self.named.iter().cloned().map(AgentGroup::Named);
        [AgentGroup::Everywhere, AgentGroup::ThisHost, AgentGroup::LocalNode]
            .into_iter()
            .chain(named)
            .map(|group| self.of(&group))
            .collect()
    }
}

/// The groups at `[coordination] backend_url`; `None` if unset. Agents with the same `prefix` share their work.
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
            CoordinatorUrl::Redis(options.into())
        }
        Some(scheme) if scheme.starts_with("etcd") => {
            let options = EtcdOptions::parse(url).map_err(|reason| anyhow::anyhow!("{}: {reason}", at()))?;
            CoordinatorUrl::Etcd(options.with_deadline(TIMEOUT))
        }
        _ => bail!("{}: redis:// and etcd3+http:// coordinate polling agents", at()),
    };
    let named = |source: &PollingSource| match &source.group {
        Some(AgentGroup::Named(name)) => Some(name.clone()),
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

/// Lease of a member: from the option, or tooz' own options in the URL.
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
    /// Keeps up the membership; does not return.
    pub async fn keep_membership(&self) {
        loop {
            if let Err(error) = self.beat().await {
                tracing::warn!(%error, "polling agents cannot be coordinated for now");
            }
            tokio::time::sleep(self.lease / 3).await;
        }
    }

    async fn groups(&self) -> Result<&dyn Groups, CoordinationError> {
        let opened = self.groups.get_or_try_init(|| self.place.open(&self.id, self.lease)).await;
        opened.map(AsRef::as_ref).map_err(|error| CoordinationError::Unavailable(error.to_string()))
    }

    async fn beat(&self) -> Result<(), CoordinationError> {
        self.groups().await?.beat().await
    }

    /// Leaves the groups, so that others take over at once.
    pub async fn leave(&self) {
        if let Some(groups) = self.groups.get()
            && let Err(error) = groups.leave(&self.names.all()).await
        {
            tracing::debug!(%error, "leaving the groups failed: other agents take over when the membership expires");
        }
    }

    async fn look(&self) -> Result<HashMap<String, Ring>, CoordinationError> {
        let groups = self.groups().await?;
        groups.beat().await?;
        let mut rings = HashMap::new();
        for name in self.names.all() {
            let is_own = |member: &GroupMember| member.id == self.id.as_bytes();
            let mut members = groups.members(&name).await?;
            // Not a member yet, or expired.
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
                tracing::warn!(%error, "the coordinator does not respond: polling agents keep the last distribution of resources");
            }
        }
    }

    /// An agent that knows no members, not even itself, polls everything: so nothing is lost.
    fn is_mine(&self, group: &AgentGroup, key: &str) -> bool {
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

//! Discovers resources to poll.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;

use super::{cloud::CloudError, cycle::Cycle, resource::Resource};

/// Why a discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

impl From<CloudError> for DiscoveryError {
    fn from(error: CloudError) -> Self {
        DiscoveryError(error.to_string())
    }
}

/// A source of resources to poll.
#[async_trait]
pub trait Discovery: Send + Sync {
    /// Its name in polling files.
    fn name(&self) -> &'static str;

    /// The agents that share this discovery's resources.
    fn group(&self) -> AgentGroup {
        AgentGroup::Everywhere
    }

    /// The partitioning key of a resource: the same for all agents of the group.
    fn key<'a>(&self, resource: &'a Resource) -> Cow<'a, str> {
        Cow::Borrowed(&resource.id)
    }

    /// All resources, regardless of the partition. `parameter` is the text after the name's colon.
    async fn discover(&self, cycle: &Cycle, parameter: Option<&str>)
    -> Result<Vec<Resource>, DiscoveryError>;
}

/// Agents that discover the same resources and share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AgentGroup {
    /// All of gnudi's agents, without Ceilometer's: its partitioning key is an object of a client library as printed,
    /// which differs between releases. If two agents had different keys, some resources would be polled by none.
    Everywhere,
    /// The agents of this machine, Ceilometer's included, for what runs on it.
    ThisHost,
    /// The same agents, for the machine itself: Ceilometer has a separate group for it.
    LocalNode,
    /// The agents whose polling file names this group, Ceilometer's included.
    Named(Arc<str>),
}

/// The name of [`LocalNode`].
pub const LOCAL_NODE: &str = "local_node";

/// Discovers this machine, by its name, for pollsters that read the machine itself.
pub struct LocalNode(pub String);

#[async_trait]
impl Discovery for LocalNode {
    fn name(&self) -> &'static str {
        LOCAL_NODE
    }

    fn group(&self) -> AgentGroup {
        AgentGroup::LocalNode
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        Ok(vec![Resource::named(&self.0)])
    }
}

/// `name`, or `name:parameter`, or `name://parameter`. It is a URL, as for Ceilometer: what is before the colon is in
/// lower case, a query does not count.
pub fn split_url(url: &str) -> (Cow<'_, str>, Option<&str>) {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once(':') {
        Some((name, parameter)) => {
            (name.to_ascii_lowercase().into(), Some(parameter.strip_prefix("//").unwrap_or(parameter)))
        }
        None => (url.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_behind_a_colon() {
        for (url, name, parameter) in [
            ("tenant", "tenant", None),
            ("tenant?x=y", "tenant", None),
            ("endpoint:volume", "endpoint", Some("volume")),
            ("endpoint://volume", "endpoint", Some("volume")),
            ("Endpoint:Volume?x=y#z", "endpoint", Some("Volume")),
        ] {
            assert_eq!(split_url(url), (name.into(), parameter), "{url}");
        }
    }
}

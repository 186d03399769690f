//! What finds resources.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;

use super::{cloud::CloudError, cycle::Cycle, resource::Resource};

/// Why nothing could be found out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

impl From<CloudError> for DiscoveryError {
    fn from(error: CloudError) -> Self {
        DiscoveryError(error.to_string())
    }
}

#[async_trait]
pub trait Discovery: Send + Sync {
    /// As polling files name it.
    fn name(&self) -> &'static str;

    /// Agents whose discoveries find the same share it: those of one group.
    fn group(&self) -> Group {
        Group::Everywhere
    }

    /// By what a resource is shared out: the same for all agents of the group.
    fn key<'a>(&self, resource: &'a Resource) -> Cow<'a, str> {
        Cow::Borrowed(&resource.id)
    }

    /// All resources there are, whoever polls them. `parameter` is what stands behind the name's colon.
    async fn discover(&self, cycle: &Cycle, parameter: Option<&str>)
    -> Result<Vec<Resource>, DiscoveryError>;
}

/// Who finds the same resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// gnudi's agents of the cloud. Ceilometer's share out what its client libraries print of an object, which differs from release to
    /// release: agents that disagree about that would leave some resources to nobody.
    Everywhere,
    /// The agents of this machine, Ceilometer's too, for what runs on it.
    ThisHost,
    /// The same, for the machine itself: Ceilometer has a group of its own for it.
    LocalNode,
    /// The agents whose polling file says so, Ceilometer's too.
    Named(Arc<str>),
}

/// `name`, or `name:parameter`, or `name://parameter`.
pub fn split_url(url: &str) -> (&str, Option<&str>) {
    match url.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter.strip_prefix("//").unwrap_or(parameter))),
        None => (url, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_behind_a_colon() {
        assert_eq!(split_url("tenant"), ("tenant", None));
        assert_eq!(split_url("endpoint:volume"), ("endpoint", Some("volume")));
        assert_eq!(split_url("endpoint://volume"), ("endpoint", Some("volume")));
    }
}

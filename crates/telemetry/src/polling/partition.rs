//! Distributes resources over the agents that share them.

use async_trait::async_trait;

use super::discovery::AgentGroup;

/// Decides by the resource's key, so that all agents that know each other decide alike. How they find each other is not
/// known here.
#[async_trait]
pub trait Partition: Send + Sync {
    /// Updates the members of all groups; called before each round.
    async fn refresh(&self);

    fn is_mine(&self, group: &AgentGroup, key: &str) -> bool;
}

/// For a single agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

#[async_trait]
impl Partition for Alone {
    async fn refresh(&self) {}

    fn is_mine(&self, _: &AgentGroup, _: &str) -> bool {
        true
    }
}

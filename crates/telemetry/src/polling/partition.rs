//! Which resources are this agent's, where several share them.

use async_trait::async_trait;

use super::discovery::Group;

/// Decides by the resource's key, so that all agents that know of each other decide alike. Who they are is not known here.
#[async_trait]
pub trait Partition: Send + Sync {
    /// Looks who is there; called before each cycle.
    async fn refresh(&self);

    fn is_mine(&self, group: &Group, key: &str) -> bool;
}

/// For an agent that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

#[async_trait]
impl Partition for Alone {
    async fn refresh(&self) {}

    fn is_mine(&self, _: &Group, _: &str) -> bool {
        true
    }
}

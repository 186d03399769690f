//! `local_node`: discovers this machine, for pollsters that read the machine itself.

use async_trait::async_trait;

use super::{
    cycle::Cycle,
    discovery::{AgentGroup, Discovery, DiscoveryError},
    resource::Resource,
};

pub const NAME: &str = "local_node";

/// This machine's name.
pub struct LocalNode(pub String);

#[async_trait]
impl Discovery for LocalNode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn group(&self) -> AgentGroup {
        AgentGroup::LocalNode
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        Ok(vec![Resource::named(&self.0)])
    }
}

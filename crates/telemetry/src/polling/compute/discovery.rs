//! The instances on this machine.

use std::sync::Arc;

use async_trait::async_trait;

use super::{inspector::Inspector, instance};
use crate::polling::{
    cycle::Cycle,
    discovery::{Discovery, DiscoveryError, Group},
    resource::Resource,
};

/// `local_instances`, out of what Nova leaves with the hypervisor: nobody else is asked.
pub struct LocalInstances {
    pub inspector: Arc<dyn Inspector>,
    /// This machine's name in the cloud.
    pub host: String,
}

#[async_trait]
impl Discovery for LocalInstances {
    fn name(&self) -> &'static str {
        "local_instances"
    }

    fn group(&self) -> Group {
        Group::ThisHost
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let domains = self.inspector.domains().await.map_err(|error| DiscoveryError(error.to_string()))?;
        let mut instances = Vec::with_capacity(domains.len());
        for domain in &domains {
            let Some(metadata) = &domain.metadata_xml else {
                tracing::debug!(domain = domain.name, "not one of Nova's instances");
                continue;
            };
            match instance::from_domain(domain, metadata, &self.host, None) {
                Ok(instance) => instances.push(instance),
                Err(error) => tracing::error!(error, domain = domain.uuid, "an instance is left out"),
            }
        }
        Ok(instances)
    }
}

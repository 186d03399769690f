//! Discovers the instances on this machine through libvirt.

use std::borrow::Cow;

use async_trait::async_trait;

use serde_json::Value;

use super::{LibvirtInspector, NovaExtra, instance};
use crate::polling::{
    cycle::Cycle,
    discovery::{AgentGroup, Discovery, DiscoveryError},
    resource::Resource,
};

/// `local_instances`, from the metadata that Nova stores in libvirt.
pub struct LocalInstances {
    pub inspector: LibvirtInspector,
    /// This machine's host name in the cloud.
    pub host: String,
    /// Fetches further data from Nova; `None`: nothing is fetched.
    pub extra: Option<NovaExtra>,
}

#[async_trait]
impl Discovery for LocalInstances {
    fn name(&self) -> &'static str {
        "local_instances"
    }

    fn group(&self) -> AgentGroup {
        AgentGroup::ThisHost
    }

    fn key<'a>(&self, resource: &'a Resource) -> Cow<'a, str> {
        key("NovaLikeServer", resource)
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let domains = self.inspector.domains().await.map_err(|error| DiscoveryError(error.to_string()))?;
        let mut instances = Vec::with_capacity(domains.len());
        for domain in &domains {
            let Some(metadata) = &domain.metadata_xml else {
                tracing::debug!(domain = domain.name, "not one of Nova's instances");
                continue;
            };
            match instance::from_domain(domain, metadata, &self.host) {
                Ok(instance) => instances.push(instance),
                Err(error) => tracing::error!(error, domain = domain.uuid, "an instance is left out"),
            }
        }
        if let Some(extra) = &self.extra {
            extra.complete(&mut instances).await;
        }
        Ok(instances.into_iter().filter_map(resource).collect())
    }
}

/// The `repr` of a server in Ceilometer's agent, its key for partitioning.
pub(super) fn key<'a>(class: &str, instance: &'a Resource) -> Cow<'a, str> {
    format!("<{class}: {}>", instance.text("name").unwrap_or("unknown-name")).into()
}

/// A flavor with an unknown id is identified by its name.
fn resource(mut instance: Value) -> Option<Resource> {
    if instance["flavor"]["id"].is_null() {
        instance["flavor"]["id"] = instance["flavor"]["name"].clone();
    }
    let id = instance.get("id")?.as_str()?.to_owned();
    Some(Resource::new(id, instance))
}

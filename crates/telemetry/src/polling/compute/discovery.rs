//! The instances on this machine, as libvirt has them.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;

use serde_json::Value;

use super::{NovaExtra, inspector::Inspector, instance};
use crate::polling::{
    cycle::Cycle,
    discovery::{Discovery, DiscoveryError, Group},
    resource::Resource,
};

/// `local_instances`, out of what Nova leaves with the hypervisor.
pub struct LocalInstances {
    pub inspector: Arc<dyn Inspector>,
    /// This machine's name in the cloud.
    pub host: String,
    /// Who is asked for what else there is to know; nobody where it is `None`.
    pub extra: Option<NovaExtra>,
}

#[async_trait]
impl Discovery for LocalInstances {
    fn name(&self) -> &'static str {
        "local_instances"
    }

    fn group(&self) -> Group {
        Group::ThisHost
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

/// As Python prints one of Nova's servers in Ceilometer's agent, by which that shares instances out.
pub(super) fn key<'a>(class: &str, instance: &'a Resource) -> Cow<'a, str> {
    format!("<{class}: {}>", instance.text("name").unwrap_or("unknown-name")).into()
}

/// A flavor whose id nobody knows goes by its name.
fn resource(mut instance: Value) -> Option<Resource> {
    if instance["flavor"]["id"].is_null() {
        instance["flavor"]["id"] = instance["flavor"]["name"].clone();
    }
    let id = instance.get("id")?.as_str()?.to_owned();
    Some(Resource::new(id, instance))
}

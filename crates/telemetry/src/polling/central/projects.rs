//! `tenant`: the cloud's projects.

use async_trait::async_trait;
use serde_json::Value;

use crate::polling::{
    cloud::Cloud,
    cycle::Cycle,
    discovery::{Discovery, DiscoveryError},
    resource::Resource,
};

pub struct Projects {
    pub cloud: Cloud,
    pub enabled_only: bool,
}

fn id(item: &Value) -> Option<&str> {
    item.get("id")?.as_str()
}

#[async_trait]
impl Discovery for Projects {
    fn name(&self) -> &'static str {
        "tenant"
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let base = self.cloud.versioned("identity", "v3").await?;
        let enabled = if self.enabled_only { "enabled=True" } else { "" };
        let domains = self.cloud.list(&format!("{base}/domains?{enabled}"), "domains", &[]).await?;
        let mut projects = Vec::new();
        for domain in domains.iter().filter_map(id) {
            let url = format!("{base}/projects?domain_id={domain}&{enabled}");
            let found = self.cloud.list(url.trim_end_matches('&'), "projects", &[]).await?;
            projects.extend(found.into_iter().filter_map(|project| {
                let id = id(&project)?.to_owned();
                Some(Resource::new(id, project))
            }));
        }
        Ok(projects)
    }
}

//! Swift accounts: one per project.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_http::Answer;
use serde_json::{Map, Value};

use super::CentralOptions;
use crate::polling::{
    cloud::{Cloud, CloudError},
    cycle::Cycle,
    outlet::Outlet,
    pollster::{FailingResources, Meter, Polled, Pollster, owned},
    resource::Resource,
};

#[derive(Clone, Copy)]
enum SwiftFigure {
    /// A header of the account.
    Account(&'static str),
    /// A field of each container.
    Container(&'static str),
}

struct SwiftAccount {
    meter: Meter,
    figure: SwiftFigure,
    cloud: Cloud,
    service: String,
    reseller_prefix: String,
    failing: FailingResources,
}

const METERS: [(Meter, SwiftFigure); 5] = [
    (Meter::gauge("storage.objects", "object"), SwiftFigure::Account("x-account-object-count")),
    (Meter::gauge("storage.objects.size", "B"), SwiftFigure::Account("x-account-bytes-used")),
    (
        Meter::gauge("storage.objects.containers", "container"),
        SwiftFigure::Account("x-account-container-count"),
    ),
    (Meter::gauge("storage.containers.objects", "object"), SwiftFigure::Container("count")),
    (Meter::gauge("storage.containers.objects.size", "B"), SwiftFigure::Container("bytes")),
];

pub(super) fn pollsters(cloud: &Cloud, options: &CentralOptions) -> Vec<Arc<dyn Pollster>> {
    let account = |(meter, figure)| SwiftAccount {
        meter,
        figure,
        cloud: cloud.clone(),
        service: options.service_type("object-store").to_owned(),
        reseller_prefix: options.reseller_prefix.clone(),
        failing: FailingResources::default(),
    };
    METERS.into_iter().map(|meter| Arc::new(account(meter)) as Arc<dyn Pollster>).collect()
}

impl SwiftAccount {
    async fn url(&self, project: &str) -> Result<String, CloudError> {
        let endpoint = self.cloud.endpoint(&self.service).await?;
        let base = endpoint.split("/v1").next().unwrap_or_default().trim_end_matches('/');
        Ok(format!("{base}/v1/{}{project}", self.reseller_prefix))
    }

    /// The response whose headers describe the account.
    async fn account(&self, project: &str) -> Result<Answer, CloudError> {
        self.cloud.head(&self.url(project).await?).await
    }

    /// The first page, as Ceilometer reads it.
    async fn containers(&self, project: &str) -> Result<Vec<Value>, CloudError> {
        let url = self.url(project).await?;
        match self.cloud.get_json(&format!("{url}?format=json"), &[]).await? {
            Value::Array(containers) => Ok(containers),
            _ => Err(CloudError::Failed(format!("{url}: no list of containers"))),
        }
    }

    /// The volumes of a project's samples; with the container for container meters.
    async fn volumes(&self, cycle: &Cycle, project: &str) -> Result<Vec<(Value, Option<Value>)>, CloudError> {
        match self.figure {
            SwiftFigure::Account(header) => {
                let key = format!("swift account {project}");
                let account = cycle.shared(key, || self.account(project)).await;
                let account = account.as_ref().as_ref().map_err(Clone::clone)?;
                let volume = account.header(header).and_then(|text| text.parse::<i64>().ok());
                let volume = volume
                    .ok_or_else(|| CloudError::Failed(format!("the account has no header {header}")))?;
                Ok(vec![(volume.into(), None)])
            }
            SwiftFigure::Container(field) => {
                let key = format!("swift containers {project}");
                let containers = cycle.shared(key, || self.containers(project)).await;
                let containers = containers.as_ref().as_ref().map_err(Clone::clone)?;
                let volume = |container: &Value| container.get(field).cloned().unwrap_or_default();
                Ok(containers.iter().map(|one| (volume(one), Some(one.clone()))).collect())
            }
        }
    }
}

#[async_trait]
impl Pollster for SwiftAccount {
    fn name(&self) -> &str {
        self.meter.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("tenant")
    }

    async fn poll(&self, cycle: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        let mut failures = self.failing.failures();
        for project in self.failing.last_of(resources) {
            let answer = match self.volumes(cycle, &project.id).await {
                Err(CloudError::NoService(service)) => {
                    tracing::warn!(service, meter = self.meter.name, "the catalogue has no such service");
                    return Ok(());
                }
                Err(CloudError::Refused { status: 404, .. }) => {
                    tracing::warn!(project = %project.id, "Swift has no account of the project");
                    continue;
                }
                Err(error @ CloudError::Refused { status: 403, .. }) => {
                    tracing::error!(%error, project = %project.id, "the agent may not look into the account");
                    continue;
                }
                answer => failures.checked(self.meter.name, &project.id, answer)?,
            };
            for (volume, container) in answer.into_iter().flatten() {
                let (id, metadata) = match container {
                    None => (project.id.to_string(), Map::new()),
                    Some(container) => {
                        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                        let policy = container.get("storage_policy").cloned().unwrap_or_default();
                        let metadata = Map::from_iter([("storage_policy".to_owned(), policy)]);
                        (format!("{}/{name}", project.id), metadata)
                    }
                };
                let mut sample = self.meter.sample(id, volume, metadata);
                sample.project_id = owned(Some(&project.id));
                outlet.push(sample).await?;
            }
        }
        failures.outcome()
    }
}

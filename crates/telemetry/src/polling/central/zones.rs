//! How many record sets a DNS zone has.

use async_trait::async_trait;

use super::{
    listing::ALL_PROJECTS,
    meters::{ZONE, metadata},
};
use crate::polling::{
    cloud::{Cloud, CloudError},
    cycle::Cycle,
    outlet::Outlet,
    pollster::{FailingResources, Meter, Polled, Pollster, owned},
    resource::Resource,
};

pub struct RecordsetCount {
    cloud: Cloud,
    service: String,
    failing: FailingResources,
}

impl RecordsetCount {
    /// `service`: its type in the catalogue.
    pub fn new(cloud: Cloud, service: String) -> Self {
        RecordsetCount { cloud, service, failing: FailingResources::default() }
    }
}

const RECORDSETS: Meter = Meter::gauge("dns.zone.recordsets", "recordset");

#[async_trait]
impl Pollster for RecordsetCount {
    fn name(&self) -> &str {
        RECORDSETS.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("dns_zones")
    }

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        let base = self.cloud.versioned(&self.service, "v2").await?;
        let mut failures = self.failing.failures();
        for zone in self.failing.last_of(resources) {
            let url = format!("{base}/zones/{}/recordsets", zone.id);
            let answer = self.cloud.list(&url, "recordsets", ALL_PROJECTS).await;
            if let Err(CloudError::Refused { status: 404, .. }) = answer {
                tracing::debug!(zone = %zone.id, "the zone was deleted since it was listed");
                continue;
            }
            let answer = failures.checked(RECORDSETS.name, &zone.id, answer)?;
            let Some(recordsets) = answer else { continue };
            let volume = recordsets.len().into();
            let mut sample = RECORDSETS.sample(zone.id.to_string(), volume, metadata(&zone.body, ZONE));
            sample.project_id = owned(zone.text("project_id"));
            outlet.push(sample).await?;
        }
        failures.outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        polling::outlet::kept::Kept,
        test_server::{cloud, serve},
    };

    #[tokio::test]
    async fn zones_that_always_fail_cost_those_behind_them_one_round() {
        let service = serve(|request, _| match request {
            "GET /v2/zones/d/recordsets HTTP/1.1" | "GET /v2/zones/e/recordsets HTTP/1.1" => {
                ("200 OK", r#"{"recordsets": [{}]}"#)
            }
            _ => ("503 Service Unavailable", ""),
        });
        let pollster = RecordsetCount::new(cloud("dns", &[service.await]).await, "dns".to_owned());
        let zones = ["a", "b", "c", "d", "e"].map(Resource::named);
        let kept = Kept::default();
        for expected in [vec![], vec!["d", "e"]] {
            let mut outlet = kept.outlet();
            let polled = pollster.poll(&Cycle::default(), &zones, &mut outlet).await;
            assert!(polled.unwrap_err().0.contains("/c/recordsets"));
            outlet.finish().await.unwrap();
            assert_eq!(kept.take(), expected);
        }
    }
}

//! A dynamic pollster: makes samples of its source's entries.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::{
    definition::{DynamicDefinition, ResponseSource},
    extra,
    gather::Gatherer,
    reading::{readings, sample},
};
use crate::{
    polling::{
        cycle::Cycle,
        discovery::LOCAL_NODE,
        outlet::Outlet,
        pollster::{Polled, Pollster},
        resource::Resource,
    },
    sample::Sample,
};

pub struct DynamicPollster {
    definition: DynamicDefinition,
    discovery: String,
    gatherer: Gatherer,
}

impl DynamicPollster {
    pub fn new(definition: DynamicDefinition, gatherer: Gatherer) -> Self {
        let discovery = match &definition.source {
            ResponseSource::Endpoint { service, .. } => format!("endpoint:{service}"),
            ResponseSource::Command(_) => LOCAL_NODE.to_owned(),
        };
        DynamicPollster { definition, discovery, gatherer }
    }

    /// The samples of one entry. `Err` says what is missing.
    async fn samples(&self, entry: &Value) -> Result<Vec<Sample<'static>>, String> {
        let mut samples = Vec::new();
        for reading in readings(&self.definition, entry)? {
            let metadata = extra::metadata(&self.gatherer, &self.definition, entry, &reading).await?;
            samples.push(sample(&self.definition, reading, entry, metadata)?);
        }
        Ok(samples)
    }
}

#[async_trait]
impl Pollster for DynamicPollster {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some(&self.discovery)
    }

    /// An endpoint that fails costs no other its samples. The result is the first failure.
    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        let definition = &self.definition;
        let mut outcome = Ok(());
        for endpoint in resources {
            let mut pages =
                self.gatherer.pages(definition, &definition.base_metadata, &endpoint.id, Duration::ZERO)?;
            loop {
                let entries = match pages.next().await {
                    Ok(Some(entries)) => entries,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, meter = definition.name, endpoint = %endpoint.id, "no further samples");
                        outcome = outcome.and(Err(error));
                        break;
                    }
                };
                for entry in entries {
                    let samples = self.samples(&entry).await.unwrap_or_else(|error| {
                        tracing::warn!(error, meter = definition.name, "no sample of an entry");
                        Vec::new()
                    });
                    for sample in samples {
                        outlet.push(sample).await?;
                    }
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::file::parse, *};
    use crate::{
        polling::outlet::kept::Kept,
        test_server::{cloud, serve},
    };

    #[tokio::test]
    async fn an_endpoint_that_fails_costs_no_other_its_samples() {
        let url = serve(|request, _| match request {
            "GET /a/things HTTP/1.1" => ("200 OK", r#"[{"id": "a", "v": 1}]"#),
            "GET /c/things HTTP/1.1" => ("200 OK", r#"[{"id": "c", "v": 3}]"#),
            _ => ("503 Service Unavailable", ""),
        });
        let url = url.await;
        let text = "- {name: x, sample_type: gauge, unit: x, value_attribute: v, endpoint_type: s, url_path: things}";
        let definition = parse(Path::new("p.yaml"), text).unwrap().remove(0).unwrap();
        let pollster = DynamicPollster::new(definition, Gatherer::new(Some(cloud("s", &[]).await)));
        let endpoints = ["a", "b", "c"].map(|path| Resource::named(&format!("{url}/{path}")));
        let kept = Kept::default();
        let mut outlet = kept.outlet();
        let polled = pollster.poll(&Cycle::default(), &endpoints, &mut outlet).await;
        assert!(polled.unwrap_err().0.contains("/b/things"));
        outlet.finish().await.unwrap();
        assert_eq!(kept.take(), ["a", "c"]);
    }
}

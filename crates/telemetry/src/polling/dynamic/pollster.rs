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

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        let definition = &self.definition;
        for endpoint in resources {
            let mut pages =
                self.gatherer.pages(definition, &definition.base_metadata, &endpoint.id, Duration::ZERO)?;
            while let Some(entries) = pages.next().await? {
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
        Ok(())
    }
}

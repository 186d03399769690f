//! What makes samples of resources.

use std::borrow::Cow;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{cloud::CloudError, cycle::Cycle, outlet::Outlet, resource::Resource};
use crate::sample::{Metadata, Sample, SampleKind};

/// Why a pollster could not go on. What it has made before is sent all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PollError(pub String);

/// What a pollster comes to; its samples go to the outlet.
pub type Polled = Result<(), PollError>;

impl From<CloudError> for PollError {
    fn from(error: CloudError) -> Self {
        PollError(error.to_string())
    }
}

/// One meter, or a few that go by one name in polling files.
#[async_trait]
pub trait Pollster: Send + Sync {
    /// The meter's name, by which polling files select it.
    fn name(&self) -> &str;

    /// Where resources come from when a polling file names none: `local_instances`, `endpoint:volume` ...
    fn default_discovery(&self) -> Option<&str>;

    /// Makes samples of the resources, which are not empty. What concerns one resource alone is logged, and the next is
    /// looked at.
    async fn poll(&self, cycle: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled;
}

/// Makes a sample of what its discovery tells of each resource, and asks nobody else.
pub struct OfEach<F> {
    pub meter: Meter,
    pub discovery: &'static str,
    /// `None` for a resource of which there is no sample.
    pub sample: F,
}

#[async_trait]
impl<F: Fn(Meter, &Resource) -> Option<Sample<'static>> + Send + Sync> Pollster for OfEach<F> {
    fn name(&self) -> &str {
        self.meter.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some(self.discovery)
    }

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        for resource in resources {
            if let Some(sample) = (self.sample)(self.meter, resource) {
                outlet.push(sample).await?;
            }
        }
        Ok(())
    }
}

/// A meter's unchanging part.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    pub name: &'static str,
    pub kind: SampleKind,
    pub unit: &'static str,
}

impl Meter {
    pub const fn gauge(name: &'static str, unit: &'static str) -> Self {
        Meter { name, kind: SampleKind::Gauge, unit }
    }

    pub const fn cumulative(name: &'static str, unit: &'static str) -> Self {
        Meter { name, kind: SampleKind::Cumulative, unit }
    }

    /// A sample without an owner; the outlet gives it its time, source and id.
    pub fn sample(self, resource_id: String, volume: Value, metadata: Map<String, Value>) -> Sample<'static> {
        Sample {
            name: Cow::Borrowed(self.name),
            kind: self.kind,
            unit: Cow::Borrowed(self.unit),
            volume,
            resource_id: Cow::Owned(resource_id),
            resource_metadata: Metadata::Parsed(metadata),
            ..Sample::default()
        }
    }
}

/// A text of its own, for a sample's owner.
pub fn owned(text: Option<&str>) -> Option<Cow<'static, str>> {
    text.map(|text| Cow::Owned(text.to_owned()))
}

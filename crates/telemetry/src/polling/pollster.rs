//! The interface of pollsters, which make samples of resources.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{cloud::CloudError, cycle::Cycle, outlet::Outlet, resource::Resource};
use crate::sample::{Metadata, Sample, SampleKind};

/// Why a pollster failed. The samples it made before are sent all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PollError(pub String);

/// The result of a pollster; its samples go to the outlet.
pub type Polled = Result<(), PollError>;

impl From<CloudError> for PollError {
    fn from(error: CloudError) -> Self {
        PollError(error.to_string())
    }
}

/// So many resources that fail one after the other are a service that fails: the rest is not polled.
const FAILURES_IN_A_ROW_MAX: usize = 3;

/// Maximum number of resources whose failures are remembered; beyond it all are forgotten.
const FAILING_MAX: usize = 10_000;

/// Resources whose last request failed, each with the number of that failure. A pollster keeps it between rounds, to poll
/// them last: it would never reach those behind three that always fail.
#[derive(Debug, Default)]
pub struct FailingResources(Mutex<Failing>);

#[derive(Debug, Default)]
struct Failing {
    numbers: HashMap<Arc<str>, u64>,
    failures: u64,
}

impl FailingResources {
    /// The resources in the order in which to poll them: those that failed come last, the longest unasked first.
    pub fn last_of<'a>(&self, resources: &'a [Resource]) -> Vec<&'a Resource> {
        let failing = self.0.lock();
        let mut ordered: Vec<&Resource> = resources.iter().collect();
        ordered.sort_by_key(|resource| failing.numbers.get(&resource.id).copied());
        ordered
    }

    /// Of a round.
    pub fn failures(&self) -> ResourceFailures<'_> {
        ResourceFailures { failing: self, first: None, in_a_row: 0 }
    }

    fn answered(&self, resource: &str) {
        self.0.lock().numbers.remove(resource);
    }

    fn failed(&self, resource: &Arc<str>) {
        let mut failing = self.0.lock();
        failing.failures += 1;
        let number = failing.failures;
        if failing.numbers.len() >= FAILING_MAX {
            failing.numbers.clear();
        }
        failing.numbers.insert(Arc::clone(resource), number);
    }
}

/// The failures of single resources, each with a request of its own: they cost no other resource its samples.
#[derive(Debug)]
pub struct ResourceFailures<'a> {
    failing: &'a FailingResources,
    first: Option<PollError>,
    in_a_row: usize,
}

impl ResourceFailures<'_> {
    /// The answer about a resource; `None` after a failure, which is logged. `Err` after too many in a row: the pollster
    /// should end.
    pub fn checked<T>(
        &mut self,
        meter: &str,
        resource: &Arc<str>,
        answer: Result<T, CloudError>,
    ) -> Result<Option<T>, PollError> {
        let error = match answer {
            Ok(answer) => {
                self.failing.answered(resource);
                self.in_a_row = 0;
                return Ok(Some(answer));
            }
            Err(error) => PollError::from(error),
        };
        self.failing.failed(resource);
        self.in_a_row += 1;
        if self.in_a_row >= FAILURES_IN_A_ROW_MAX {
            return Err(error);
        }
        tracing::warn!(%error, meter, resource = &**resource, "no sample");
        self.first.get_or_insert(error);
        Ok(None)
    }

    /// The result of the pollster: the first failure, if there was any.
    pub fn outcome(self) -> Polled {
        self.first.map_or(Ok(()), Err)
    }
}

/// One meter, or a few that share a name in polling files.
#[async_trait]
pub trait Pollster: Send + Sync {
    /// The meter's name, which polling files select it by.
    fn name(&self) -> &str;

    /// The discovery to use if a polling file names none: `local_instances`, `endpoint:volume` ...
    fn default_discovery(&self) -> Option<&str>;

    /// Makes samples of the resources (at least one). An error of a single resource is logged, and the next one is
    /// polled.
    async fn poll(&self, cycle: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled;
}

/// Makes samples of each discovered resource, without further requests.
pub struct OfEach<F> {
    pub meter: Meter,
    pub discovery: &'static str,
    /// Makes the samples of a resource: any number of them, or at most one.
    pub samples: F,
}

#[async_trait]
impl<F, S> Pollster for OfEach<F>
where
    F: Fn(Meter, &Resource) -> S + Send + Sync,
    S: IntoIterator<Item = Sample<'static>>,
    S::IntoIter: Send,
{
    fn name(&self) -> &str {
        self.meter.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some(self.discovery)
    }

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        for resource in resources {
            for sample in (self.samples)(self.meter, resource) {
                outlet.push(sample).await?;
            }
        }
        Ok(())
    }
}

/// The constant properties of a meter.
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

    /// A sample without an owner; the outlet sets its time, source and id.
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

/// An owned text, for the owner of a sample.
pub fn owned(text: Option<&str>) -> Option<Cow<'static, str>> {
    text.map(|text| Cow::Owned(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> Result<i32, CloudError> {
        Err(CloudError::Failed(text.to_owned()))
    }

    #[test]
    fn failures_are_of_resources_until_they_come_in_a_row() {
        let error = |text: &str| PollError(text.to_owned());
        let failing = FailingResources::default();
        let mut failures = failing.failures();
        for answer in [failed("a"), failed("b"), Ok(7), failed("c"), failed("d")] {
            assert_eq!(failures.checked("m", &"r".into(), answer.clone()), Ok(answer.ok()));
        }
        assert_eq!(failures.checked("m", &"r".into(), failed("e")), Err(error("e")));
        assert_eq!(failures.outcome(), Err(error("a")));
        assert_eq!(failing.failures().outcome(), Ok(()));
    }

    #[test]
    fn what_fails_is_polled_last_and_in_turn() {
        let resources = ["a", "b", "c", "d", "e", "f"].map(Resource::named);
        let failing = FailingResources::default();
        let poll = |fails: &[&str]| {
            let (mut failures, mut polled) = (failing.failures(), Vec::new());
            for resource in failing.last_of(&resources) {
                polled.push(&*resource.id);
                let answer = if fails.contains(&&*resource.id) { failed("x") } else { Ok(1) };
                if failures.checked("m", &resource.id, answer).is_err() {
                    break;
                }
            }
            polled.concat()
        };
        let fails = ["a", "b", "c", "e"];
        assert_eq!(poll(&fails), "abc");
        assert_eq!(poll(&fails), "defabc");
        // The first of them is not always the same one.
        assert_eq!(poll(&fails), "dfeab");
        assert_eq!(poll(&[]), "dfceab");
        assert_eq!(poll(&[]), "abcdef");
    }
}

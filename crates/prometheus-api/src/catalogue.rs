//! The catalogue: an in-memory index of all series by labels. `following` keeps it up to date, `reading`
//! reads from the metadata index.
//!
//! It is loaded at the first request, which may take seconds with millions of metrics; concurrent requests
//! wait for the same load.

mod following;
mod reading;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use gnudi_engine::Engine;
use gnudi_indexer::{IndexerError, MetricScope};
pub use gnudi_prometheus::index::{Census, FoundSeries};
use gnudi_prometheus::{
    index::{Condition, Index, Owner},
    labels::{CEILOMETER_PREFIX, RESOURCE_ID, exported},
};
use gnudi_promql::{Labels, METRIC_NAME, MatchKind, Matcher};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use following::Following;

/// Why a selection failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    /// More series match than a query may select.
    #[error("more than {0} series match")]
    TooManySeries(usize),
    #[error(transparent)]
    Index(#[from] IndexerError),
}

/// The catalogue of an index.
#[derive(Debug)]
pub struct Catalogue {
    shared: Arc<Shared>,
    ceilometer_names: bool,
}

/// Shared by requests and the task that follows the index.
struct Shared {
    engine: Arc<Engine>,
    series: RwLock<Index>,
    /// `None` until the first request. The lock's holder updates the catalogue.
    following: Mutex<Option<Following>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} series", self.series.read().len())
    }
}

impl Catalogue {
    /// `ceilometer_names`: also match the names that Ceilometer's exporters would give the metrics.
    pub fn new(engine: Arc<Engine>, ceilometer_names: bool) -> Self {
        let shared = Shared { engine, series: RwLock::default(), following: Mutex::new(None) };
        Catalogue { shared: Arc::new(shared), ceilometer_names }
    }

    /// The series that match all matchers and that the caller may see (`None`: all), unordered. Series of
    /// different writers with equal labels get a label `metric_id`.
    pub async fn select(
        &self,
        matchers: &[Matcher],
        seen: Option<&MetricScope>,
        series_max: usize,
    ) -> Result<Vec<FoundSeries>, CatalogueError> {
        self.follow().await?;
        let series = self.shared.series.read();
        let mut found = Vec::new();
        for conditions in self.conditions(matchers) {
            let left = series_max - found.len();
            let more = series.select(&conditions, &|owner| sees(seen, owner), left);
            found.append(&mut more.map_err(|_| CatalogueError::TooManySeries(series_max))?);
        }
        drop(series);
        disambiguate(&mut found);
        Ok(found)
    }

    /// The sorted label names of the series that match any of the matcher sets; of all series if `sets` is
    /// empty.
    pub async fn label_names(
        &self,
        sets: &[&[Matcher]],
        seen: Option<&MetricScope>,
    ) -> Result<Vec<Arc<str>>, CatalogueError> {
        self.follow().await?;
        let sets: Vec<_> = sets.iter().flat_map(|matchers| self.conditions(matchers)).collect();
        Ok(listed(self.shared.series.read().label_names(&sets, &|owner| sees(seen, owner))))
    }

    /// Like [`Catalogue::label_names`], for the values of one label.
    pub async fn label_values(
        &self,
        label: &str,
        sets: &[&[Matcher]],
        seen: Option<&MetricScope>,
    ) -> Result<Vec<Arc<str>>, CatalogueError> {
        self.follow().await?;
        let series = self.shared.series.read();
        let values =
            |sets: &[Vec<Condition<'_>>]| series.label_values(label, sets, &|owner| sees(seen, owner));
        let mut conditions: Vec<_> = sets.iter().flat_map(|matchers| self.conditions(matchers)).collect();
        let mut renamed: BTreeSet<Arc<str>> = BTreeSet::new();
        if label == METRIC_NAME {
            // What is found by an exporter's name is returned under it.
            conditions.retain(|conditions| {
                let Some(name) = exported_name(conditions) else { return true };
                if !values(std::slice::from_ref(conditions)).is_empty() {
                    renamed.insert(Arc::from(name));
                }
                false
            });
        }
        let mut found = values(&conditions);
        found.append(&mut renamed);
        if label == METRIC_NAME && sets.is_empty() && self.ceilometer_names {
            // Clients check here whether a metric exists before they query it.
            let of_resources =
                Matcher::new(MatchKind::NotEqual, RESOURCE_ID, "").expect("it has no expression");
            let own = values(&[vec![Condition::Matcher(&of_resources)]]);
            found.extend(own.iter().map(|name| exported(name).into()));
        }
        Ok(listed(found))
    }

    /// Counts the series that the caller may see; at most `limit` entries per list.
    pub async fn census(&self, seen: Option<&MetricScope>, limit: usize) -> Result<Census, CatalogueError> {
        self.follow().await?;
        Ok(self.shared.series.read().census(&|owner| sees(seen, owner), limit))
    }

    /// The conditions: the matchers, or the same with another name.
    fn conditions<'m>(&self, matchers: &'m [Matcher]) -> Vec<Vec<Condition<'m>>> {
        let plain: Vec<_> = matchers.iter().map(Condition::Matcher).collect();
        let is_exported = |matcher: &Matcher| {
            matcher.name == METRIC_NAME
                && matcher.operator() == "="
                && matcher.value.starts_with(CEILOMETER_PREFIX)
        };
        let exported = matchers.iter().position(|matcher| self.ceilometer_names && is_exported(matcher));
        let Some(exported) = exported else { return vec![plain] };
        let mut renamed = plain.clone();
        renamed[exported] = Condition::ExportedAs(&matchers[exported].value);
        vec![plain, renamed]
    }
}

/// The name of a condition [`Condition::ExportedAs`] among these.
fn exported_name<'c>(conditions: &[Condition<'c>]) -> Option<&'c str> {
    conditions.iter().find_map(|condition| match condition {
        Condition::ExportedAs(name) => Some(*name),
        Condition::Matcher(_) => None,
    })
}

fn sees(seen: Option<&MetricScope>, owner: &Owner) -> bool {
    let Owner { creator, project, resource_creator } = owner;
    seen.is_none_or(|scope| scope.includes(creator, project.as_deref(), resource_creator.as_deref()))
}

fn listed(texts: BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
    texts.into_iter().collect()
}

/// Adds a distinguishing label to series with equal labels.
fn disambiguate(found: &mut [FoundSeries]) {
    let mut counts: HashMap<&Labels, u32> = HashMap::with_capacity(found.len());
    for series in &*found {
        *counts.entry(&series.labels).or_default() += 1;
    }
    if counts.len() == found.len() {
        return;
    }
    let repeated: Vec<bool> = found.iter().map(|series| counts[&series.labels] > 1).collect();
    for (series, is_repeated) in found.iter_mut().zip(repeated) {
        if is_repeated {
            let id = series.metric.to_string();
            let more = [("metric_id", id.as_str())];
            series.labels = Labels::new(series.labels.iter().chain(more));
        }
    }
}

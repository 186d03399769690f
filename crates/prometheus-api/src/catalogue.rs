//! The catalogue: an in-memory index of all series by labels. `following` keeps it up to date, `reading`
//! reads from the metadata index.
//!
//! It is loaded at the first request, which may take seconds with millions of metrics; concurrent requests
//! wait for the same load.
//!
//! Long searches (`search`) leave the request threads, and test regular expressions while the index is unlocked.

mod following;
mod reading;
mod search;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use gnudi_engine::Engine;
use gnudi_indexer::{IndexerError, MetricScope};
pub use gnudi_prometheus::index::{Census, FoundSeries};
use gnudi_prometheus::{
    index::{Condition, Index, SearchError},
    labels::{METRIC_ID, RESOURCE_ID, exported},
};
use gnudi_promql::{Labels, METRIC_NAME, MatchKind, Matcher};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Mutex;

use following::Following;
use search::{Search, View};

/// Why a selection failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    /// More series match than a query may select.
    #[error("more than {0} series match")]
    TooManySeries(usize),
    /// Testing the regular expression on a label value would take minutes.
    #[error("a label value is too long for the regular expression")]
    TooLong,
    #[error("the search took too long")]
    TimedOut,
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
        write!(out, "{} series", self.index().len())
    }
}

impl Shared {
    /// The index, locked for reading. A change may wait for a long search; this does not wait for that change, since it runs
    /// on request threads. `follow` holds new searches back meanwhile, so that changes get their turn.
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.series.read_recursive()
    }
}

impl Catalogue {
    /// `ceilometer_names`: also match the names that Ceilometer's exporters would give the metrics.
    pub fn new(engine: Arc<Engine>, ceilometer_names: bool) -> Self {
        let shared = Shared { engine, series: RwLock::default(), following: Mutex::new(None) };
        Catalogue { shared: Arc::new(shared), ceilometer_names }
    }

    /// The series that match any of the matcher sets and that the caller may see (`None`: all), unordered. At most `series_max`;
    /// one that several sets match counts several times. Series of different writers with equal labels get a label `metric_id`.
    pub async fn select(
        &self,
        sets: &[&[Matcher]],
        seen: Option<&MetricScope>,
        series_max: usize,
    ) -> Result<Vec<FoundSeries>, CatalogueError> {
        let search = Search { series_max, ..self.search(sets, seen) };
        let select = move |view: View<'_>| -> Result<_, SearchError> {
            let View { index, sets, sees, stops } = view;
            let mut found = Vec::new();
            for conditions in sets {
                let left = series_max - found.len();
                found.append(&mut index.select(conditions, sees, left, stops)?);
            }
            if sets.len() > 1 {
                let mut known = HashSet::with_capacity(found.len());
                found.retain(|series| known.insert((series.metric, series.labels.clone())));
            }
            disambiguate(&mut found);
            Ok(found)
        };
        self.run(search, select).await
    }

    /// The sorted label names of the series that match any of the matcher sets; of all series if `sets` is
    /// empty.
    pub async fn label_names(
        &self,
        sets: &[&[Matcher]],
        seen: Option<&MetricScope>,
    ) -> Result<Vec<Arc<str>>, CatalogueError> {
        let list = |view: View<'_>| view.index.label_names(view.sets, view.sees, view.stops).map(listed);
        self.run(self.search(sets, seen), list).await
    }

    /// Like [`Catalogue::label_names`], for the values of one label.
    pub async fn label_values(
        &self,
        label: &str,
        sets: &[&[Matcher]],
        seen: Option<&MetricScope>,
    ) -> Result<Vec<Arc<str>>, CatalogueError> {
        let (label, ceilometer_names) = (label.to_owned(), self.ceilometer_names);
        let list = move |view: View<'_>| -> Result<_, SearchError> {
            let View { index, sets, sees, stops } = view;
            let values = |sets: &[Vec<Condition<'_>>]| index.label_values(&label, sets, sees, stops);
            if sets.is_empty() {
                let mut found = values(&[])?;
                if label == METRIC_NAME && ceilometer_names {
                    // Clients check here whether a metric exists before they query it.
                    let of_resources = not_empty(RESOURCE_ID);
                    let own = values(&[vec![Condition::Matcher(&of_resources)]])?;
                    found.extend(own.iter().map(|name| exported(name).into()));
                }
                return Ok(listed(found));
            }
            let mut plain = Vec::with_capacity(sets.len());
            let mut renamed: BTreeSet<Arc<str>> = BTreeSet::new();
            for conditions in sets {
                let exported_name = conditions.iter().find_map(Condition::exported_name);
                let Some(name) = exported_name.filter(|_| label == METRIC_NAME) else {
                    plain.push(conditions.clone());
                    continue;
                };
                // What is found by an exporter's name is returned under it.
                if !values(std::slice::from_ref(conditions))?.is_empty() {
                    renamed.insert(Arc::from(name));
                }
            }
            let mut found = values(&plain)?;
            found.append(&mut renamed);
            Ok(listed(found))
        };
        self.run(self.search(sets, seen), list).await
    }

    /// The values of a label by metric name, for all names that [`Catalogue::label_values`] lists; some have no value. One
    /// search for all names: a search for each name would check again which owners the caller may see.
    pub async fn values_by_name(
        &self,
        label: &str,
        seen: Option<&MetricScope>,
    ) -> Result<BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, CatalogueError> {
        let (label, ceilometer_names) = (label.to_owned(), self.ceilometer_names);
        let (named, of_resources) = ([not_empty(METRIC_NAME)], not_empty(RESOURCE_ID));
        let list = move |view: View<'_>| -> Result<_, SearchError> {
            let View { index, sets, sees, stops } = view;
            let mut found = index.label_values_by(METRIC_NAME, &label, sets, sees, stops)?;
            if ceilometer_names {
                let sets = [vec![Condition::Matcher(&of_resources)]];
                let own = index.label_values_by(METRIC_NAME, &label, &sets, sees, stops)?;
                for (name, mut values) in own {
                    found.entry(exported(&name).into()).or_default().append(&mut values);
                }
            }
            Ok(found)
        };
        self.run(self.search(&[&named], seen), list).await
    }

    /// Counts the series that the caller may see; at most `limit` entries per list.
    pub async fn census(&self, seen: Option<&MetricScope>, limit: usize) -> Result<Census, CatalogueError> {
        let count = move |view: View<'_>| Ok(view.index.census(view.sees, limit));
        self.run(self.search(&[], seen), count).await
    }

    fn search(&self, sets: &[&[Matcher]], seen: Option<&MetricScope>) -> Search {
        Search {
            sets: sets.iter().map(|matchers| matchers.to_vec()).collect(),
            seen: seen.cloned(),
            ceilometer_names: self.ceilometer_names,
            series_max: usize::MAX,
        }
    }
}

fn not_empty(label: &str) -> Matcher {
    Matcher::new(MatchKind::NotEqual, label, "").expect("it has no expression")
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
            let more = [(METRIC_ID, id.as_str())];
            series.labels = Labels::new(series.labels.iter().chain(more));
            series.is_told_apart = true;
        }
    }
}

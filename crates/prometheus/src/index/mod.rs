//! An in-memory inverted index over the labels of series.
//!
//! The index is partitioned by owner: each owner has a part with its series and, for each pair of a label and a value,
//! the numbers of the series that have it (`part`, `postings`). So, apart from one access check per owner, the cost of
//! a query depends only on the series of the owners that the caller may see, and its result reveals nothing about
//! others. Parts share only interned texts (`texts`). `select` finds series, `tested` tests values of labels without the
//! index, `census` counts series.
//!
//! A series takes 150 to 200 bytes with typical labels of exporters and Ceilometer (`examples/label_index.rs`).

mod census;
mod part;
mod postings;
mod select;
mod tested;
mod texts;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use gnudi_model::MetricId;
use gnudi_promql::{Labels, Matcher};
use hashbrown::HashTable;

pub use census::Census;
use part::Part;
pub use tested::{LabelValues, Tested};
use texts::Texts;

use crate::labels::{METRIC_ID, MetricLabels};

/// What access to a series depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The creator of the metric.
    pub creator: Arc<str>,
    /// The project of the metric's resource.
    pub project: Option<Arc<str>>,
    /// The creator of the metric's resource.
    pub resource_creator: Option<Arc<str>>,
}

/// A series to put into the index.
#[derive(Clone, Debug)]
pub struct NewSeries<'a> {
    pub metric: MetricId,
    pub archive_policy_name: &'a str,
    pub owner: Owner,
    /// Not empty.
    pub labels: MetricLabels<'a>,
}

/// A selected series.
#[derive(Clone, Debug)]
pub struct FoundSeries {
    pub metric: MetricId,
    pub archive_policy_name: Arc<str>,
    pub labels: Labels,
    /// Whether the labels have a [`METRIC_ID`] that the index lacks, since those of another series were equal.
    pub is_told_apart: bool,
}

impl FoundSeries {
    /// The labels as in the index.
    pub fn indexed_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().filter(move |(label, _)| !self.is_told_apart || *label != METRIC_ID)
    }
}

/// A condition on the labels of a series.
#[derive(Clone, Copy, Debug)]
pub enum Condition<'a> {
    Matcher(&'a Matcher),
    /// A matcher with the results of earlier tests. Values that were not tested are tested when they are found.
    Tested(&'a Matcher, &'a Tested),
    /// The series was not written with its labels, and this is the name that Ceilometer's exporters give its metric
    /// name. It is returned under this name.
    ExportedAs(&'a str),
}

impl<'a> Condition<'a> {
    /// The matcher, if it has a regular expression.
    pub fn expression(&self) -> Option<&'a Matcher> {
        match self {
            Condition::Matcher(matcher) | Condition::Tested(matcher, _) => {
                Some(*matcher).filter(|matcher| matches!(matcher.operator(), "=~" | "!~"))
            }
            Condition::ExportedAs(_) => None,
        }
    }

    /// The name of a condition [`Condition::ExportedAs`].
    pub fn exported_name(&self) -> Option<&'a str> {
        if let Condition::ExportedAs(name) = self { Some(*name) } else { None }
    }
}

/// Why a search has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchError {
    /// More series match than the limit allows.
    TooManySeries,
    /// A value is too long for the regular expression that tests it.
    TooLong,
    /// [`Stops`] was true.
    Stopped,
}

/// Whether the caller may see an owner's series.
pub type Sees<'a> = &'a dyn Fn(&Owner) -> bool;

/// Whether a search is to stop; polled for each value and each series.
pub type Stops<'a> = &'a dyn Fn() -> bool;

fn poll(stops: Stops<'_>) -> Result<(), SearchError> {
    if stops() { Err(SearchError::Stopped) } else { Ok(()) }
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    texts: Texts,
    parts: Vec<Part>,
    by_owner: HashMap<Owner, u32>,
    /// Empty parts, for reuse.
    free: Vec<u32>,
    locations: Locations,
}

impl Index {
    /// The number of series.
    pub fn len(&self) -> usize {
        self.locations.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn contains(&self, metric: MetricId) -> bool {
        self.locations.find(metric, &self.parts).is_some()
    }

    /// The metrics of all series.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.parts.iter().flat_map(|part| part.live().map(|(_, series)| series.metric))
    }

    /// Inserts series; each replaces the former series of its metric. No metric may occur twice in `series`.
    pub fn put(&mut self, series: &[NewSeries<'_>]) {
        let is_unchanged = |new: &NewSeries<'_>| {
            let location = self.locations.find(new.metric, &self.parts)?;
            let part = &self.parts[location.part as usize];
            Some(part.owner == new.owner && part.is_same(location.number, new))
        };
        let changes: Vec<(&NewSeries<'_>, Option<bool>)> =
            series.iter().map(|new| (new, is_unchanged(new))).collect();
        let changed: Vec<MetricId> =
            changes.iter().filter(|(_, same)| *same == Some(false)).map(|(new, _)| new.metric).collect();
        self.remove(&changed);
        for (new, same) in changes {
            if same != Some(true) {
                let part = self.part_of(&new.owner);
                let number = self.parts[part as usize].push(new, &mut self.texts);
                self.locations.insert(new.metric, Location { part, number }, &self.parts);
            }
        }
    }

    /// Removes the series of metrics. Metrics without a series are ignored.
    pub fn remove(&mut self, metrics: &[MetricId]) {
        let mut removed: HashMap<u32, Vec<u32>> = HashMap::new();
        for metric in metrics {
            if let Some(location) = self.locations.remove(*metric, &self.parts) {
                removed.entry(location.part).or_default().push(location.number);
            }
        }
        for (part, numbers) in removed {
            self.parts[part as usize].remove(numbers);
            self.free_or_compact(part);
        }
        self.texts.sweep(metrics.len());
    }

    /// The number of an owner's part, which is created if missing.
    fn part_of(&mut self, owner: &Owner) -> u32 {
        if let Some(part) = self.by_owner.get(owner) {
            return *part;
        }
        let mut share = |text: &Arc<str>| self.texts.intern(text);
        let owner = Owner {
            creator: share(&owner.creator),
            project: owner.project.as_ref().map(&mut share),
            resource_creator: owner.resource_creator.as_ref().map(share),
        };
        let part = self.free.pop().unwrap_or_else(|| {
            self.parts.push(Part::default());
            u32::try_from(self.parts.len() - 1).expect("owners fit into memory")
        });
        self.parts[part as usize] = Part::new(owner.clone());
        self.by_owner.insert(owner, part);
        part
    }

    /// Frees a part if it is empty, or compacts it if many of its series are removed.
    fn free_or_compact(&mut self, number: u32) {
        let part = &mut self.parts[number as usize];
        if part.is_empty() {
            self.by_owner.remove(&part.owner);
            *part = Part::default();
            self.free.push(number);
        } else if let Some(compacted) = part.compacted() {
            // Series keep their order but get new numbers.
            let metrics: Vec<MetricId> = part.live().map(|(_, series)| series.metric).collect();
            for metric in metrics {
                self.locations.remove(metric, &self.parts);
            }
            self.parts[number as usize] = compacted;
            let moved = self.parts[number as usize].live().map(|(at, series)| (series.metric, at));
            for (metric, at) in moved.collect::<Vec<_>>() {
                self.locations.insert(metric, Location { part: number, number: at }, &self.parts);
            }
        }
    }
}

/// The location of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location {
    part: u32,
    number: u32,
}

/// The location of each metric's series. To save memory, the ids are stored only with the series.
#[derive(Debug, Default)]
struct Locations {
    table: HashTable<Location>,
    hasher: RandomState,
}

impl Locations {
    fn hash(&self, metric: MetricId) -> u64 {
        self.hasher.hash_one(metric)
    }

    fn find(&self, metric: MetricId, parts: &[Part]) -> Option<Location> {
        self.table.find(self.hash(metric), |location| metric_at(parts, *location) == metric).copied()
    }

    /// The series must be in its part already: rehashing reads its id.
    fn insert(&mut self, metric: MetricId, location: Location, parts: &[Part]) {
        let hash = self.hash(metric);
        let hasher = &self.hasher;
        self.table.insert_unique(hash, location, |location| hasher.hash_one(metric_at(parts, *location)));
    }

    /// The series must still be in its part, which has its id.
    fn remove(&mut self, metric: MetricId, parts: &[Part]) -> Option<Location> {
        let hash = self.hash(metric);
        let found = self.table.find_entry(hash, |location| metric_at(parts, *location) == metric).ok()?;
        Some(found.remove().0)
    }
}

fn metric_at(parts: &[Part], location: Location) -> MetricId {
    parts[location.part as usize].metric(location.number)
}

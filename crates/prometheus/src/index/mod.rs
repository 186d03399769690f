//! An inverted index over the labels of series, in memory.
//!
//! Series are kept apart by who owns them: each owner has a part of his own, with label values, and for each pair of a label and a
//! value the numbers of its series (`part`, `postings`). So a query of one who sees some owners costs what those have, and neither its
//! answer nor its time tells of others. Parts share texts only (`texts`). `select` finds series, `census` counts.
//!
//! A series takes 150 to 200 bytes with the labels that exporters and Ceilometer give (`examples/label_index.rs`).

mod census;
mod part;
mod postings;
mod select;
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
use texts::Texts;

use crate::labels::MetricLabels;

/// Who may see a series is decided by this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Who has created the metric.
    pub creator: Arc<str>,
    /// The project of its resource, and who has created that.
    pub project: Option<Arc<str>>,
    pub resource_creator: Option<Arc<str>>,
}

/// A series as it is put into the index.
#[derive(Clone, Debug)]
pub struct NewSeries<'a> {
    pub metric: MetricId,
    pub archive_policy_name: &'a str,
    pub owner: Owner,
    pub labels: MetricLabels<'a>,
}

/// A series that was found.
#[derive(Clone, Debug)]
pub struct FoundSeries {
    pub metric: MetricId,
    pub archive_policy_name: Arc<str>,
    pub labels: Labels,
}

/// What series must fulfil.
#[derive(Clone, Copy, Debug)]
pub enum Condition<'a> {
    Matcher(&'a Matcher),
    /// Was not written with its labels, and has a metric name that Ceilometer's exporters turn into this one, which it is found by.
    ExportedAs(&'a str),
}

/// More series fulfil the conditions than may be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySeries;

/// Whether an owner's series are seen.
pub type Sees<'a> = &'a dyn Fn(&Owner) -> bool;

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    texts: Texts,
    parts: Vec<Part>,
    by_owner: HashMap<Owner, u32>,
    /// Parts without series, to be used again.
    free: Vec<u32>,
    places: Places,
}

impl Index {
    pub fn len(&self) -> usize {
        self.places.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn contains(&self, metric: MetricId) -> bool {
        self.places.find(metric, &self.parts).is_some()
    }

    /// The metrics of all series.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.parts.iter().flat_map(|part| part.live().map(|(_, series)| series.metric))
    }

    /// Puts series in, each in place of the one of its metric. Each metric comes once.
    pub fn put(&mut self, series: &[NewSeries<'_>]) {
        let is_as_before = |new: &NewSeries<'_>| {
            let place = self.places.find(new.metric, &self.parts)?;
            let part = &self.parts[place.part as usize];
            Some(part.owner == new.owner && part.is_same(place.number, new))
        };
        let changes: Vec<(&NewSeries<'_>, Option<bool>)> =
            series.iter().map(|new| (new, is_as_before(new))).collect();
        let changed: Vec<MetricId> =
            changes.iter().filter(|(_, same)| *same == Some(false)).map(|(new, _)| new.metric).collect();
        self.remove(&changed);
        for (new, same) in changes {
            if same != Some(true) {
                let part = self.part_of(&new.owner);
                let number = self.parts[part as usize].push(new, &mut self.texts);
                self.places.insert(new.metric, Place { part, number }, &self.parts);
            }
        }
    }

    /// Removes the series of metrics; those that have none are passed over.
    pub fn remove(&mut self, metrics: &[MetricId]) {
        let mut removed: HashMap<u32, Vec<u32>> = HashMap::new();
        for metric in metrics {
            if let Some(place) = self.places.remove(*metric, &self.parts) {
                removed.entry(place.part).or_default().push(place.number);
            }
        }
        for (part, numbers) in removed {
            self.parts[part as usize].remove(numbers);
            self.tidy(part);
        }
        self.texts.sweep(metrics.len());
    }

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

    /// Gives back what a part needs no more after a removal.
    fn tidy(&mut self, number: u32) {
        let part = &mut self.parts[number as usize];
        if part.is_empty() {
            self.by_owner.remove(&part.owner);
            *part = Part::default();
            self.free.push(number);
        } else if let Some(compacted) = part.compacted() {
            // Series keep their order and get other numbers.
            self.places.table.retain(|place| place.part != number);
            *part = compacted;
            let moved: Vec<_> = part.live().map(|(at, series)| (series.metric, at)).collect();
            for (metric, at) in moved {
                self.places.insert(metric, Place { part: number, number: at }, &self.parts);
            }
        }
    }
}

/// Where a series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    part: u32,
    number: u32,
}

/// Where the series of each metric is. Ids lie with the series only.
#[derive(Debug, Default)]
struct Places {
    table: HashTable<Place>,
    hasher: RandomState,
}

impl Places {
    fn hash(&self, metric: MetricId) -> u64 {
        self.hasher.hash_one(metric)
    }

    fn find(&self, metric: MetricId, parts: &[Part]) -> Option<Place> {
        self.table.find(self.hash(metric), |place| metric_at(parts, *place) == metric).copied()
    }

    /// The series is there already.
    fn insert(&mut self, metric: MetricId, place: Place, parts: &[Part]) {
        let hash = self.hash(metric);
        let hasher = &self.hasher;
        self.table.insert_unique(hash, place, |place| hasher.hash_one(metric_at(parts, *place)));
    }

    /// The series is there still.
    fn remove(&mut self, metric: MetricId, parts: &[Part]) -> Option<Place> {
        let hash = self.hash(metric);
        let found = self.table.find_entry(hash, |place| metric_at(parts, *place) == metric).ok()?;
        Some(found.remove().0)
    }
}

fn metric_at(parts: &[Part], place: Place) -> MetricId {
    parts[place.part as usize].metric(place.number)
}

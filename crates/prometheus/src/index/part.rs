//! The series of one owner. Series, label names and pairs are referred to by numbers, their indexes in the part's
//! lists.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use gnudi_model::MetricId;
use gnudi_promql::{Labels, METRIC_NAME};
use hashbrown::HashTable;

use super::{
    FoundSeries, NewSeries, Owner,
    postings::Postings,
    texts::{Texts, address},
};

/// A part is compacted when more series are removed than live by this number.
const REMOVED_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) owner: Owner,
    /// In the order of insertion, including removed ones.
    series: Vec<Series>,
    /// The number of series that are not removed.
    live: usize,
    pub(super) names: Vec<Name>,
    /// The numbers of names, by the address of the interned text.
    by_name: HashMap<usize, u32>,
    pub(super) pairs: Vec<Pair>,
    /// The numbers of pairs, hashed by name and value.
    by_value: HashTable<u32>,
    hasher: RandomState,
}

#[derive(Debug)]
pub(super) struct Series {
    pub(super) metric: MetricId,
    archive_policy_name: Arc<str>,
    /// Numbers of pairs, sorted by label name; empty if the series is removed.
    pub(super) pairs: Box<[u32]>,
    pub(super) is_written: bool,
}

/// A label name.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Arc<str>,
    /// Numbers of the pairs with this name, including those without series.
    pub(super) pairs: Vec<u32>,
    /// The bytes of the longest value.
    pub(super) longest: usize,
}

/// A label and one of its values.
#[derive(Debug)]
pub(super) struct Pair {
    /// The name's number.
    pub(super) name: u32,
    pub(super) value: Arc<str>,
    pub(super) postings: Postings,
}

impl Part {
    pub(super) fn new(owner: Owner) -> Self {
        Part { owner, ..Part::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn metric(&self, number: u32) -> MetricId {
        self.series[number as usize].metric
    }

    pub(super) fn series(&self, number: u32) -> &Series {
        &self.series[number as usize]
    }

    /// The series that are not removed, with their numbers.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Series)> {
        (0..).zip(&self.series).filter(|(_, series)| !series.pairs.is_empty())
    }

    /// Whether a series equals `new`, apart from metric and owner.
    pub(super) fn is_same(&self, number: u32, new: &NewSeries<'_>) -> bool {
        let series = self.series(number);
        let labels = &new.labels.pairs;
        *series.archive_policy_name == *new.archive_policy_name
            && series.is_written == new.labels.is_written
            && series.pairs.len() == labels.len()
            && series.pairs.iter().zip(labels).all(|(pair, (name, value))| {
                let (known, pair) = self.pair(*pair);
                **known == **name && *pair.value == **value
            })
    }

    /// A pair with its name.
    pub(super) fn pair(&self, number: u32) -> (&Arc<str>, &Pair) {
        let pair = &self.pairs[number as usize];
        (&self.names[pair.name as usize].text, pair)
    }

    /// Inserts a series, which must have a label; returns its number.
    pub(super) fn push(&mut self, new: &NewSeries<'_>, texts: &mut Texts) -> u32 {
        assert!(!new.labels.pairs.is_empty(), "a series has its metric's name or id");
        let policy = texts.intern(new.archive_policy_name);
        let labels: Vec<_> =
            new.labels.pairs.iter().map(|(name, value)| (texts.intern(name), texts.intern(value))).collect();
        self.push_shared(new.metric, policy, new.labels.is_written, labels)
    }

    /// Like `push`, with interned texts.
    fn push_shared(
        &mut self,
        metric: MetricId,
        archive_policy_name: Arc<str>,
        is_written: bool,
        labels: impl IntoIterator<Item = (Arc<str>, Arc<str>)>,
    ) -> u32 {
        let number = u32::try_from(self.series.len()).expect("series fit into memory");
        let pairs: Box<[u32]> = labels.into_iter().map(|(name, value)| self.pair_of(&name, value)).collect();
        for pair in &pairs {
            self.pairs[*pair as usize].postings.push(number);
        }
        self.series.push(Series { metric, archive_policy_name, pairs, is_written });
        self.live += 1;
        number
    }

    /// The number of a pair of interned texts, which is created if missing.
    fn pair_of(&mut self, name: &Arc<str>, value: Arc<str>) -> u32 {
        let name = self.name_of(name);
        if let Some(pair) = self.find_pair(name, &value) {
            return pair;
        }
        let number = u32::try_from(self.pairs.len()).expect("pairs fit into memory");
        let hash = self.hash(name, &value);
        let of_name = &mut self.names[name as usize];
        of_name.pairs.push(number);
        of_name.longest = of_name.longest.max(value.len());
        self.pairs.push(Pair { name, value, postings: Postings::None });
        let Part { pairs, hasher, by_value, .. } = self;
        by_value.insert_unique(hash, number, |pair| {
            let pair = &pairs[*pair as usize];
            hasher.hash_one((pair.name, address(&pair.value)))
        });
        number
    }

    /// The number of an interned label name, which is created if missing.
    fn name_of(&mut self, text: &Arc<str>) -> u32 {
        *self.by_name.entry(address(text)).or_insert_with(|| {
            self.names.push(Name { text: text.clone(), pairs: Vec::new(), longest: 0 });
            u32::try_from(self.names.len() - 1).expect("names fit into memory")
        })
    }

    fn hash(&self, name: u32, value: &Arc<str>) -> u64 {
        self.hasher.hash_one((name, address(value)))
    }

    /// The number of an interned label name, if the part has it.
    pub(super) fn find_name(&self, text: &Arc<str>) -> Option<u32> {
        self.by_name.get(&address(text)).copied()
    }

    /// The number of a pair with an interned value, if the part has it.
    pub(super) fn find_pair(&self, name: u32, value: &Arc<str>) -> Option<u32> {
        let is_equal = |pair: &u32| {
            let pair = &self.pairs[*pair as usize];
            pair.name == name && Arc::ptr_eq(&pair.value, value)
        };
        self.by_value.find(self.hash(name, value), is_equal).copied()
    }

    /// Removes series, none of which may be removed already.
    pub(super) fn remove(&mut self, mut numbers: Vec<u32>) {
        numbers.sort_unstable();
        self.live -= numbers.len();
        let mut by_pair: HashMap<u32, Vec<u32>> = HashMap::new();
        for number in numbers {
            for pair in std::mem::take(&mut self.series[number as usize].pairs) {
                by_pair.entry(pair).or_default().push(number);
            }
        }
        for (pair, numbers) in by_pair {
            self.pairs[pair as usize].postings.remove(&numbers);
        }
    }

    /// The part without the remains of removed series, or `None` if compacting it would not save much.
    pub(super) fn compacted(&self) -> Option<Self> {
        if self.series.len() - self.live <= self.live + REMOVED_MAX {
            return None;
        }
        let mut compacted = Part::new(self.owner.clone());
        for (_, series) in self.live() {
            let labels = series.pairs.iter().map(|pair| {
                let (name, pair) = self.pair(*pair);
                (name.clone(), pair.value.clone())
            });
            compacted.push_shared(
                series.metric,
                series.archive_policy_name.clone(),
                series.is_written,
                labels,
            );
        }
        compacted.shrink();
        Some(compacted)
    }

    /// Frees spare capacity.
    fn shrink(&mut self) {
        self.series.shrink_to_fit();
        self.pairs.shrink_to_fit();
        self.pairs.iter_mut().for_each(|pair| pair.postings.shrink());
        self.names.iter_mut().for_each(|name| name.pairs.shrink_to_fit());
    }

    /// A selected series, with `exported_name` in place of its metric name if that is set.
    pub(super) fn found(&self, number: u32, exported_name: Option<&Arc<str>>) -> FoundSeries {
        let series = self.series(number);
        let labels = series.pairs.iter().map(|pair| {
            let (name, pair) = self.pair(*pair);
            let value = exported_name.filter(|_| **name == *METRIC_NAME).unwrap_or(&pair.value);
            (name.clone(), value.clone())
        });
        FoundSeries {
            metric: series.metric,
            archive_policy_name: series.archive_policy_name.clone(),
            labels: Labels::from_sorted(labels.collect()),
            is_told_apart: false,
        }
    }
}

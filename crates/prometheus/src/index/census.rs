//! Counts the series, and which labels and values have the most.

use std::{cmp::Reverse, collections::HashMap, mem, sync::Arc};

use gnudi_promql::METRIC_NAME;

use super::{FoundSeries, Index, Sees, texts::address};

/// Counts over the series that a caller may see. Lists are sorted by count, descending, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub series: u64,
    /// The number of different pairs of a label and a value.
    pub label_pairs: u64,
    /// The number of series, by metric name.
    pub series_by_metric_name: Vec<(Arc<str>, u64)>,
    /// The number of different values, by label name.
    pub values_by_label: Vec<(Arc<str>, u64)>,
    /// The total length of the different values in bytes, by label name.
    pub value_bytes_by_label: Vec<(Arc<str>, u64)>,
    /// The number of series, by label name and value.
    pub series_by_label_pair: Vec<(LabelPair, u64)>,
}

/// Name and value of a label.
pub type LabelPair = (Arc<str>, Arc<str>);

impl Index {
    /// Counts the series of the owners for which `sees` is true; each list is truncated to `limit` entries.
    pub fn census(&self, sees: Sees<'_>, limit: usize) -> Census {
        let mut names: HashMap<usize, Arc<str>> = HashMap::new();
        let mut census = Census::default();
        for part in self.seen(sees) {
            census.series += part.len() as u64;
            names.extend(part.names.iter().map(|name| (address(&name.text), name.text.clone())));
        }
        for name in names.values() {
            census.add(name, self.series_by_value(name, sees), limit);
        }
        census.truncate(limit);
        census
    }

    /// The number of series of each value of a label.
    fn series_by_value(&self, name: &Arc<str>, sees: Sees<'_>) -> Vec<(Arc<str>, u64)> {
        let mut counts: HashMap<usize, (Arc<str>, u64)> = HashMap::new();
        for part in self.seen(sees) {
            let Some(name) = part.find_name(name) else { continue };
            for pair in &part.names[name as usize].pairs {
                let pair = &part.pairs[*pair as usize];
                if !pair.postings.is_empty() {
                    let count = counts.entry(address(&pair.value));
                    count.or_insert_with(|| (pair.value.clone(), 0)).1 += pair.postings.len() as u64;
                }
            }
        }
        counts.into_values().collect()
    }
}

impl Census {
    /// Counts these series; each list is truncated to `limit` entries.
    pub fn of<'a>(series: impl IntoIterator<Item = &'a FoundSeries>, limit: usize) -> Self {
        let mut counts: HashMap<&str, HashMap<&str, u64>> = HashMap::new();
        let mut census = Census::default();
        for series in series {
            census.series += 1;
            for (name, value) in series.indexed_labels() {
                *counts.entry(name).or_default().entry(value).or_default() += 1;
            }
        }
        for (name, values) in counts {
            let values = values.into_iter().map(|(value, count)| (Arc::<str>::from(value), count));
            census.add(&Arc::from(name), values.collect(), limit);
        }
        census.truncate(limit);
        census
    }

    /// Adds a label with the number of series of each value.
    fn add(&mut self, name: &Arc<str>, values: Vec<(Arc<str>, u64)>, limit: usize) {
        if values.is_empty() {
            return;
        }
        self.label_pairs += values.len() as u64;
        let bytes = values.iter().map(|(value, _)| value.len() as u64).sum();
        self.values_by_label.push((name.clone(), values.len() as u64));
        self.value_bytes_by_label.push((name.clone(), bytes));
        let values = largest(values, limit);
        if **name == *METRIC_NAME {
            self.series_by_metric_name.clone_from(&values);
        }
        let pairs = values.into_iter().map(|(value, count)| ((name.clone(), value), count));
        self.series_by_label_pair.extend(pairs);
    }

    fn truncate(&mut self, limit: usize) {
        self.values_by_label = largest(mem::take(&mut self.values_by_label), limit);
        self.value_bytes_by_label = largest(mem::take(&mut self.value_bytes_by_label), limit);
        self.series_by_label_pair = largest(mem::take(&mut self.series_by_label_pair), limit);
    }
}

/// The `limit` entries with the highest counts, sorted by count, descending, then by name.
fn largest<T: Ord>(mut counts: Vec<(T, u64)>, limit: usize) -> Vec<(T, u64)> {
    counts.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    counts.truncate(limit);
    counts
}

//! How many series there are, and of what.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use gnudi_promql::METRIC_NAME;

use super::{Index, Sees, texts::address};

/// What of an index is seen. Lists have the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub series: u64,
    /// Labels with a value, each pair once.
    pub label_pairs: u64,
    pub series_by_metric_name: Vec<(Arc<str>, u64)>,
    /// The numbers of different values.
    pub values_by_label: Vec<(Arc<str>, u64)>,
    /// Bytes of the different values.
    pub value_bytes_by_label: Vec<(Arc<str>, u64)>,
    pub series_by_label_pair: Vec<(LabelPair, u64)>,
}

/// Name and value of a label.
pub type LabelPair = (Arc<str>, Arc<str>);

impl Index {
    /// Counts what is seen, with the first `limit` of each list.
    pub fn census(&self, sees: Sees<'_>, limit: usize) -> Census {
        let mut names: HashMap<usize, Arc<str>> = HashMap::new();
        let mut census = Census::default();
        for part in self.seen(sees) {
            census.series += part.len() as u64;
            names.extend(part.names.iter().map(|name| (address(&name.text), name.text.clone())));
        }
        for name in names.values() {
            let values = self.series_by_value(name, sees);
            if values.is_empty() {
                continue;
            }
            census.label_pairs += values.len() as u64;
            let bytes = values.iter().map(|(value, _)| value.len() as u64).sum();
            census.values_by_label.push((name.clone(), values.len() as u64));
            census.value_bytes_by_label.push((name.clone(), bytes));
            let values = first(values, limit);
            if **name == *METRIC_NAME {
                census.series_by_metric_name.clone_from(&values);
            }
            let pairs = values.into_iter().map(|(value, count)| ((name.clone(), value), count));
            census.series_by_label_pair.extend(pairs);
        }
        census.values_by_label = first(census.values_by_label, limit);
        census.value_bytes_by_label = first(census.value_bytes_by_label, limit);
        census.series_by_label_pair = first(census.series_by_label_pair, limit);
        census
    }

    /// How many series have each value of a label.
    fn series_by_value(&self, name: &Arc<str>, sees: Sees<'_>) -> Vec<(Arc<str>, u64)> {
        let mut counts: HashMap<usize, (Arc<str>, u64)> = HashMap::new();
        for part in self.seen(sees) {
            let Some(name) = part.name(name) else { continue };
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

/// Those with the highest counts, and of equal ones the first by name.
fn first<T: Ord>(mut counts: Vec<(T, u64)>, limit: usize) -> Vec<(T, u64)> {
    counts.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    counts.truncate(limit);
    counts
}

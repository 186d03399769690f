//! Merges runs of similar size, so that reads touch few and superseded values are dropped.
//!
//! A merge does not change what readers see, so it needs no fence, and any process that has written to a
//! shard may do it: if two merge the same runs, the chain of manifests accepts the first. In memory are the
//! new segment and its inputs; a larger run is written segment by segment.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use futures_util::future::try_join_all;
use gnudi_model::MetricId;

use super::{
    chain::{Change, Effect, Shard},
    manifest::{Garbage, Manifest, Run, SegmentEntry},
    read::Stop,
    requests::Requests,
    segment::{Entries, Index, Row, stored_bytes},
    write::{KEPT_BYTES_MAX, check_floor},
};
use crate::aggregates::{Result, entry::Kind, key::Key};

/// A run joins a merge if it is at most this many times as large as all newer runs in it together.
const SIZE_RATIO: u64 = 2;

/// How many of the newest runs to merge, given their sizes, oldest first; 0 for none.
fn choose(sizes: &[u64], merged_min: usize, runs_max: usize) -> usize {
    let mut newest_first = sizes.iter().rev();
    let Some(mut sum) = newest_first.next().copied() else { return 0 };
    let mut count = 1;
    for size in newest_first {
        if *size > sum * SIZE_RATIO {
            break;
        }
        sum += size;
        count += 1;
    }
    if count >= merged_min {
        return count;
    }
    if sizes.len() >= runs_max { merged_min } else { 0 }
}

/// Adjacent runs, oldest first.
struct Merge {
    runs: Vec<Run>,
    /// Whether there is no older run.
    is_oldest: bool,
}

/// The change that replaces the merged runs.
struct Merged<'a> {
    old: &'a [Run],
    new: Option<Run>,
    now_ms: u64,
}

impl Change for Merged<'_> {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        // If the old runs are gone, this process or another has merged them.
        let Some(at) = draft.runs.windows(self.old.len()).position(|runs| runs == self.old) else {
            return Ok(Effect::IsThere);
        };
        if let Some(new) = &self.new {
            check_floor(&new.parts, draft)?;
        }
        let old = draft.runs.splice(at..at + self.old.len(), self.new.clone());
        let garbage = |part: SegmentEntry| Garbage { name: part.name, since_ms: self.now_ms };
        let garbage: Vec<Garbage> = old.flat_map(|run| run.parts).map(garbage).collect();
        draft.garbage.extend(garbage);
        Ok(Effect::Changed)
    }
}

impl Requests {
    /// Performs the next merge, if one is due; returns whether it was.
    pub async fn merge(&self, shard: &Shard) -> Result<bool> {
        let _lock = shard.merging.lock().await;
        let Some(manifest) = shard.known() else { return Ok(false) };
        let Some(merge) = self.to_merge(shard, &manifest) else { return Ok(false) };
        let mut merged = self.merged(shard, &merge, false).await;
        if matches!(merged, Err(Stop::Gone)) {
            shard.invalidate();
            if self.newest(shard).await?.id != manifest.id {
                // Another process has merged them, and the old segments were removed.
                return Ok(false);
            }
            // A segment is lost: merge the others without it.
            merged = self.merged(shard, &merge, true).await;
        }
        let new = match merged {
            Ok(new) => new,
            Err(Stop::Gone) => return Ok(false),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let Some(new) = new else { return Ok(true) };
        let bytes = new.bytes();
        let names: Vec<String> = new.parts.iter().map(|part| part.name.clone()).collect();
        let new = (!new.parts.is_empty()).then_some(new);
        let change = Merged { old: &merge.runs, new, now_ms: self.now().wall_ms };
        let manifest = self.commit(shard, &change).await?;
        if !names.iter().all(|name| manifest.knows(name)) {
            // Another process was first. These segments were never named.
            for name in &names {
                self.cache.remove(name);
            }
            self.remove(&names).await?;
            return Ok(true);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.counters.merged_bytes.fetch_add(bytes, Ordering::Relaxed);
        for part in merge.runs.iter().flat_map(|run| &run.parts) {
            self.cache.remove(&part.name);
        }
        Ok(true)
    }

    fn to_merge(&self, shard: &Shard, manifest: &Manifest) -> Option<Merge> {
        // A run with lost entries stays as it is, and separates older runs from newer ones.
        let damaged = shard.damaged.lock();
        let has_lost = |run: &Run| run.parts.iter().any(|part| damaged.contains(&part.name));
        let start = manifest.runs.iter().rposition(has_lost).map_or(0, |at| at + 1);
        let runs = &manifest.runs[start..];
        let sizes: Vec<u64> = runs.iter().map(Run::bytes).collect();
        let count = choose(&sizes, self.options.merged_runs_min, self.options.runs_max).min(runs.len());
        let is_oldest = count == manifest.runs.len();
        (count > 1).then(|| Merge { runs: runs[runs.len() - count..].to_vec(), is_oldest })
    }

    /// Writes the segments of the merged run; `None` if a merge would lose something. `last`: a missing
    /// segment counts as lost.
    async fn merged(&self, shard: &Shard, merge: &Merge, last: bool) -> Result<Option<Run>, Stop> {
        let parts = || merge.runs.iter().flat_map(|run| &run.parts);
        let load = parts().map(|part| async move {
            let index = self.index(part, last).await?;
            Ok::<_, Stop>((part.name.as_str(), index))
        });
        let indexes: Indexes = try_join_all(load).await?.into_iter().collect();
        let damaged = parts().filter(|part| !indexes[part.name.as_str()].is_whole());
        let damaged: Vec<String> = damaged.map(|part| part.name.clone()).collect();
        if !damaged.is_empty() {
            shard.damaged.lock().extend(damaged);
            return Ok(None);
        }
        let mut run = Run { parts: Vec::new() };
        for slice in self.slices(&indexes) {
            let entries = self.slice(merge, &indexes, slice, last).await?;
            if !entries.is_empty() {
                run.parts.push(self.put_segment(shard, &entries, KEPT_BYTES_MAX).await?);
            }
        }
        Ok(Some(run))
    }

    /// Divides the keys into segments of limited size: whole metrics, unless one alone is too large.
    fn slices(&self, indexes: &Indexes) -> Vec<Slice> {
        let bytes_max = self.options.segment_bytes_max;
        let mut bytes_of: BTreeMap<MetricId, u64> = BTreeMap::new();
        for row in indexes.values().flat_map(|index| index.rows()) {
            *bytes_of.entry(row.key.metric()).or_default() += stored_bytes(row.length as usize) as u64;
        }
        let (mut slices, mut bytes): (Vec<Slice>, u64) = (Vec::new(), u64::MAX);
        for (metric, more) in bytes_of {
            match slices.last_mut() {
                _ if more > bytes_max => {
                    slices.extend(slices_of(metric, indexes, bytes_max));
                    // Do not add other metrics to a part of one.
                    bytes = bytes_max;
                    continue;
                }
                Some(slice) if bytes + more <= bytes_max => slice.high = Key::last_of(metric),
                _ => {
                    let (low, high) = (Key::deletion(metric), Key::last_of(metric));
                    slices.push(Slice { low, high, within: None });
                    bytes = 0;
                }
            }
            bytes += more;
        }
        slices
    }

    /// The merged entries of a slice.
    async fn slice(
        &self,
        merge: &Merge,
        indexes: &Indexes<'_>,
        slice: Slice,
        last: bool,
    ) -> Result<Entries, Stop> {
        let (lowest, highest) = (slice.low.metric(), slice.high.metric());
        let mut reads = Vec::new();
        for run in &merge.runs {
            let parts = run.parts.iter().filter(|part| part.first <= highest && lowest <= part.last);
            let parts: Vec<(&SegmentEntry, &Index)> =
                parts.map(|part| (part, &*indexes[part.name.as_str()])).collect();
            // The mark itself may be in another slice.
            let deleted = slice.within.is_some_and(|metric| {
                parts.iter().any(|(_, index)| index.find(&Key::deletion(metric)).is_some())
            });
            reads.push(async move {
                let read = parts.iter().map(|(part, index)| {
                    let rows: Vec<Row> = index.between(slice.low, slice.high).collect();
                    self.entries(part, rows, last)
                });
                Ok::<_, Stop>((deleted, try_join_all(read).await?))
            });
        }
        let mut merged = Entries::new();
        for (deleted, parts) in try_join_all(reads).await? {
            if deleted {
                merged.clear();
            }
            for (key, kind, value) in parts.into_iter().flatten() {
                if key.is_deletion() {
                    hide(&mut merged, key.metric());
                }
                merged.insert(key, (kind, value));
            }
        }
        if merge.is_oldest {
            // There is nothing older to hide. Damaged entries stay: they differ from absent ones.
            merged.retain(|key, (kind, _)| !key.is_deletion() && *kind != Kind::Tombstone);
        }
        Ok(merged)
    }
}

/// The indexes of the merge's inputs, by segment.
type Indexes<'a> = BTreeMap<&'a str, Arc<Index>>;

/// The key range of one new segment.
#[derive(Clone, Copy)]
struct Slice {
    low: Key,
    high: Key,
    /// The metric that this is a part of.
    within: Option<MetricId>,
}

/// Divides a metric.
fn slices_of(metric: MetricId, indexes: &Indexes, bytes_max: u64) -> Vec<Slice> {
    let (low, high) = (Key::deletion(metric), Key::last_of(metric));
    let rows = indexes.values().flat_map(|index| index.between(low, high));
    let sizes: BTreeMap<Key, u64> =
        rows.map(|row| (row.key, stored_bytes(row.length as usize) as u64)).collect();
    let (mut slices, mut bytes) = (vec![Slice { low, high, within: Some(metric) }], 0);
    for (key, more) in sizes {
        if bytes + more > bytes_max && bytes > 0 {
            slices.push(Slice { low: key, high, within: Some(metric) });
            bytes = 0;
        }
        bytes += more;
        slices.last_mut().expect("there is one").high = key;
    }
    slices
}

/// Removes all of a metric's entries.
fn hide(merged: &mut Entries, metric: MetricId) {
    let hidden = merged.range(Key::deletion(metric)..=Key::last_of(metric));
    let hidden: Vec<Key> = hidden.map(|(key, _)| *key).collect();
    for key in hidden {
        merged.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_similar_size_are_merged() {
        let choose = |sizes: &[u64]| choose(sizes, 4, 12);
        assert_eq!(choose(&[]), 0);
        assert_eq!(choose(&[5, 5, 5]), 0);
        assert_eq!(choose(&[5, 5, 5, 5]), 4);
        assert_eq!(choose(&[100, 5, 5, 5]), 0, "the large one stays out of it");
        assert_eq!(choose(&[20, 20, 20, 5, 5, 5, 5]), 7, "one merge instead of two");
        let falling: Vec<u64> = (0..12).rev().map(|exponent| 4_u64.pow(exponent)).collect();
        assert_eq!(choose(&falling), 4, "there are never more than so many");
    }
}

//! Merges runs of similar size, so that their number stays small and superseded values are dropped.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnudi_model::MetricId;

use super::{
    Shared,
    room::{Guarded, MayUse},
    run::{Cursor, Found, Order, Place, Range, Run, RunWriter},
};
use crate::aggregates::{
    entry::{Header, Kind},
    key::Key,
};

/// The minimum number of runs in a merge.
const RUNS_MERGED_MIN: usize = 4;
/// A run joins a merge if it is at most this many times as large as all newer runs in it together.
const SIZE_RATIO: u64 = 2;
/// At this many runs the newest are merged, whatever their sizes.
const RUNS_MAX: usize = 12;
/// Delay before a failed merge is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How often the free space is checked again.
const SPACE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The merging thread.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait_at_most(SPACE_POLL_INTERVAL, |wanted| std::mem::take(&mut wanted.merge)) {
        while let Some(runs) = shared.next_merge() {
            if let Err(error) = shared.merge(&runs, MayUse::Free) {
                tracing::warn!("runs could not be merged, trying again: {error}");
                shared.work.pause(RETRY_PAUSE);
            }
            if shared.work.stopped() {
                return;
            }
        }
        shared.make_room();
    }
}

/// The index of the oldest run that may be merged. A run with lost entries stays as it is, and separates
/// older runs from newer ones.
pub(super) fn mergeable_from(runs: &[Arc<Run>]) -> usize {
    runs.iter().rposition(|run| run.has_gaps.load(Ordering::Relaxed)).map_or(0, |at| at + 1)
}

/// How many of the newest runs to merge, given their sizes, oldest first; 0 for none.
fn choose(sizes: &[u64]) -> usize {
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
    match count {
        RUNS_MERGED_MIN.. => count,
        _ if sizes.len() >= RUNS_MAX => RUNS_MERGED_MIN,
        _ => 0,
    }
}

impl Shared {
    /// The next runs to merge, oldest first, and whether there are older ones.
    pub(super) fn to_merge(&self) -> Option<ToMerge> {
        let runs = &self.state.read().runs;
        let sizes: Vec<u64> = runs[mergeable_from(runs)..].iter().map(|run| run.bytes).collect();
        let count = choose(&sizes);
        let first = runs.len() - count;
        (count > 0).then(|| ToMerge { runs: runs[first..].to_vec(), is_oldest: first == 0 })
    }

    pub(super) fn merge(&self, merged: &ToMerge, may_use: MayUse) -> io::Result<()> {
        let (oldest, newest) = (&merged.runs[0], &merged.runs[merged.runs.len() - 1]);
        let range = Range { low: oldest.range.low, high: newest.range.high };
        let mut writer = RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, range)?;
        let copied = self.copy(merged, &mut Guarded { writer: &mut writer, reserve: &self.reserve, may_use });
        let gaps = merged.runs.iter().any(|run| run.has_gaps.load(Ordering::Relaxed));
        if copied.is_err() || gaps || self.work.stopped() {
            writer.abandon();
            return copied;
        }
        // Write it even if nothing is left: it supersedes the merged runs if a crash interrupts their
        // removal.
        let bytes = writer.finish()?;
        self.counters.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        let run =
            Run::open(&*self.disk, &self.runs_dir, range, &self.quarantine).map_err(io::Error::other)?;
        {
            let runs = &mut self.state.write().runs;
            // Flushes may have added newer runs meanwhile.
            let at =
                runs.iter().position(|run| Arc::ptr_eq(run, oldest)).expect("only this thread removes runs");
            runs.splice(at..at + merged.runs.len(), [Arc::new(run)]);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        for run in &merged.runs {
            if let Err(error) = self.disk.remove(&run.path) {
                tracing::warn!(
                    "{} is merged, but could not be removed before the next start: {error}",
                    run.path.display()
                );
            }
        }
        Ok(())
    }

    /// Writes the newest entry of each key.
    pub(super) fn copy(&self, merged: &ToMerge, writer: &mut impl Sink) -> io::Result<()> {
        let mut sources = merged.runs.iter().map(|run| Source::new(run)).collect::<io::Result<Vec<_>>>()?;
        for source in &mut sources {
            source.advance()?;
        }
        // The metric of the last deletion seen, and its source: entries of older sources are void.
        let mut deleted: Option<(MetricId, usize)> = None;
        while let Some((_, key)) = sources.iter().filter_map(Source::next_key).min_by_key(|(place, _)| *place)
        {
            if self.work.stopped() {
                return Ok(());
            }
            let mut newest = None;
            for (age, source) in sources.iter_mut().enumerate().rev() {
                if source.next_key().is_some_and(|(_, next)| next == key) {
                    let found = source.take();
                    newest = newest.or_else(|| found.map(|found| (age, found)));
                    source.advance()?;
                }
            }
            let (age, found) = newest.expect("some source has the smallest key");
            if key.is_deletion() {
                deleted = Some((key.metric(), age));
            }
            let hidden = deleted.is_some_and(|(metric, by)| metric == key.metric() && age < by);
            match found {
                _ if hidden => {}
                Found::Value(bytes) => writer.push(key, Kind::Value, &bytes)?,
                Found::Tombstone if merged.is_oldest => {}
                Found::Tombstone => writer.push(key, Kind::Tombstone, b"")?,
                Found::Damaged(_) => writer.push(key, Kind::Damaged, b"")?,
            }
        }
        Ok(())
    }
}

pub(super) struct ToMerge {
    /// Oldest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// Whether there is no older run.
    pub(super) is_oldest: bool,
}

/// Receives a merge's entries in order.
pub(super) trait Sink {
    fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()>;
}

/// A run being merged, with its next entry.
struct Source<'a> {
    run: &'a Run,
    entries: Entries<'a>,
    next: Option<(Place, Key, Found)>,
}

enum Entries<'a> {
    InOrder(Cursor<'a>),
    /// For a run in an older order: all headers with their file offsets, sorted.
    Sorted(std::vec::IntoIter<(u64, Header)>),
}

impl<'a> Source<'a> {
    fn new(run: &'a Run) -> io::Result<Self> {
        let mut cursor = Cursor::new(run);
        if run.order == Order::NEW {
            return Ok(Self { run, entries: Entries::InOrder(cursor), next: None });
        }
        let mut headers = Vec::new();
        while let Some(header) = cursor.next_header()? {
            headers.push(header);
        }
        headers.sort_unstable_by_key(|(_, header)| Order::NEW.place(&header.key));
        Ok(Self { run, entries: Entries::Sorted(headers.into_iter()), next: None })
    }

    fn next_key(&self) -> Option<(Place, Key)> {
        self.next.as_ref().map(|(place, key, _)| (*place, *key))
    }

    fn take(&mut self) -> Option<Found> {
        self.next.take().map(|(_, _, found)| found)
    }

    fn advance(&mut self) -> io::Result<()> {
        let next = match &mut self.entries {
            Entries::InOrder(cursor) => cursor.next().map(|seen| seen.map(|seen| (seen.key(), seen.open()))),
            Entries::Sorted(headers) => headers
                .next()
                .map(|(at, header)| Ok((header.key, self.run.read_entry(at, &header)?)))
                .transpose(),
        };
        match next {
            Ok(next) => {
                self.next = next.map(|(key, found)| (Order::NEW.place(&key), key, found));
                Ok(())
            }
            Err(error) => {
                // It cannot be merged, but other parts may be readable.
                self.run.has_gaps.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Instant};

    use bytes::Bytes;
    use uuid::Uuid;

    use super::{
        super::{LocalAggregates, LocalAggregatesOptions},
        *,
    };
    use crate::{
        aggregates::{AggregateStore as _, Fence, MetricWrite},
        disk::{Disk, LocalDisk},
    };

    #[test]
    fn runs_of_similar_size_are_merged() {
        assert_eq!(choose(&[]), 0);
        assert_eq!(choose(&[5, 5, 5]), 0);
        assert_eq!(choose(&[5, 5, 5, 5]), 4);
        assert_eq!(choose(&[100, 5, 5, 5]), 0, "the large one stays out of it");
        assert_eq!(choose(&[100, 5, 5, 5, 5]), 4);
        assert_eq!(choose(&[20, 20, 20, 5, 5, 5, 5]), 7, "one merge instead of two");
        assert_eq!(choose(&[1 << 40, 1 << 36, 1 << 30, 1 << 20, 1]), 0);
        let falling: Vec<u64> = (0..12).rev().map(|exponent| 4u64.pow(exponent)).collect();
        assert_eq!(choose(&falling), RUNS_MERGED_MIN, "there are never more than so many");
    }

    fn head(metric: u128, version: u128) -> (MetricId, Bytes) {
        (
            MetricId(Uuid::from_u128(metric << 64 | metric)),
            Bytes::from(format!("head {metric} of version {version}")),
        )
    }

    async fn check(store: &LocalAggregates, versions: &BTreeMap<u128, u128>) {
        let metrics: Vec<MetricId> = versions.keys().map(|metric| head(*metric, 0).0).collect();
        let heads = store.read_heads(&metrics).await;
        for ((metric, version), found) in versions.iter().zip(heads) {
            assert_eq!(found.unwrap().as_ref(), Some(&head(*metric, *version).1), "metric {metric}");
        }
    }

    /// A run that an earlier version wrote can be read, and merged with newer ones.
    #[tokio::test]
    async fn runs_in_an_older_order_are_read_and_merged() {
        for order in [Order::Metrics, Order::ReversedMetrics] {
            read_and_merged(order).await;
        }
    }

    async fn read_and_merged(order: Order) {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let runs_dir = folder.path().join("runs");
        disk.create_dir(&runs_dir).unwrap();
        let range = Range { low: 1, high: 1 };
        let mut writer = RunWriter::create_in(order, Arc::clone(&disk), &runs_dir, range).unwrap();
        let mut versions = BTreeMap::new();
        let mut metrics: Vec<u128> = (1..500).collect();
        metrics.sort_by_key(|metric| order.place(&Key::head(head(*metric, 0).0)));
        for metric in metrics {
            let (id, bytes) = head(metric, 0);
            writer.push(Key::head(id), Kind::Value, &bytes).unwrap();
            versions.insert(metric, 0);
        }
        writer.finish().unwrap();
        let options = LocalAggregatesOptions { recent_entries_max: 100, ..LocalAggregatesOptions::default() };
        let store = LocalAggregates::open(folder.path(), &options).unwrap();
        check(&store, &versions).await;
        for round in 1..40_u128 {
            let writes: Vec<MetricWrite> = (1..100)
                .map(|number| {
                    let metric = (number * 7 + round * 13) % 600 + 1;
                    versions.insert(metric, round);
                    let (metric, head) = head(metric, round);
                    MetricWrite { metric, head, blocks: Vec::new(), expired: Vec::new() }
                })
                .collect();
            store.write(Fence::EVERYTHING, writes).await.into_iter().for_each(|done| done.unwrap());
            check(&store, &versions).await;
        }
        let start = Instant::now();
        while store.figures().merges == 0 {
            assert!(start.elapsed() < Duration::from_mins(1), "nothing is merged");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        check(&store, &versions).await;
        store.sync().await.unwrap();
        drop(store);
        let store = LocalAggregates::open(folder.path(), &options).unwrap();
        check(&store, &versions).await;
    }
}

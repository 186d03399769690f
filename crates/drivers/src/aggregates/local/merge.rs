//! Merges runs of similar size into one, so that their number stays small and what is superseded goes.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnudi_model::MetricId;

use super::{
    Shared,
    run::{Cursor, Found, Range, Run, RunWriter},
};
use crate::aggregates::{entry::Kind, key::Key};

/// How many runs are merged at least.
const RUNS_MERGED_MIN: usize = 4;
/// A run joins a merge if it is at most this many times as large as the newer ones that are in it.
const SIZE_RATIO: u64 = 2;
/// At this many runs the newest are merged, whatever their sizes.
const RUNS_MAX: usize = 12;
/// After a merge that failed: how long until the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The merging thread.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait(|wanted| std::mem::take(&mut wanted.merge)) {
        while let Some(runs) = shared.to_merge() {
            if let Err(error) = shared.merge(&runs) {
                tracing::warn!("runs could not be merged, trying again: {error}");
                shared.work.pause(RETRY_PAUSE);
            }
            if shared.work.stopped() {
                return;
            }
        }
    }
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
    fn to_merge(&self) -> Option<ToMerge> {
        let runs = &self.state.read().runs;
        // A run that has lost entries stays as it is: it stands between the older and the newer.
        let start = runs.iter().rposition(|run| run.has_gaps.load(Ordering::Relaxed)).map_or(0, |at| at + 1);
        let sizes: Vec<u64> = runs[start..].iter().map(|run| run.bytes).collect();
        let count = choose(&sizes);
        let first = runs.len() - count;
        (count > 0).then(|| ToMerge { runs: runs[first..].to_vec(), is_oldest: first == 0 })
    }

    fn merge(&self, merged: &ToMerge) -> io::Result<()> {
        let (oldest, newest) = (&merged.runs[0], &merged.runs[merged.runs.len() - 1]);
        let range = Range { low: oldest.range.low, high: newest.range.high };
        let mut writer = RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, range)?;
        let copied = self.copy(merged, &mut writer);
        let gaps = merged.runs.iter().any(|run| run.has_gaps.load(Ordering::Relaxed));
        if copied.is_err() || gaps || self.work.stopped() {
            writer.abandon();
            return copied;
        }
        // Also where nothing is left: the new run says that the merged ones are void, should removing them be cut short.
        let bytes = writer.finish()?;
        self.counters.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        let run =
            Run::open(&*self.disk, &self.runs_dir, range, &self.quarantine).map_err(io::Error::other)?;
        {
            let runs = &mut self.state.write().runs;
            // Flushes may have added newer ones meanwhile.
            let at =
                runs.iter().position(|run| Arc::ptr_eq(run, oldest)).expect("only this thread removes runs");
            runs.splice(at..at + merged.runs.len(), [Arc::new(run)]);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        for run in &merged.runs {
            if let Err(error) = self.disk.remove(&run.path) {
                tracing::warn!(
                    "{} is merged, but left over until the next start: {error}",
                    run.path.display()
                );
            }
        }
        Ok(())
    }

    /// Writes the newest of each key.
    fn copy(&self, merged: &ToMerge, writer: &mut RunWriter) -> io::Result<()> {
        let mut sources: Vec<Source<'_>> = merged.runs.iter().map(|run| Source::new(run)).collect();
        for source in &mut sources {
            source.advance()?;
        }
        // The metric whose deletion was met last, and in which source: older sources have nothing to say of it.
        let mut deleted: Option<(MetricId, usize)> = None;
        while let Some(key) = sources.iter().filter_map(Source::key).min() {
            if self.work.stopped() {
                return Ok(());
            }
            let mut newest = None;
            for (age, source) in sources.iter_mut().enumerate().rev() {
                if source.key() == Some(key) {
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

struct ToMerge {
    runs: Vec<Arc<Run>>,
    is_oldest: bool,
}

/// A run that is being merged, with its next entry.
struct Source<'a> {
    run: &'a Run,
    cursor: Cursor<'a>,
    next: Option<(Key, Found)>,
}

impl<'a> Source<'a> {
    fn new(run: &'a Run) -> Self {
        Self { run, cursor: Cursor::new(run), next: None }
    }

    fn key(&self) -> Option<Key> {
        self.next.as_ref().map(|(key, _)| *key)
    }

    fn take(&mut self) -> Option<Found> {
        self.next.take().map(|(_, found)| found)
    }

    fn advance(&mut self) -> io::Result<()> {
        match self.cursor.next() {
            Ok(seen) => {
                self.next = seen.map(|seen| (seen.key(), seen.open()));
                Ok(())
            }
            Err(error) => {
                // It cannot be merged, but may well be read elsewhere.
                self.run.has_gaps.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

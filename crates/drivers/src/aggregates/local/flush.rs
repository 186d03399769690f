//! Flush: writes the recent layer, in memory, to a run. Then its part of the log is no longer needed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    Shared, State,
    free_space::{Guarded, MayUse},
    opening::last_segment,
    read::{Value, read_items},
    recent::{Layer, Recent},
    run::{Range, Run, RunName, RunWriter},
};
use crate::{
    aggregates::{
        StoreError,
        key::Key,
        table::{entry::Kind, levels::mergeable_from},
    },
    disk::{is_no_space, remove_all},
    segments::Claim,
};

/// How many values, and how many bytes of them, are read from the log at once (about).
const STRETCH_ENTRIES: usize = 4096;
const STRETCH_BYTES: usize = 1 << 20;
/// From this many new runs on, flushes wait for merges: a read looks into each of them.
const NEW_RUNS_MAX: usize = 16;
/// How often a flush that waits for merges looks at them.
const MERGES_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Delay before a failed flush is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The flushing thread.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait(|wanted| std::mem::take(&mut wanted.flush)) {
        shared.wait_for_merges();
        while let Err(error) = shared.flush() {
            if shared.work.stopped() {
                return;
            }
            let is_poisoned = shared.poisoned.get().is_some();
            let next = if is_poisoned { "which ends with a restart" } else { "trying again" };
            tracing::warn!("aggregates could not be flushed, {next}: {error}");
            shared.flush_ended(Some(error));
            if is_poisoned {
                // Nothing is written any more.
                shared.work.wait(|_| false);
                return;
            }
            shared.work.pause(RETRY_PAUSE);
        }
        shared.flush_ended(None);
        shared.work.want(|wanted| wanted.merge = true);
    }
}

impl Shared {
    /// Whether flushes write new runs faster than merges remove them. False while merges wait for space: then flushes must
    /// go on, since they free some.
    pub(super) fn merges_lag(&self, state: &State) -> bool {
        let new = &state.runs.new;
        let due = new.len() - mergeable_from(new, |run| run.table.has_gaps());
        due >= NEW_RUNS_MAX && !self.waiting.is_any()
    }

    /// Writers go on meanwhile, until the recent layer is full.
    fn wait_for_merges(&self) {
        let lag = || self.merges_lag(&self.state.read());
        if !lag() {
            return;
        }
        self.counters.flushes_waited.fetch_add(1, Ordering::Relaxed);
        let deadline = Instant::now() + self.options.merges_wait_max;
        while lag() && Instant::now() < deadline && !self.work.stopped() {
            self.work.pause(MERGES_POLL_INTERVAL);
        }
    }

    fn flush_ended(&self, failure: Option<StoreError>) {
        *self.stuck.lock() = failure;
        self.flushed.notify_waiters();
        self.settled.notify_all();
    }

    /// Waits until the heads that are being flushed, if any, are in a durable run; fails if their flush does.
    pub(super) fn wait_for_flush(&self) -> Result<(), StoreError> {
        /// How often to look whether the thread still runs.
        const LOOK: Duration = Duration::from_secs(1);
        let frozen = self.state.read().frozen.clone();
        let Some(frozen) = frozen.filter(|layer| layer.dirty().len() > 0) else { return Ok(()) };
        let mut stuck = self.stuck.lock();
        while self.state.read().frozen.as_ref().is_some_and(|now| Arc::ptr_eq(now, &frozen)) {
            if let Some(error) = &*stuck {
                return Err(error.clone());
            }
            if self.work.stopped() {
                return Err(StoreError::Io("the aggregate store is closing".into()));
            }
            self.settled.wait_for(&mut stuck, LOOK);
        }
        Ok(())
    }

    pub(super) fn flush(&self) -> Result<(), StoreError> {
        // Writers that arrived while the last flush began may have requested another one.
        let is_new = self.recent_bytes.load(Ordering::Relaxed) > 0 || self.state.read().active.len() > 0;
        if !is_new && self.state.read().frozen.is_none() {
            return Ok(());
        }
        let (frozen, segments) = self.freeze()?;
        let run = self.write_run(&frozen)?;
        {
            let mut state = self.state.write();
            state.runs.new.push(run);
            state.frozen = None;
        }
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        let released = {
            let mut log = self.log.lock();
            if let Some(last) = segments.last() {
                log.roster.release(last + 1);
            }
            log.log.release(&segments)
        };
        if let Err(error) = released.and_then(|paths| remove_all(&*self.disk, &paths)) {
            tracing::warn!("flushed files of the log stay until the next start: {error}");
        }
        Ok(())
    }

    /// Freezes the recent layer and begins a new one, with a new segment of the log. Returns the layer and
    /// the segments that hold its values. After a failed flush returns the layer that is still frozen.
    fn freeze(&self) -> Result<(Arc<Layer>, Vec<u32>), StoreError> {
        if self.state.read().frozen.is_none() {
            let mut log = self.log.lock();
            self.check_writable()?;
            // A flush frees its part of the log in the end.
            log.log.roll(Claim::Relief).map_err(|error| self.fail(error))?;
            self.recent_bytes.store(0, Ordering::Relaxed);
            // Still holding the log's lock: no write comes in between.
            let mut state = self.state.write();
            state.frozen_before = log.log.active();
            state.frozen = Some(Arc::new(std::mem::take(&mut state.active)));
        }
        let state = self.state.read();
        let frozen = state.frozen.clone().expect("only this thread takes it away");
        let segments = self.segments.read().range(..state.frozen_before).map(|(number, _)| *number).collect();
        Ok((frozen, segments))
    }

    /// Writes a run even for an empty layer: it records that its segments are flushed.
    fn write_run(&self, layer: &Layer) -> Result<Arc<Run>, StoreError> {
        let (name, first) = {
            let state = self.state.read();
            let low = last_segment(&state.runs) + 1;
            let range = Range { low, high: state.frozen_before - 1 };
            (RunName::new(range), state.runs.all().next().is_none())
        };
        let mut entries = layer.sorted();
        let bytes_max = |entries: &[(Key, Recent)]| entries.iter().map(entry_bytes_max).sum();
        if !self.reserve.has_room_beside(bytes_max(&entries)) {
            let gone = self.deleted_since()?;
            // Keep the layer's own deletions: they hide entries of older runs.
            entries.retain(|(key, _)| key.is_deletion() || !gone.contains(&key.metric()));
        }
        let loan = self.room_for(bytes_max(&entries))?;
        let may_use = if loan.is_some() { MayUse::Reserve } else { MayUse::Free };
        let mut writer = RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, name)
            .map_err(|error| failed(&error))?;
        let mut guarded = Guarded { writer: &mut writer, reserve: &self.reserve, may_use };
        if let Err(error) = self.copy_entries(layer, &entries, first, &mut guarded) {
            writer.abandon();
            return Err(error);
        }
        let bytes = writer.finish().map_err(|error| failed(&error))?;
        self.counters.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        let run = Run::open(&*self.disk, &self.runs_dir, name, &self.quarantine);
        Ok(Arc::new(run.map_err(|error| StoreError::Io(error.to_string()))?))
    }

    /// `first`: there is no older run, so tombstones can be dropped.
    fn copy_entries(
        &self,
        layer: &Layer,
        entries: &[(Key, Recent)],
        first: bool,
        writer: &mut Guarded<'_>,
    ) -> Result<(), StoreError> {
        let mut rest = entries;
        while !rest.is_empty() {
            let (stretch, behind) = rest.split_at(stretch_length(rest));
            let value_of = |(_, recent): &(Key, Recent)| match *recent {
                Recent::Value(at, length) => Some(self.value(at, length)),
                Recent::Dirty(_) | Recent::Tombstone | Recent::Damaged(_) => None,
            };
            let values: Vec<Option<Value>> = stretch.iter().map(value_of).collect();
            let items = read_items(&values.iter().map(Option::as_ref).collect::<Vec<_>>());
            // All of them before the first error ends the flush: what is unreadable is given up at the same time, not each
            // value after the one before.
            let mut opened = Vec::with_capacity(stretch.len());
            for (((key, _), value), item) in stretch.iter().zip(&values).zip(items) {
                opened.push(value.as_ref().map(|value| self.opened(value, key, item)));
            }
            for ((key, recent), value) in stretch.iter().zip(opened) {
                let written = match (recent, value) {
                    (Recent::Tombstone, _) if first => Ok(()),
                    (Recent::Tombstone, _) => writer.push(*key, Kind::Tombstone, b""),
                    (Recent::Dirty(slot), _) => writer.push(*key, Kind::Value, layer.dirty().head(*slot)),
                    (_, None | Some(Err(StoreError::Damaged(_)))) => writer.push(*key, Kind::Damaged, b""),
                    (_, Some(Ok(bytes))) => writer.push(*key, Kind::Value, &bytes),
                    (_, Some(Err(error))) => return Err(error),
                };
                written.map_err(|error| failed(&error))?;
            }
            rest = behind;
        }
        Ok(())
    }
}

/// An upper bound of an entry's size in a run, including index and filter.
fn entry_bytes_max((_, recent): &(Key, Recent)) -> u64 {
    const EXTRA_BYTES: u64 = 128;
    EXTRA_BYTES + u64::from(recent.length())
}

/// How many entries to read at once; at least one.
fn stretch_length(entries: &[(Key, Recent)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, recent): &&(Key, Recent)| {
        let fits = bytes < STRETCH_BYTES;
        bytes += recent.length() as usize;
        fits
    };
    entries.iter().take(STRETCH_ENTRIES).take_while(fits).count()
}

fn failed(error: &std::io::Error) -> StoreError {
    if is_no_space(error) {
        StoreError::NoSpace(error.to_string())
    } else {
        StoreError::Io(format!("writing a run: {error}"))
    }
}

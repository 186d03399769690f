//! Copies the recent layer to a run, and lets go of its part of the log.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use super::{
    Shared,
    recent::{Layer, Recent},
    run::{Range, Run, RunWriter},
};
use crate::{
    aggregates::{
        StoreError,
        entry::Kind,
        key::{KEY_BYTES, Key},
    },
    disk::is_no_space,
    segments::{
        Location,
        frame::{ITEM_HEADER_BYTES, open_item},
    },
};

/// After a flush that failed: how long until the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The flushing thread.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait(|wanted| std::mem::take(&mut wanted.flush)) {
        while let Err(error) = shared.flush() {
            if shared.work.stopped() {
                return;
            }
            tracing::warn!("aggregates could not be flushed, trying again: {error}");
            *shared.stuck.lock() = Some(error);
            shared.flushed.notify_waiters();
            shared.work.pause(RETRY_PAUSE);
        }
        *shared.stuck.lock() = None;
        shared.flushed.notify_waiters();
        shared.work.want(|wanted| wanted.merge = true);
    }
}

impl Shared {
    fn flush(&self) -> Result<(), StoreError> {
        let (frozen, segments) = self.freeze()?;
        let run = self.write_run(&frozen)?;
        {
            let mut state = self.state.write();
            state.runs.push(run);
            state.frozen = None;
        }
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        let released = self.log.lock().log.release(&segments);
        let removed = released.and_then(|paths| paths.iter().try_for_each(|path| self.disk.remove(path)));
        if let Err(error) = removed {
            tracing::warn!("flushed files of the log are left over until the next start: {error}");
        }
        Ok(())
    }

    /// Sets the recent layer apart and begins a new one, with a new segment of the log. Returns the layer and the
    /// segments that hold its values. After a failed flush, the layer that was set apart then.
    fn freeze(&self) -> Result<(Arc<Layer>, Vec<u32>), StoreError> {
        if self.state.read().frozen.is_none() {
            let mut log = self.log.lock();
            log.log.roll().map_err(|error| self.fail(error))?;
            self.recent_bytes.store(0, Ordering::Relaxed);
            // Still holding the log: nothing comes in between.
            let mut state = self.state.write();
            state.frozen_before = log.log.active();
            state.frozen = Some(Arc::new(std::mem::take(&mut state.active)));
        }
        let state = self.state.read();
        let frozen = state.frozen.clone().expect("only this thread takes it away");
        let segments = self.segments.read().range(..state.frozen_before).map(|(number, _)| *number).collect();
        Ok((frozen, segments))
    }

    /// Also where there is nothing to keep: the run says that its part of the log is done with.
    fn write_run(&self, layer: &Layer) -> Result<Arc<Run>, StoreError> {
        let (range, first) = {
            let state = self.state.read();
            let low = state.runs.last().map_or(0, |run| run.range.high) + 1;
            (Range { low, high: state.frozen_before - 1 }, state.runs.is_empty())
        };
        let failed = |error: std::io::Error| {
            if is_no_space(&error) {
                StoreError::NoSpace(error.to_string())
            } else {
                StoreError::Io(format!("writing a run: {error}"))
            }
        };
        let mut writer = RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, range).map_err(failed)?;
        let copied = layer.sorted().into_iter().try_for_each(|(key, recent)| match recent {
            Recent::Value(at, length) => match self.recent_value(&key, at, length)? {
                Some(item) => writer.push(key, Kind::Value, &item[ITEM_HEADER_BYTES + KEY_BYTES..]),
                None => writer.push(key, Kind::Damaged, b""),
            },
            // The oldest run has nothing to hide.
            Recent::Tombstone if first => Ok(()),
            Recent::Tombstone => writer.push(key, Kind::Tombstone, b""),
            Recent::Damaged(_) => writer.push(key, Kind::Damaged, b""),
        });
        if let Err(error) = copied {
            writer.abandon();
            return Err(failed(error));
        }
        let bytes = writer.finish().map_err(failed)?;
        self.counters.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        let run = Run::open(&*self.disk, &self.runs_dir, range, &self.quarantine);
        Ok(Arc::new(run.map_err(|error| StoreError::Io(error.to_string()))?))
    }

    /// An item of the log; `None` where it is damaged, which is reported.
    fn recent_value(&self, key: &Key, at: Location, length: u32) -> std::io::Result<Option<Vec<u8>>> {
        let segment = self.segments.read().get(&at.segment).cloned();
        let segment = segment.expect("a recent value's segment is there");
        let item = segment.read_item(at.offset, length)?;
        if open_item(&item).is_some_and(|(_, payload)| payload.starts_with(key.bytes())) {
            return Ok(Some(item));
        }
        self.quarantine.report("value", &segment.path, at.offset.into(), &item);
        Ok(None)
    }
}

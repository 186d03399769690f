//! Folds one metric's backlog into its head.
//!
//! A bug that makes a fold panic must not affect other metrics: the metric's requests are then retried one by
//! one on copies of its head, and those that panic are set aside. They are logged and counted, and leave no
//! trace in the head.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{BlockKey, BlockRange, MetricWrite},
    incoming::{IncomingError, Record},
};
use gnudi_model::{Measure, MetricId, Timestamp};
use gnudi_series::{CodecError, head::Head, points, raw};

use crate::{
    Result,
    damage::{self, StoredHead},
    figures::Figures,
    processor::{Group, Processor},
};

/// A metric's head after folding.
pub(crate) struct Folded {
    pub(crate) work: Work,
    pub(crate) latest: Option<Timestamp>,
}

/// The next step for a folded head.
pub(crate) enum Work {
    Write(Writing),
    /// Late points must be merged first ([`crate::late`]).
    MergeLate(Box<Head>),
    /// The head was made for another layout: nothing was folded into it ([`crate::conversion`]).
    Convert,
}

/// The pending write of a metric.
pub(crate) struct Writing {
    pub(crate) write: MetricWrite,
    /// Ranges of blocks that the metric's policy no longer keeps.
    pub(crate) overdue: Vec<BlockRange>,
}

/// Outcome of some requests' points.
#[derive(Clone, Copy, Default)]
struct Totals {
    requests: u64,
    accepted: u64,
    late: u64,
    damaged: u64,
    latest: Option<Timestamp>,
}

impl Totals {
    fn add(&mut self, more: Totals) {
        self.requests += more.requests;
        self.accepted += more.accepted;
        self.late += more.late;
        self.damaged += more.damaged;
        self.latest = self.latest.max(more.latest);
    }
}

impl Processor {
    /// Folds a metric's records into its stored head; `None` if none of them can be folded.
    pub(crate) fn fold_group(
        &self,
        group: &Group,
        stored: &StoredHead,
        records: &[Record],
        points: &mut Vec<Measure>,
    ) -> Result<Option<Folded>> {
        let whole = attempt(|| {
            let mut head = self.decode_head(group.metric, stored)?;
            if !head.fits(&group.layout) {
                return Ok((Folded { work: Work::Convert, latest: None }, Totals::default()));
            }
            let totals = self.fold(&mut head, group, records, points)?;
            Ok((folded(head, group, totals.latest), totals))
        });
        match whole {
            Ok(Ok((folded, totals))) => {
                self.count(totals);
                Ok(Some(folded))
            }
            Ok(Err(error)) => Err(error),
            Err(panic) => {
                let metric = group.metric;
                tracing::error!(%metric, panic, "folding a metric panicked: its requests are tried one by one");
                self.fold_one_by_one(group, stored, records, points)
            }
        }
    }

    fn fold_one_by_one(
        &self,
        group: &Group,
        stored: &StoredHead,
        records: &[Record],
        points: &mut Vec<Measure>,
    ) -> Result<Option<Folded>> {
        let mut head = match attempt(|| self.decode_head(group.metric, stored)) {
            Ok(head) => head?,
            Err(panic) => {
                self.set_aside(records, &panic);
                return Ok(None);
            }
        };
        let mut totals = Totals::default();
        for request in records.chunk_by(|a, b| a.position == b.position) {
            let mut next = head.clone();
            match attempt(|| self.fold(&mut next, group, request, points)) {
                Ok(some) => {
                    head = next;
                    totals.add(some?);
                }
                Err(panic) => self.set_aside(request, &panic),
            }
        }
        if totals.requests == 0 {
            return Ok(None);
        }
        match attempt(|| folded(head, group, totals.latest)) {
            Ok(folded) => {
                self.count(totals);
                Ok(Some(folded))
            }
            Err(panic) => {
                self.set_aside(records, &panic);
                Ok(None)
            }
        }
    }

    fn set_aside(&self, records: &[Record], panic: &str) {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let measures = records.iter().map(|record| u64::from(record.measures)).sum();
        tracing::warn!(
            metric = %first.metric, first = first.position.0, last = last.position.0, measures, panic,
            "measures are set aside: folding them panics"
        );
        Figures::add(&self.figures.measures_set_aside, measures);
    }

    fn count(&self, totals: Totals) {
        Figures::add(&self.figures.measures_folded, totals.accepted);
        Figures::add(&self.figures.measures_late, totals.late);
        Figures::add(&self.figures.damaged, totals.damaged);
    }

    /// Decodes a head. For a damaged one, which the store has reported and quarantined, returns a new one:
    /// the metric's sealed blocks are whole. The new head records the loss, for readers.
    pub(crate) fn decode_head(&self, metric: MetricId, stored: &StoredHead) -> Result<Head> {
        let reason = match damage::decode(stored)? {
            Ok(head) => return Ok(head.unwrap_or_default()),
            Err(reason) => reason,
        };
        tracing::error!(%metric, reason, "the metric's head is damaged: continuing with a new one");
        Figures::add(&self.figures.damaged, 1);
        Ok(Head::after_loss(self.now()))
    }

    /// Folds a metric's records, request by request. Fails at a record that a newer program wrote: it stays in the log until
    /// such a program runs.
    fn fold(
        &self,
        head: &mut Head,
        group: &Group,
        records: &[Record],
        points: &mut Vec<Measure>,
    ) -> Result<Totals> {
        let mut totals = Totals::default();
        for request in records.chunk_by(|a, b| a.position == b.position) {
            points.clear();
            for record in request {
                match points::decode(&record.points, points) {
                    Ok(()) => {}
                    Err(CodecError::Version(found)) => {
                        let reason = damage::of_newer_program("measures have", found);
                        return Err(IncomingError::Io(reason).into());
                    }
                    Err(error) => {
                        let (metric, position) = (record.metric, record.position.0);
                        tracing::error!(%metric, position, %error, "a record does not decode: dropped");
                        totals.damaged += 1;
                    }
                }
            }
            totals.latest = totals.latest.max(points.iter().map(|point| point.timestamp).max());
            let fold = self.fold.get().copied().unwrap_or(Head::fold);
            let outcome = fold(head, &group.layout, request[0].position.0, points);
            totals.requests += 1;
            totals.accepted += outcome.accepted as u64;
            totals.late += outcome.late as u64;
        }
        Ok(totals)
    }
}

fn folded(mut head: Head, group: &Group, latest: Option<Timestamp>) -> Folded {
    let work = if head.has_late() {
        Work::MergeLate(Box::new(head))
    } else {
        Work::Write(writing(&mut head, group))
    };
    Folded { work, latest }
}

/// The write of a folded head.
pub(crate) fn writing(head: &mut Head, group: &Group) -> Writing {
    let write = write_of(head, group);
    let overdue = if head.expiry_moved() { expired_ranges(head, group).collect() } else { Vec::new() };
    Writing { write, overdue }
}

/// The result of `work`, or the text of its panic. State that a panic left half-changed must not be used.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(&*panic))
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

/// The write of a folded head: sealed blocks leave it, and superseded blocks are deleted.
fn write_of(head: &mut Head, group: &Group) -> MetricWrite {
    let metric = group.metric;
    let key = |granularity, (first, last)| BlockKey { metric, granularity, first, last };
    let blocks = head.take_sealed().into_iter();
    let blocks: Vec<(BlockKey, Bytes)> = blocks
        .map(|block| (key(block.granularity, (block.first, block.last)), Bytes::from(block.bytes)))
        .collect();
    let removed = head.take_removed().into_iter().map(|(granularity, span)| key(granularity, span));
    let expired = removed.filter(|removed| blocks.iter().all(|(new, _)| new != removed)).collect();
    MetricWrite { metric, blocks, expired, head: encoded(head) }
}

/// The stored form of a head, in memory of its size: a pass holds thousands of them.
fn encoded(head: &Head) -> Bytes {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        head.encode(buffer);
        Bytes::copy_from_slice(buffer)
    })
}

/// Ranges of blocks that the metric's policy no longer keeps.
fn expired_ranges(head: &Head, group: &Group) -> impl Iterator<Item = BlockRange> {
    let metric = group.metric;
    let of_buckets = group.layout.granularities().map(|granularity| {
        let oldest = head.oldest_kept(granularity);
        (granularity, oldest)
    });
    of_buckets.chain([(raw::GRANULARITY, head.oldest_raw_kept())]).filter_map(move |(granularity, oldest)| {
        Some(BlockRange { metric, granularity, from: Timestamp::EPOCH, to: Timestamp(oldest?.0 - 1) })
    })
}

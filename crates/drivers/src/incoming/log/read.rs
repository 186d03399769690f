//! Reads the records of indexed items: from memory, or from the log.
//!
//! An unreadable item may become readable again, and later ones must not overtake it: a head that has applied
//! a record ignores those before it. So no later ones are passed on until the place counts as damaged
//! (`Quarantine::is_given_up`). They are read, so that all unreadable places count as damaged at the same time, not each
//! after the one before.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use gnudi_model::{MetricId, SackId};

use super::{
    LogState, entries,
    index::{Item, Stored},
};
use crate::{
    disk::read_exact_at,
    incoming::{Position, Record},
    segments::{
        Segment,
        frame::{ITEM_HEADER_BYTES, open_item},
    },
};

/// The result of reading items.
pub(super) struct RecordsRead {
    /// The items' records in order, as far as they could be read.
    pub records: Vec<Record>,
    /// Why the rest could not be read, for now.
    pub stopped: Option<String>,
}

enum ItemRead {
    Whole,
    /// Already reported.
    Damaged,
    /// A later read may succeed.
    NotNow(String),
}

/// Payloads that were not in memory, by the index of their item.
struct ItemsRead {
    payloads: HashMap<usize, Bytes>,
    /// The first item that could not be read for now, and why.
    stopped: Option<(usize, String)>,
}

impl LogState {
    /// The items' records, in order. Damage is reported and removed from the backlog.
    pub(super) fn read(&self, sack: SackId, items: &[Stored]) -> RecordsRead {
        let ItemsRead { mut payloads, stopped } = self.read_items(sack, items);
        let end = stopped.as_ref().map_or(items.len(), |(index, _)| *index);
        let mut records = Vec::with_capacity(end);
        for (index, Stored { item, held }) in items[..end].iter().enumerate() {
            let payload = match held {
                Some((frame, offset)) => frame.payload(*offset, item.length),
                None => match payloads.remove(&index) {
                    Some(payload) => payload,
                    None => continue,
                },
            };
            let before = records.len();
            if entries::decode(&payload, item.position(), &mut records).is_none() {
                // Its checksum matches, but it cannot be decoded.
                records.truncate(before);
                self.report("record of unknown form", item, &payload);
                self.index.give_up(sack, item);
            }
        }
        RecordsRead { records, stopped: stopped.map(|(_, reason)| reason) }
    }

    /// Reads those of the items that are not in memory from the log.
    fn read_items(&self, sack: SackId, items: &[Stored]) -> ItemsRead {
        let is_on_disk = |(_, stored): &(usize, &Stored)| stored.held.is_none();
        let wanted =
            || items.iter().enumerate().filter(is_on_disk).map(|(index, stored)| (index, &stored.item));
        // One buffer, which the records share.
        let length = |item: &Item| ITEM_HEADER_BYTES + item.length as usize;
        let mut buffer = vec![0; wanted().map(|(_, item)| length(item)).sum()];
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        let mut segment: Option<Arc<Segment>> = None;
        let (mut end, mut stopped) = (0, None);
        for (index, item) in wanted() {
            let number = item.at.segment;
            if segment.as_ref().is_none_or(|segment| segment.number != number) {
                segment = self.segments.read().get(&number).cloned();
            }
            // A missing segment was trimmed meanwhile, and its records with it.
            let Some(segment) = &segment else { continue };
            let range = end..end + length(item);
            end = range.end;
            match self.read_item(segment, item, &mut buffer[range.clone()]) {
                ItemRead::Whole => found.push((index, range)),
                ItemRead::Damaged => self.index.give_up(sack, item),
                ItemRead::NotNow(reason) => {
                    stopped.get_or_insert((index, reason));
                }
            }
        }
        let buffer = Bytes::from(buffer);
        let payload = |range: Range<usize>| buffer.slice(range.start + ITEM_HEADER_BYTES..range.end);
        let payloads = found.into_iter().map(|(index, range)| (index, payload(range))).collect();
        ItemsRead { payloads, stopped }
    }

    /// Reads and validates an item.
    fn read_item(&self, segment: &Segment, item: &Item, bytes: &mut [u8]) -> ItemRead {
        let offset = item.at.offset.into();
        if let Err(error) = read_exact_at(&*segment.file, bytes, offset) {
            if !self.quarantine.is_given_up(&segment.path, offset) {
                return ItemRead::NotNow(format!("{} at {offset}: {error}", segment.path.display()));
            }
            segment.unreadable.store(true, Ordering::Relaxed);
            self.report(&format!("record, unreadable: {error}"), item, &[]);
            return ItemRead::Damaged;
        }
        self.quarantine.was_read(&segment.path, offset..offset + 1);
        if open_item(bytes).is_none() {
            self.report("record", item, bytes);
            return ItemRead::Damaged;
        }
        ItemRead::Whole
    }

    /// The waiting measures of each metric.
    pub(super) fn backlog_by_metric(&self) -> HashMap<MetricId, u64> {
        /// How many bytes of the backlog are in memory at once.
        const READ_BYTES: usize = 1 << 20;
        let mut measures: HashMap<MetricId, u64> = HashMap::new();
        for sack in self.sack_count.iter() {
            let mut after = Position(0);
            loop {
                let items = self.index.pending(sack, after, READ_BYTES);
                let Some(last) = items.last() else { break };
                after = last.item.position();
                for record in self.read(sack, &items).records {
                    *measures.entry(record.metric).or_default() += u64::from(record.measures);
                }
            }
        }
        measures
    }

    fn report(&self, what: &str, item: &Item, bytes: &[u8]) {
        let segment = self.segments.read().get(&item.at.segment).cloned();
        if let Some(segment) = segment {
            self.quarantine.report(what, &segment.path, item.at.offset.into(), bytes);
        }
    }
}

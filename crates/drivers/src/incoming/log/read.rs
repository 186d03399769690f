//! Records of the parts that the index names: out of memory, or read back from their places.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use gnudi_model::SackId;

use super::{LogState, entries, index::Stored};
use crate::{
    disk::read_exact_at,
    incoming::Record,
    segments::{
        Segment,
        frame::{ITEM_HEADER_BYTES, open_item},
    },
};

impl LogState {
    /// The records of parts, in order: out of memory, or read back. What cannot be read is reported and taken out of the backlog.
    pub(super) fn read(&self, sack: SackId, parts: &[Stored]) -> Vec<Record> {
        let mut from_disk = self.read_items(sack, parts);
        let mut records = Vec::with_capacity(parts.len());
        for (index, stored) in parts.iter().enumerate() {
            let payload = match &stored.held {
                Some((frame, offset)) => frame.payload(*offset, stored.length),
                None => match from_disk.remove(&index) {
                    Some(payload) => payload,
                    None => continue,
                },
            };
            let before = records.len();
            if entries::decode(&payload, stored.position(), &mut records).is_none() {
                // Its checksum is right: whoever wrote it spoke another language.
                records.truncate(before);
                self.report("record of unknown form", stored, &payload);
                self.index.give_up(sack, stored);
            }
        }
        records
    }

    /// The payloads of those parts that are not in memory, by their places among all.
    fn read_items(&self, sack: SackId, parts: &[Stored]) -> HashMap<usize, Bytes> {
        let wanted = || parts.iter().enumerate().filter(|(_, stored)| stored.held.is_none());
        // All in one buffer, which the records share.
        let length = |stored: &Stored| ITEM_HEADER_BYTES + stored.length as usize;
        let mut buffer = vec![0; wanted().map(|(_, stored)| length(stored)).sum()];
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        let mut segment: Option<Arc<Segment>> = None;
        let mut end = 0;
        for (index, stored) in wanted() {
            let number = stored.at.segment;
            if segment.as_ref().is_none_or(|segment| segment.number != number) {
                segment = self.segments.read().get(&number).cloned();
            }
            // A segment that is gone was trimmed meanwhile: then so were its records.
            let Some(segment) = &segment else { continue };
            let range = end..end + length(stored);
            end = range.end;
            if self.read_item(segment, stored, &mut buffer[range.clone()]) {
                found.push((index, range));
            } else {
                self.index.give_up(sack, stored);
            }
        }
        let buffer = Bytes::from(buffer);
        let payload = |range: Range<usize>| buffer.slice(range.start + ITEM_HEADER_BYTES..range.end);
        found.into_iter().map(|(index, range)| (index, payload(range))).collect()
    }

    /// Reads and checks an item; false where it is damaged, which is reported.
    fn read_item(&self, segment: &Segment, stored: &Stored, item: &mut [u8]) -> bool {
        if let Err(error) = read_exact_at(&*segment.file, item, stored.at.offset.into()) {
            segment.unreadable.store(true, Ordering::Relaxed);
            self.report(&format!("record, unreadable: {error}"), stored, &[]);
            return false;
        }
        let right = open_item(item).is_some();
        if !right {
            self.report("record", stored, item);
        }
        right
    }

    fn report(&self, what: &str, stored: &Stored, bytes: &[u8]) {
        let segment = self.segments.read().get(&stored.at.segment).cloned();
        if let Some(segment) = segment {
            self.quarantine.report(what, &segment.path, stored.at.offset.into(), bytes);
        }
    }
}

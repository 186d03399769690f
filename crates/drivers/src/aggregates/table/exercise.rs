//! Everything that can be done with a table's bytes, for tests and fuzz targets: damage and nonsense never panic.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use gnudi_model::{MetricId, Timespan, Timestamp};
use uuid::Uuid;

use super::{
    Builder, DamagedIndex, Filter, Index, Pages, Rebuild, Scan, Site, Table,
    blocks::{Collected, TableBlocks},
    entry::{self, Kind, Piece, walk},
    layout::{FOOTER_BYTES, Footer, HEADER_BYTES, version_of},
    levels::Levels,
    merge::{Merge, Step},
};
use crate::aggregates::{BlockKey, BlockRange, key::Key};

/// Bytes in memory.
pub struct Memory;

impl Site for Memory {
    fn place(&self, offset: u64) -> String {
        format!("memory at {offset}")
    }

    fn report(&self, _what: &str, _offset: u64, _bytes: &[u8]) {}
}

/// The keys of the entries that a merge of the table with itself gives; `None` if entries are lost.
pub fn exercise(whole: &[u8]) -> Option<Vec<Key>> {
    let _ = version_of(&whole[..HEADER_BYTES.min(whole.len())]);
    let footer_at = whole.len().saturating_sub(FOOTER_BYTES);
    let footer = Footer::parse(&whole[footer_at..], whole.len() as u64);
    let index = if let Some(footer) = footer {
        let entries_end = footer.entries_end;
        let tail = &whole[entries_end as usize..footer_at];
        Index::parse(footer, tail, &mut |_, _| {})
            .unwrap_or_else(|damaged| Rebuild::of_bytes(whole, entries_end, damaged))
    } else {
        let damaged = DamagedIndex { footer: None, filter: Filter::everything() };
        Rebuild::of_bytes(whole, whole.len() as u64, damaged)
    };
    let table = Arc::new(Table::new(Memory, index));
    let bytes = Bytes::copy_from_slice(whole);
    find_and_scan(&table, &bytes);
    merge(&table, &bytes)
}

fn pages(table: &Table<Memory>, whole: &Bytes, first: usize, last: usize) -> Pages {
    let (start, end) = (table.index.page_start(first), table.index.page_end(last));
    let within = |at: u64| whole.len().min(at as usize);
    Pages { first, last, start, bytes: whole.slice(within(start)..within(end)) }
}

/// Looks for the first entries' metrics, and for one that is hardly there.
fn find_and_scan(table: &Table<Memory>, whole: &Bytes) {
    let Some(last) = table.index.pages.len().checked_sub(1) else { return };
    let all = pages(table, whole, 0, last);
    let metric = |piece| match piece {
        Piece::Entry(_, header) => Some(header.key.metric()),
        Piece::Gap(..) => None,
    };
    let metrics = walk(&all.bytes).filter_map(metric).take(8).chain([MetricId(Uuid::from_u128(7))]);
    for metric in metrics.collect::<Vec<_>>() {
        let wanted = table.wanted(table.head_keys(metric).map(|key| (0, key)));
        table.find_all(&all, &wanted, |_, _| {});
        for span in table.index.spans(&wanted, 0, 1) {
            table.find_all(&pages(table, whole, span[0].page, span[0].page), span, |_, _| {});
        }
        for granularity in [Timespan(0), Timespan::from_secs(60)] {
            let range = BlockRange { metric, granularity, from: Timestamp(-5), to: Timestamp::MAX };
            let mut found: Collected<()> = Collected::default();
            let mut blocks = TableBlocks::new(table, &range, true);
            let (mut scan, first) = Scan::new(&table.index, Key::bounds(&range).0);
            let scanned = pages(table, whole, first, table.index.last_page_of(&range).max(first));
            let visited: ControlFlow<()> =
                scan.visit(table, &scanned, 0, &mut |met| blocks.visit(met, &mut found));
            if visited.is_continue() {
                scan.end(table, &mut |met| blocks.visit(met, &mut found));
            }
            blocks.end(&mut found);
            found.holes.places(&range).for_each(drop);
        }
    }
}

fn merge(table: &Arc<Table<Memory>>, whole: &Bytes) -> Option<Vec<Key>> {
    let runs = [(); 2].map(|()| vec![Arc::clone(table)]).to_vec();
    let mut merge = Merge::new(Levels { new: runs, ..Levels::default() }, 100);
    let mut keys = Vec::new();
    loop {
        match merge.step().ok()? {
            Step::Read { run, table, first, last } => merge.feed(run, pages(&table, whole, first, last)),
            Step::Entry(entry) => keys.push(entry.key),
            Step::Done => return Some(keys),
        }
    }
}

/// The same bytes with valid checksums: those of the header, of whatever looks like an entry, of index, filter and footer.
pub fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < HEADER_BYTES + FOOTER_BYTES {
        return bytes;
    }
    let mut at = HEADER_BYTES;
    while let Some(length) = entry::set_checksums(&mut bytes[at..]) {
        at += length;
    }
    Footer::set_checksums(&mut bytes);
    bytes
}

/// A table of some entries: numbers for a metric, its key, the kind, and the value's length. Also returns the keys.
pub fn of_entries(entries: impl Iterator<Item = (u8, u8, u8, u8)>) -> (Vec<Key>, Vec<u8>) {
    let entry = |(metric, which, kind, length)| {
        let kind = [Kind::Value, Kind::Tombstone, Kind::Damaged][usize::from(kind % 3)];
        (key(metric, which), (kind, if kind == Kind::Value { usize::from(length) * 12 } else { 0 }))
    };
    let entries: BTreeMap<Key, (Kind, usize)> = entries.map(entry).collect();
    let mut builder = Builder::default();
    for (key, (kind, length)) in &entries {
        builder.push(*key, *kind, &vec![7; *length]);
    }
    builder.finish();
    (entries.into_keys().collect(), builder.buffer)
}

fn key(metric: u8, which: u8) -> Key {
    let metric = MetricId(Uuid::from_u128(metric.into()));
    let block = |granularity: i64, first: i64| {
        let (first, last) = (Timestamp(first), Timestamp(first + 9));
        Key::block(&BlockKey { metric, granularity: Timespan(granularity), first, last })
    };
    match which {
        0 => Key::deletion(metric),
        1 => Key::head(metric),
        2 => Key::loss(metric),
        which => block(i64::from(which % 2) * 60_000_000_000, i64::from(which) * 10),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a_table() -> impl Strategy<Value = (Vec<Key>, Vec<u8>)> {
        let entry = (any::<u8>(), 0u8..20, any::<u8>(), any::<u8>());
        prop::collection::vec(entry, 0..40).prop_map(|entries| of_entries(entries.into_iter()))
    }

    proptest! {
        #[test]
        fn a_whole_table_gives_its_keys((keys, bytes) in a_table()) {
            prop_assert_eq!(exercise(&bytes), Some(keys));
            prop_assert_eq!(with_checksums(&bytes), bytes);
        }

        #[test]
        fn damage_and_nonsense_never_panic(
            (_, bytes) in a_table(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = bytes;
            for (at, byte, in_footer) in changes {
                let start = if in_footer { bytes.len() - FOOTER_BYTES } else { 0 };
                let at = start + at.index(bytes.len() - start);
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            exercise(&bytes);
            exercise(&with_checksums(&bytes));
        }
    }
}

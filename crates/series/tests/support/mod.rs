//! Shared by the tests: random policies and requests, and a store in memory around a head.
#![allow(dead_code, reason = "each binary uses its own part")]

pub mod model;
pub mod playing;

use std::collections::BTreeMap;

use gnudi_model::{Aggregation, ArchivePolicy, ArchivePolicyItem, Measure, Timespan, Timestamp};
use gnudi_series::{
    head::{BlockSpan, FoldOutcome, Head, LateRows, Layout, StoredBlock},
    read::{ReadError, ReadRange, Series, assemble, block_range},
};
use model::Query;
use proptest::prelude::*;

/// A comparable series: times, and values as [`bits`].
pub type Rows = Vec<(i64, u64)>;

/// The bits of a value; all NaNs are equal.
pub fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

pub fn points(request: &[(i64, f64)]) -> Vec<Measure> {
    request.iter().map(|&(time, value)| Measure { timestamp: Timestamp(time), value }).collect()
}

/// A policy; granularities and timespans in nanoseconds.
pub fn policy(back_window: u64, definition: &[(i64, Option<i64>)], methods: &[&str]) -> ArchivePolicy {
    let item = |&(granularity, timespan): &(i64, Option<i64>)| ArchivePolicyItem {
        granularity: Timespan(granularity),
        points: None,
        timespan: timespan.map(Timespan),
    };
    let methods = methods.iter().map(|name| name.parse().unwrap()).collect();
    ArchivePolicy::new("p".to_owned(), back_window, definition.iter().map(item).collect(), methods).unwrap()
}

/// The methods of Gnocchi without a rate or a percentile.
pub const PLAIN: &str = "mean sum last max min std median first count";

/// The methods in texts, separated by spaces.
pub fn methods(texts: &[&'static str]) -> Vec<&'static str> {
    texts.iter().flat_map(|text| text.split(' ')).collect()
}

/// Granularities, not all of which divide each other, each without a limit or with one.
pub fn definitions() -> impl Strategy<Value = Vec<(i64, Option<i64>)>> {
    let points = prop::collection::vec(prop::option::of(5i64..400), 3);
    (prop::collection::btree_set(1i64..40, 1..4), points).prop_map(|(granularities, points)| {
        let item = |(step, points): (i64, Option<i64>)| (step, points.map(|points| points * step));
        granularities.into_iter().zip(points).map(item).collect()
    })
}

/// Granularities that divide each other, in nanoseconds: times are small numbers in these tests.
pub fn policies() -> impl Strategy<Value = ArchivePolicy> {
    const OTHERS: &str = "5pct 37pct 99pct rate:mean rate:sum rate:last rate:std rate:count rate:median rate:90pct rate:max \
                          increase rate_reset";
    let spans = prop::collection::vec(prop::option::of(prop_oneof![1i64..20, 100i64..9000]), 3);
    let definition =
        (1i64..4, prop::collection::vec(2i64..6, 0..3), spans).prop_map(|(finest, factors, spans)| {
            let mut granularity = finest;
            let mut definition = vec![(granularity, spans[0].map(|points| points * granularity))];
            for (factor, span) in factors.iter().zip(&spans[1..]) {
                granularity *= factor;
                definition.push((granularity, span.map(|points| points * granularity)));
            }
            definition
        });
    (0u64..4, definition, prop::sample::subsequence(methods(&[PLAIN, OTHERS]), 1..7))
        .prop_map(|(back_window, definition, methods)| policy(back_window, &definition, &methods))
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-20i32..20).prop_map(f64::from),
        8 => -1e3..1e3,
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MAX, 1e17]),
    ]
}

/// A request: points around a place in time, in any order, with doubles.
pub fn requests() -> impl Strategy<Value = Vec<(i64, f64)>> {
    let place = prop_oneof![20 => 0i64..400, 1 => 0i64..40_000];
    let spread = prop_oneof![Just(3i64), Just(30), Just(300)];
    (place, spread, prop::collection::vec((any::<prop::sample::Index>(), value()), 1..12)).prop_map(
        |(place, spread, points)| {
            points
                .into_iter()
                .map(|(at, value)| (1000 + place + at.index(spread as usize) as i64, value))
                .collect()
        },
    )
}

pub fn queries() -> impl Strategy<Value = Query> {
    let time = || prop::option::of(prop_oneof![900i64..1500, 0i64..50_000]);
    (0usize..1000, time(), time(), prop::option::of(1i64..100))
        .prop_map(|(aggregation, start, stop, resample)| Query { aggregation, start, stop, resample })
}

pub fn aggregations(policy: &ArchivePolicy) -> Vec<Aggregation> {
    let mut all = Vec::new();
    for item in &policy.definition {
        for &method in &policy.aggregation_methods {
            all.push(Aggregation { method, granularity: item.granularity, timespan: item.timespan });
        }
    }
    all
}

fn refer(blocks: &[(Timespan, BlockSpan, Vec<u8>)]) -> Vec<StoredBlock<'_>> {
    blocks
        .iter()
        .map(|(granularity, span, bytes)| StoredBlock { granularity: *granularity, span: *span, bytes })
        .collect()
}

/// A head and its sealed blocks.
#[derive(Clone)]
pub struct Store {
    pub layout: Layout,
    pub head: Head,
    /// Every block that was sealed, in order: granularity, first, last.
    pub written: Vec<((i64, i64, i64), Vec<u8>)>,
    blocks: BTreeMap<(i64, i64, i64), Vec<u8>>,
    /// The size of the window's blocks, and their number.
    limits: (i64, u64),
}

impl Store {
    pub fn new(policy: &ArchivePolicy) -> Self {
        Store {
            layout: Layout::of(policy),
            head: Head::new(),
            written: Vec::new(),
            blocks: BTreeMap::new(),
            limits: (policy.block_size().0, policy.back_window),
        }
    }

    /// Folds a request at the next position.
    pub fn fold(&mut self, request: &[(i64, f64)]) -> FoldOutcome {
        self.fold_points(&mut points(request))
    }

    pub fn fold_points(&mut self, points: &mut Vec<Measure>) -> FoldOutcome {
        self.head.fold(&self.layout, self.head.applied() + 1, points)
    }

    /// The time before which points are late, by the policy that the store was created with.
    pub fn late_limit(&self) -> i64 {
        let (block, back_window) = self.limits;
        self.head.last().map_or(0, |last| last.0 - last.0 % block - block * back_window as i64)
    }

    /// Merges late points; encodes and decodes the head.
    pub fn pass(&mut self) {
        if self.head.has_late() {
            self.merge_late();
        }
        for (granularity, (first, last)) in self.head.take_removed() {
            let known = self.blocks.remove(&(granularity.0, first.0, last.0));
            assert!(known.is_some(), "what is removed was there");
        }
        for block in self.head.take_sealed() {
            let key = (block.granularity.0, block.first.0, block.last.0);
            let overlaps =
                self.blocks.keys().any(|known| known.0 == key.0 && known.2 >= key.1 && known.1 <= key.2);
            assert!(!overlaps, "blocks never overlap");
            self.written.push((key, block.bytes.clone()));
            self.blocks.insert(key, block.bytes);
        }
        if self.head.expiry_moved() {
            let head = &self.head;
            if let Some(oldest) = head.oldest_raw_kept() {
                let expired: Vec<_> =
                    self.blocks.keys().filter(|key| key.0 == 0 && key.2 < oldest.0).copied().collect();
                expired.iter().rev().skip(1).for_each(|key| drop(self.blocks.remove(key)));
            }
            self.blocks
                .retain(|key, _| head.oldest_kept(Timespan(key.0)).is_none_or(|oldest| key.2 >= oldest.0));
        }
        self.head = Head::decode(&self.head.encoded()).unwrap();
        for (granularity, first, last) in self.blocks.keys() {
            let end = self.head.blocks_end_before(Timespan(*granularity));
            assert!(
                end.is_none_or(|end| *last < end.0),
                "a block of {granularity} ns, {first} to {last}, extends beyond {end:?}"
            );
        }
    }

    fn merge_late(&mut self) {
        let raw = self.spans(gnudi_series::raw::GRANULARITY);
        let needed = self.head.late_raw_needs(&self.layout, &raw);
        let needed: Vec<BlockSpan> = needed.into_iter().flat_map(|needed| &raw[needed]).copied().collect();
        let stored = self.stored(gnudi_series::raw::GRANULARITY, &needed);
        let rows = self.head.merge_late(&self.layout, &refer(&stored)).unwrap();
        self.set_rows(&rows);
    }

    /// Removes the measures of a time range, as the request at the next position.
    pub fn remove(&mut self, from: i64, to: i64) {
        self.pass();
        let span = Timestamp(from)..Timestamp(to);
        let raw = self.spans(gnudi_series::raw::GRANULARITY);
        let needed = self.head.removal_raw_needs(&self.layout, &span, &raw);
        let needed: Vec<BlockSpan> = needed.into_iter().flat_map(|needed| &raw[needed]).copied().collect();
        let stored = self.stored(gnudi_series::raw::GRANULARITY, &needed);
        let position = self.head.applied() + 1;
        let mut head = std::mem::take(&mut self.head);
        let rows = head.remove_points(&self.layout, position, &span, &raw, &refer(&stored)).unwrap();
        head.remove_emptied(&span, &rows, |granularity| self.spans(granularity));
        self.head = head;
        self.set_rows(&rows);
        let mut head = std::mem::take(&mut self.head);
        head.reopen(&self.layout, |granularity| self.spans(granularity));
        self.head = head;
        self.pass();
    }

    fn set_rows(&mut self, rows: &LateRows) {
        let mut stored = Vec::new();
        for granularity in rows.granularities() {
            let spans = self.spans(granularity);
            let needed: Vec<BlockSpan> =
                rows.needs(granularity, &spans).into_iter().map(|index| spans[index]).collect();
            stored.extend(self.stored(granularity, &needed));
        }
        self.head.set_late_rows(&self.layout, rows, &refer(&stored)).unwrap();
    }

    /// The spans of all blocks of a granularity.
    pub fn spans(&self, granularity: Timespan) -> Vec<BlockSpan> {
        let of = self.blocks.keys().filter(|key| key.0 == granularity.0);
        of.map(|key| (Timestamp(key.1), Timestamp(key.2))).collect()
    }

    fn stored(&self, granularity: Timespan, spans: &[BlockSpan]) -> Vec<(Timespan, BlockSpan, Vec<u8>)> {
        let read = |span: &BlockSpan| self.blocks[&(granularity.0, span.0.0, span.1.0)].clone();
        spans.iter().map(|span| (granularity, *span, read(span))).collect()
    }

    pub fn read_raw(&self, start: Option<Timestamp>, stop: Option<Timestamp>) -> Series {
        let is_wanted = |key: &(i64, i64, i64)| key.0 == 0 && stop.is_none_or(|stop| key.1 <= stop.0);
        let of = self.blocks.iter().filter(|(key, _)| is_wanted(key));
        let blocks: Vec<&[u8]> = of.map(|(_, bytes)| bytes.as_slice()).collect();
        gnudi_series::read::raw_points(&blocks, &self.head, &self.layout, start, stop).unwrap()
    }

    pub fn read(&self, aggregation: Aggregation, query: &Query) -> Result<Rows, ReadError> {
        let (start, stop) = (query.start.map(Timestamp), query.stop.map(Timestamp));
        let range = ReadRange { start, stop, resample: query.resample() };
        let series = self.read_series(aggregation, range)?;
        Ok(series.timestamps.iter().zip(&series.values).map(|(time, value)| (time.0, bits(*value))).collect())
    }

    pub fn read_series(&self, aggregation: Aggregation, range: ReadRange) -> Result<Series, ReadError> {
        let (from, to) = block_range(aggregation, range);
        let blocks: Vec<_> = self
            .blocks
            .iter()
            .filter(|(key, _)| key.0 == aggregation.granularity.0 && key.2 >= from.0 && key.1 <= to.0)
            .map(|(key, bytes)| (Timestamp(key.1), Timestamp(key.2), bytes.as_slice()))
            .collect();
        assemble(&blocks, Some(&self.head), &self.layout, aggregation, range)
    }

    /// Moves the metric to another policy.
    pub fn convert(&mut self, policy: &ArchivePolicy) {
        self.pass();
        self.layout = Layout::of(policy);
        self.limits = (policy.block_size().0, policy.back_window);
        if self.head.fits(&self.layout) {
            return;
        }
        let mut head = std::mem::take(&mut self.head);
        let raw = self.spans(gnudi_series::raw::GRANULARITY);
        let needed = head.conversion_raw_needs(&raw);
        let stored = self.stored(gnudi_series::raw::GRANULARITY, &raw[needed]);
        let spans = |granularity| self.spans(granularity);
        let mut conversion = head.begin_conversion(&self.layout, &refer(&stored), spans).unwrap();
        for composer in &mut conversion.composers {
            for (_, _, bytes) in self.stored(composer.source, &self.spans(composer.source)) {
                composer.add(&bytes).unwrap();
            }
            if let Some(open) = head.open_block(composer.source) {
                composer.add(open).unwrap();
            }
        }
        let mut cuts = Vec::new();
        for (granularity, span) in &conversion.cuts {
            cuts.extend(self.stored(*granularity, &[*span]));
        }
        head.finish_conversion(&self.layout, conversion, &refer(&cuts), spans).unwrap();
        assert!(head.fits(&self.layout));
        self.head = head;
        self.pass();
        assert!(self.head.fits(&self.layout));
        let granularities: Vec<i64> = self.layout.granularities().map(|granularity| granularity.0).collect();
        let is_left = |key: &(i64, i64, i64)| granularities.contains(&key.0) || key.0 == 0;
        assert!(self.blocks.keys().all(is_left), "blocks of other granularities are gone");
    }
}

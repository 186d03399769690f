//! Measures that a pass has taken up but not folded yet, of one unit, in memory.
//!
//! A head costs about as much to read, fold and write for one measure as for ten. So while the store holds more heads
//! than fit in memory, passes defer their measures, and the unit's heads are changed once for several measures each:
//! when the unit's share of memory is full, at a checkpoint, and of single metrics when they are read.
//!
//! The log keeps deferred measures as it keeps those in heads that are in no file: until a checkpoint.

use std::{iter::Sum, sync::Arc};

use bytes::Bytes;
use gnudi_drivers::incoming::{Position, Record};
use gnudi_model::MetricId;
use gnudi_series::packing::{Reader, put_varint};
use parking_lot::Mutex;

/// The memory of all units' deferred measures, in bytes: each unit has a share.
const BYTES_MAX: usize = 64 << 20;
/// While metrics have fewer records than this on average, folding them is not worth it: a unit may exceed its share, and
/// the log may keep more.
const RECORDS_A_METRIC: usize = 6;
/// A unit may take up to this many times its share, and all units up to this many times [`BYTES_MAX`]. (Passes that
/// already run may add to that.)
const EXCESS_MAX: usize = 8;

/// The deferred records of a unit. A metric's records are in the order of their positions, in `sealed` first.
#[derive(Debug, Default)]
pub struct Deferred {
    /// Those that are being folded.
    sealed: Chunk,
    /// Later ones, oldest first; each chunk has more records than the next.
    chunks: Vec<Chunk>,
    gauge: Gauge,
}

/// The size of a unit's deferred records, for callers without its lock.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Mutex<Size>>);

impl Gauge {
    pub fn get(&self) -> Size {
        *self.0.lock()
    }
}

/// The size of deferred records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// In memory.
    pub bytes: usize,
    metrics: usize,
    records: usize,
}

impl Size {
    /// Whether a head is changed for enough records at once. It is if there are none.
    pub fn is_worth_folding(self) -> bool {
        self.records >= RECORDS_A_METRIC * self.metrics
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), |all, size| Size {
            bytes: all.bytes + size.bytes,
            metrics: all.metrics + size.metrics,
            records: all.records + size.records,
        })
    }
}

impl Deferred {
    pub fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    pub fn is_empty(&self) -> bool {
        self.all().all(Chunk::is_empty)
    }

    /// Whether they must be folded before more is added. The process has `units` units, and `all_bytes` of deferred
    /// records.
    pub fn is_full(&self, units: usize, all_bytes: usize) -> bool {
        let share = BYTES_MAX / units.max(1);
        let size = self.size();
        let exceeds = |bytes_max: usize| size.bytes >= bytes_max;
        exceeds(share) && (size.is_worth_folding() || exceeds(EXCESS_MAX * share))
            || all_bytes >= EXCESS_MAX * BYTES_MAX
    }

    /// Adds records, sorted by metric, that are newer than all added before.
    pub fn add(&mut self, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        self.chunks.push(Chunk::new(records));
        while let [.., before, last] = &self.chunks[..]
            && last.records >= before.records
        {
            let (last, before) =
                (self.chunks.pop().unwrap_or_default(), self.chunks.pop().unwrap_or_default());
            self.chunks.push(Chunk::joined(&[before, last]));
        }
        self.update_gauge();
    }

    /// Prepares everything for [`Deferred::next`].
    pub fn seal(&mut self) {
        if !self.chunks.is_empty() {
            let mut all = vec![std::mem::take(&mut self.sealed)];
            all.append(&mut self.chunks);
            self.sealed = Chunk::joined(&all);
        }
        self.update_gauge();
    }

    /// All records of the next metrics that have sealed ones; sorted by metric and position.
    pub fn next(&self, metrics_max: usize) -> Vec<Record> {
        let metrics: Vec<MetricId> = self.sealed.metrics().take(metrics_max).collect();
        self.of(&metrics)
    }

    /// All records of the metrics, which are sorted; sorted by metric and position.
    pub fn of(&self, metrics: &[MetricId]) -> Vec<Record> {
        debug_assert!(metrics.is_sorted());
        let mut places = vec![0; 1 + self.chunks.len()];
        let mut records = Vec::new();
        for metric in metrics {
            for (chunk, place) in self.all().zip(&mut places) {
                if let Some(found) = chunk.find(*metric, place) {
                    chunk.push_records(found, &mut records);
                }
            }
        }
        records
    }

    /// Removes all records of the metrics, which are sorted.
    pub fn remove(&mut self, metrics: &[MetricId]) {
        debug_assert!(metrics.is_sorted());
        for chunk in [&mut self.sealed].into_iter().chain(&mut self.chunks) {
            let mut place = 0;
            for metric in metrics {
                if let Some(found) = chunk.find(*metric, &mut place) {
                    chunk.is_removed[found] = true;
                    chunk.metrics_left -= 1;
                }
            }
            if chunk.is_empty() {
                *chunk = Chunk::default();
            }
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.update_gauge();
    }

    fn all(&self) -> impl Iterator<Item = &Chunk> {
        [&self.sealed].into_iter().chain(&self.chunks)
    }

    fn size(&self) -> Size {
        Size {
            bytes: self.all().map(Chunk::memory_bytes).sum(),
            metrics: self.all().map(|chunk| chunk.metrics.len()).max().unwrap_or(0),
            records: self.all().map(|chunk| chunk.records).sum(),
        }
    }

    fn update_gauge(&self) {
        *self.gauge.0.lock() = self.size();
    }
}

/// Records of distinct metrics, immutable but for what is removed.
#[derive(Debug, Default)]
struct Chunk {
    /// Sorted.
    metrics: Vec<MetricId>,
    /// Where each metric's records end in `bytes`.
    ends: Vec<u32>,
    is_removed: Vec<bool>,
    /// The number of metrics that are not removed.
    metrics_left: usize,
    /// The number of records, also of metrics removed since.
    records: usize,
    /// No position is smaller.
    first: u64,
    /// For each record: varint position - `first`; varint measures; varint length; points.
    bytes: Bytes,
}

impl Chunk {
    /// Of records that are sorted by metric and position.
    fn new(records: &[Record]) -> Self {
        let first = records.iter().map(|record| record.position.0).min().unwrap_or(0);
        let mut builder = Builder { first, ..Builder::default() };
        for of_metric in records.chunk_by(|a, b| a.metric == b.metric) {
            for record in of_metric {
                builder.record(record.position.0, record.measures.into(), &record.points);
            }
            builder.end(of_metric[0].metric);
        }
        builder.finish()
    }

    /// What is left of chunks, oldest first.
    fn joined(chunks: &[Chunk]) -> Self {
        let first = chunks.iter().filter(|chunk| !chunk.is_empty()).map(|chunk| chunk.first).min();
        let bytes = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let metrics = chunks.iter().map(|chunk| chunk.metrics_left).max().unwrap_or(0);
        let mut builder = Builder { first: first.unwrap_or(0), ..Builder::default() };
        builder.bytes.reserve(bytes);
        builder.metrics.reserve(metrics);
        builder.ends.reserve(metrics);
        let mut left: Vec<_> = chunks.iter().map(|chunk| chunk.places().peekable()).collect();
        loop {
            let next = chunks
                .iter()
                .zip(&mut left)
                .filter_map(|(chunk, left)| left.peek().map(|place| chunk.metrics[*place]));
            let Some(metric) = next.min() else { break };
            for (chunk, left) in chunks.iter().zip(&mut left) {
                if let Some(place) = left.next_if(|place| chunk.metrics[*place] == metric) {
                    chunk.each_record(place, |position, measures, points| {
                        builder.record(position, measures, points);
                    });
                }
            }
            builder.end(metric);
        }
        builder.finish()
    }

    fn is_empty(&self) -> bool {
        self.metrics_left == 0
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.metrics.len() * (size_of::<MetricId>() + size_of::<u32>() + size_of::<bool>())
    }

    /// The places of what is left.
    fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.metrics.len()).filter(|place| !self.is_removed[*place])
    }

    fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.places().map(|place| self.metrics[place])
    }

    /// The metric's place at `from` or behind, if it is left; moves `from` there.
    fn find(&self, metric: MetricId, from: &mut usize) -> Option<usize> {
        let found = self.metrics[*from..].binary_search(&metric);
        *from += found.unwrap_or_else(|place| place);
        (found.is_ok() && !self.is_removed[*from]).then_some(*from)
    }

    fn push_records(&self, place: usize, records: &mut Vec<Record>) {
        let metric = self.metrics[place];
        self.each_record(place, |position, measures, points| {
            let points = self.bytes.slice_ref(points);
            records.push(Record { position: Position(position), metric, measures: measures as u32, points });
        });
    }

    fn each_record(&self, place: usize, mut each: impl FnMut(u64, u64, &[u8])) {
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        let mut reader = Reader(&self.bytes[start..self.ends[place] as usize]);
        while !reader.0.is_empty() {
            let mut number = || reader.varint().expect("our own bytes");
            let (position, measures, length) = (number(), number(), number());
            let points = reader.take(length as usize).expect("our own bytes");
            each(self.first + position, measures, points);
        }
    }
}

#[derive(Default)]
struct Builder {
    metrics: Vec<MetricId>,
    ends: Vec<u32>,
    records: usize,
    first: u64,
    bytes: Vec<u8>,
}

impl Builder {
    fn record(&mut self, position: u64, measures: u64, points: &[u8]) {
        put_varint(position - self.first, &mut self.bytes);
        put_varint(measures, &mut self.bytes);
        put_varint(points.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(points);
        self.records += 1;
    }

    /// Ends the records of a metric.
    fn end(&mut self, metric: MetricId) {
        self.metrics.push(metric);
        self.ends.push(u32::try_from(self.bytes.len()).expect("folded before it has 4 GiB"));
    }

    fn finish(self) -> Chunk {
        let Builder { mut metrics, mut ends, records, first, mut bytes } = self;
        metrics.shrink_to_fit();
        ends.shrink_to_fit();
        bytes.shrink_to_fit();
        let metrics_left = metrics.len();
        let is_removed = vec![false; metrics_left];
        Chunk { metrics, ends, is_removed, metrics_left, records, first, bytes: bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::Measure;
    use gnudi_series::points;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn metric(number: u8) -> MetricId {
        MetricId(Uuid::from_u128(u128::from(number)))
    }

    fn record(number: u8, position: u64) -> Record {
        let mut bytes = Vec::new();
        let timestamp = gnudi_model::Timestamp(position as i64 * 1_000);
        points::encode(&[Measure { timestamp, value: f64::from(number) }], &mut bytes);
        Record { position: Position(position), metric: metric(number), measures: 1, points: bytes.into() }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(Vec<u8>),
        Seal,
        FoldNext(usize),
        Fold(Vec<u8>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let metrics = || prop::collection::vec(0..12_u8, 0..30);
        prop_oneof![
            4 => metrics().prop_map(Step::Add),
            1 => Just(Step::Seal),
            2 => (1..5_usize).prop_map(Step::FoldNext),
            2 => metrics().prop_map(Step::Fold),
        ]
    }

    proptest! {
        /// Nothing is lost or repeated, and each metric's records come in the order in which they were added.
        #[test]
        fn records_come_back_as_from_a_map(steps in prop::collection::vec(step(), 0..60)) {
            let mut deferred = Deferred::default();
            let mut model: BTreeMap<MetricId, Vec<Record>> = BTreeMap::new();
            let mut position = 1 << 40;
            for step in steps {
                match step {
                    Step::Add(mut numbers) => {
                        numbers.sort_unstable();
                        let mut records = Vec::new();
                        for number in numbers {
                            position += 1;
                            records.push(record(number, position));
                        }
                        for record in &records {
                            model.entry(record.metric).or_default().push(record.clone());
                        }
                        deferred.add(&records);
                    }
                    Step::Seal => deferred.seal(),
                    Step::FoldNext(count) => {
                        let records = deferred.next(count);
                        let mut metrics: Vec<MetricId> = records.iter().map(|record| record.metric).collect();
                        metrics.dedup();
                        prop_assert!(metrics.len() <= count);
                        let expected: Vec<Record> =
                            metrics.iter().flat_map(|metric| model.remove(metric).unwrap()).collect();
                        prop_assert_eq!(records, expected);
                        deferred.remove(&metrics);
                    }
                    Step::Fold(numbers) => {
                        let mut metrics: Vec<MetricId> = numbers.into_iter().map(metric).collect();
                        metrics.sort_unstable();
                        metrics.dedup();
                        let expected: Vec<Record> =
                            metrics.iter().flat_map(|metric| model.remove(metric).unwrap_or_default()).collect();
                        prop_assert_eq!(deferred.of(&metrics), expected);
                        deferred.remove(&metrics);
                    }
                }
                prop_assert_eq!(deferred.is_empty(), model.is_empty());
                prop_assert_eq!(deferred.gauge().get().bytes == 0, model.is_empty());
            }
            deferred.seal();
            let left: Vec<Record> = model.into_values().flatten().collect();
            prop_assert_eq!(deferred.next(usize::MAX), left);
        }
    }

    #[test]
    fn a_share_may_be_exceeded_while_metrics_have_few_measures() {
        const UNITS: usize = BYTES_MAX >> 12;
        let mut deferred = Deferred::default();
        let all: Vec<Record> = (0..100).map(|number| record(number, 1)).collect();
        let mut rounds = 0;
        while !deferred.is_full(UNITS, 0) {
            deferred.add(&all);
            rounds += 1;
        }
        // Beyond 4 KiB from two on, but with six records each.
        assert_eq!(rounds, RECORDS_A_METRIC);
        assert!(!deferred.is_full(1, 0) && deferred.is_full(1, EXCESS_MAX * BYTES_MAX));
    }
}

//! One granularity of a head: its open block, and its buckets inside the raw window, computed on read.

use std::borrow::Cow;

use gnudi_model::{Aggregation, AggregationMethod, Measure, Statistic, Timespan, Timestamp};

use super::{
    SealedBlock,
    compose::{Composite, Partial},
    marks::Marks,
};
use crate::{
    Result,
    aggregate::{Bucket, Workspace},
    block, counter,
    layout::floor,
    read::Fetched,
    rows::{Rows, is_absent, may_lack},
};

/// An open block is sealed at this many rows: the minutes that become final at the end of an hour are sealed
/// at once. Policy medium, a point every 10 s, `examples/speed.rs`: sealing at 60 rows, passes process heads
/// of 2.4 kB on average and seal 24 blocks of 2.0 kB a day; at 64 it is 3.4 kB and 12 blocks, at 128 4.4 kB
/// and 8 blocks. Reading 43,200 buckets takes 2.1 ns a bucket from blocks of 180 rows, 3.0 from 120, 4.4 from
/// 60.
pub(super) const SEAL_ROWS: usize = 60;

/// The most rows in a sealed block. If a request adds many buckets at once, a read of a few of them should
/// not fetch all.
pub(super) const BLOCK_ROWS: usize = 1024;

/// The final rows that are not sealed yet.
#[derive(Clone, Debug)]
pub(super) enum Open {
    /// As stored: most passes do not decode them.
    Packed {
        bytes: Vec<u8>,
        extent: block::Extent,
    },
    Rows(Rows),
}

impl Default for Open {
    fn default() -> Self {
        Open::Rows(Rows::default())
    }
}

impl Open {
    pub fn len(&self) -> usize {
        match self {
            Open::Packed { extent, .. } => extent.rows,
            Open::Rows(rows) => rows.len(),
        }
    }

    /// The start of the last bucket.
    pub fn last(&self) -> Option<Timestamp> {
        match self {
            Open::Packed { extent, .. } => Some(extent.last),
            Open::Rows(rows) => rows.starts.last().copied(),
        }
    }

    /// The start of the first bucket.
    pub fn first(&self) -> Option<Timestamp> {
        match self {
            Open::Packed { extent, .. } => Some(extent.first),
            Open::Rows(rows) => rows.starts.first().copied(),
        }
    }
}

/// Buffers that are reused by each fold.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    points: Workspace,
    rates: Workspace,
}

/// The points from which buckets are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Points<'a> {
    pub raw: &'a [Measure],
    /// The point before them.
    pub before: Option<Measure>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct GrainState {
    pub granularity: Timespan,
    /// Buckets that start before this are final: sealed, open, or expired before they were ever stored.
    pub final_until: i64,
    /// Buckets that start before this have expired and are hidden, or the granularity did not exist then.
    pub kept_from: i64,
    /// The end of the last bucket that may have had points but left no row, or a row without some of them; 0
    /// without one. Other granularities are composed, and late points added, from here on.
    pub gap_until: i64,
    pub open: Open,
    pub marks: Marks,
    /// Not stored: values to add to final buckets, by start, in order of arrival; see [`super::late_update`].
    pub late: Vec<(Timestamp, f64)>,
    /// The bucket at `final_until`, if its first points are not in the head; `open` is then empty.
    pub partial: Option<Partial>,
}

impl GrainState {
    pub fn new(granularity: Timespan, final_until: i64) -> Self {
        GrainState { granularity, final_until, ..Self::default() }
    }

    /// Finalises the buckets before `until`, the start of a bucket.
    pub fn finalise(
        &mut self,
        points: Points<'_>,
        methods: &[AggregationMethod],
        until: i64,
        buffers: &mut Buffers,
        sealed: &mut Vec<SealedBlock>,
    ) {
        if until <= self.final_until {
            return;
        }
        if let Some(partial) = self.partial.take() {
            let composite =
                self.completed(&partial, points.raw).sealed(self.granularity, partial.start, methods);
            self.final_until = self.partial_end(&partial);
            if composite.is_none() {
                self.gap_until = self.final_until;
            }
            sealed.extend(composite);
        }
        let first = points.raw.partition_point(|point| point.timestamp.0 < self.final_until);
        if points.raw.get(first).is_some_and(|point| point.timestamp.0 < until) {
            let mut rows = self.take_rows(methods, sealed);
            if let Some(dropped) = self.push_lazy(points, methods, until, buffers, &mut rows) {
                self.gap_until = dropped.0.saturating_add(self.granularity.0);
            }
            self.open = Open::Rows(rows);
        }
        self.final_until = until;
    }

    /// Appends the buckets from `final_until` to `until` (a bucket's start, or the end of time), computed from the points.
    /// Returns the last bucket that leaves no row because none of its methods has a value.
    pub(super) fn push_lazy(
        &self,
        points: Points<'_>,
        methods: &[AggregationMethod],
        until: i64,
        buffers: &mut Buffers,
        rows: &mut Rows,
    ) -> Option<Timestamp> {
        let first = points.raw.partition_point(|point| point.timestamp.0 < self.final_until);
        let before = rows.len();
        let Buffers { points: plain, rates } = buffers;
        self.cut_into_buckets(&points.raw[first..], until, plain);
        rows.reserve(plain.buckets.len());
        rows.starts.extend(plain.buckets.iter().map(|bucket| Timestamp(bucket.start)));
        let split = methods.partition_point(|method| !method.rate);
        let (methods_of_points, differences) = methods.split_at(split);
        let (plain_columns, columns) = rows.columns.split_at_mut(split);
        let split = differences.partition_point(|method| !method.is_counter());
        let (methods_of_rates, counters) = differences.split_at(split);
        let (rate_columns, counter_columns) = columns.split_at_mut(split);
        if !rate_columns.is_empty() {
            self.rates(points, first, &plain.buckets, rates);
            rates.push_columns(methods_of_rates, rate_columns);
            self.restore_stds(points.raw, first, &plain.buckets, rates, methods_of_rates, rate_columns);
        }
        if !counter_columns.is_empty() {
            counter::push_columns(
                points.raw,
                points.before,
                first,
                &plain.buckets,
                counters,
                counter_columns,
            );
        }
        if !self.marks.passes.is_empty() {
            for bucket in &mut plain.buckets {
                bucket.offset = self.marks.offset(points.raw, first + bucket.from, bucket.start);
            }
        }
        plain.push_columns(methods_of_points, plain_columns);
        if methods.iter().all(|&method| may_lack(method)) { rows.drop_empty(before) } else { None }
    }

    /// The head contains all points from here on of the buckets that are not final.
    pub fn points_from(&self) -> i64 {
        self.partial.map_or(self.final_until, |partial| partial.until)
    }

    /// Every bucket with points from here on is stored.
    pub fn whole_from(&self) -> i64 {
        self.kept_from.max(self.gap_until)
    }

    /// Records a late point that other granularities count, if its final bucket here is older than `oldest`: the bucket
    /// does not get it.
    pub(super) fn note_late_gap(&mut self, time: Timestamp, oldest: i64) {
        let start = floor(time.0, self.granularity.0);
        if (self.kept_from..oldest.min(self.final_until)).contains(&start) {
            self.gap_until = self.gap_until.max(start.saturating_add(self.granularity.0));
        }
    }

    fn partial_end(&self, partial: &Partial) -> i64 {
        partial.start.saturating_add(self.granularity.0)
    }

    /// A partial bucket including its later points.
    fn completed(&self, partial: &Partial, raw: &[Measure]) -> Composite {
        let after = |time| raw.partition_point(|point| point.timestamp.0 < time);
        let later = &raw[after(partial.until)..after(self.partial_end(partial))];
        let mut composite = partial.composite;
        if !later.is_empty() {
            composite.extend(&Composite::of_values(later.iter().map(|point| point.value).collect()));
        }
        composite
    }

    /// The buckets that are not final.
    pub fn lazy_rows(
        &self,
        points: Points<'_>,
        methods: &[AggregationMethod],
        buffers: &mut Buffers,
    ) -> Rows {
        let mut rows = Rows::new(methods.len());
        self.push_lazy(points, methods, i64::MAX, buffers, &mut rows);
        rows
    }

    fn cut_into_buckets(&self, raw: &[Measure], until: i64, into: &mut Workspace) {
        into.clear();
        let step = self.granularity.0;
        // By its last nanosecond: the last bucket of all ends beyond the range of time.
        let (mut start, mut last, mut from) = (-step, -1, 0);
        for (index, point) in raw.iter().enumerate() {
            let time = point.timestamp.0;
            if time > last {
                if index > from {
                    into.buckets.push(Bucket { start, from, to: index, offset: 0 });
                }
                if time >= until && until < i64::MAX {
                    return;
                }
                // Usually the next bucket follows directly; this saves a division.
                start = if time - 1 - last < step { last + 1 } else { floor(time, step) };
                last = start.saturating_add(step - 1);
                from = index;
            }
            into.values.push(point.value);
        }
        if raw.len() > from {
            into.buckets.push(Bucket { start, from, to: raw.len(), offset: 0 });
        }
    }

    /// The rates of the points in `buckets`, whose ranges count from `first`: each point's difference from
    /// the one before it. A cut removes the first one's rate, or replaces it by the recorded one.
    fn rates(&self, points: Points<'_>, first: usize, buckets: &[Bucket], into: &mut Workspace) {
        into.clear();
        let raw = points.raw;
        for bucket in buckets {
            let (begin, end) = (first + bucket.from, first + bucket.to);
            let from = into.values.len();
            let previous = if begin > 0 { Some(raw[begin - 1]) } else { points.before };
            match (self.marks.cut_at(raw[begin].timestamp.0), previous) {
                (Some(cut), _) => into.values.extend(cut.rate.filter(|_| end - begin == 1)),
                (None, Some(previous)) => into.values.push(raw[begin].value - previous.value),
                (None, None) => {}
            }
            into.values.extend(raw[begin..end].windows(2).map(|pair| pair[1].value - pair[0].value));
            let offset = self.marks.rate_offset(raw, begin, bucket.start);
            into.buckets.push(Bucket { start: bucket.start, from, to: into.values.len(), offset });
        }
    }

    /// Restores the stds that cuts recorded.
    fn restore_stds(
        &self,
        raw: &[Measure],
        first: usize,
        buckets: &[Bucket],
        rates: &Workspace,
        methods: &[AggregationMethod],
        columns: &mut [Vec<f64>],
    ) {
        let std = methods.iter().position(|method| method.statistic == Statistic::Std);
        let (Some(std), false) = (std, self.marks.cuts.is_empty()) else { return };
        let before = columns[std].len() - buckets.len();
        for (index, (bucket, rated)) in buckets.iter().zip(&rates.buckets).enumerate() {
            let cut = self.marks.cut_at(raw[first + bucket.from].timestamp.0);
            if let (Some(std_before), 1) = (cut.and_then(|cut| cut.std), rated.to - rated.from) {
                columns[std][before + index] = std_before;
            }
        }
    }

    pub fn is_full(&self) -> bool {
        self.open.len() >= SEAL_ROWS
    }

    /// Seals the open rows in blocks; drops expired ones.
    pub fn seal(&mut self, methods: &[AggregationMethod], out: &mut Vec<SealedBlock>) {
        let mut rows = self.take_rows(methods, out);
        rows.drop_before(Timestamp(self.kept_from));
        out.extend(cut_into_blocks(self.granularity, methods, &rows, BLOCK_ROWS));
    }

    /// Removes and returns all open rows. A stored open block that lacks some of these methods is sealed as
    /// it is.
    pub(super) fn take_rows(&mut self, methods: &[AggregationMethod], sealed: &mut Vec<SealedBlock>) -> Rows {
        let (bytes, extent) = match std::mem::take(&mut self.open) {
            Open::Rows(rows) if rows.columns.len() == methods.len() => return rows,
            Open::Rows(_) => return Rows::new(methods.len()),
            Open::Packed { bytes, extent } => (bytes, extent),
        };
        if let Ok(Some(rows)) = block::decode_rows(&bytes, methods) {
            return rows;
        }
        sealed.push(as_sealed(bytes, extent));
        Rows::new(methods.len())
    }

    /// Seals the stored open block as it is if it lacks some of these methods.
    pub(super) fn seal_other_methods(
        &mut self,
        methods: &[AggregationMethod],
        sealed: &mut Vec<SealedBlock>,
    ) {
        if let Open::Packed { bytes, .. } = &self.open
            && !matches!(block::decode_rows(bytes, methods), Ok(Some(_)))
            && let Open::Packed { bytes, extent } = std::mem::take(&mut self.open)
        {
            sealed.push(as_sealed(bytes, extent));
        }
    }

    /// Adds the open rows to `fetched`.
    pub fn add_open(
        &self,
        methods: &[AggregationMethod],
        aggregation: Aggregation,
        fetched: &mut Fetched,
    ) -> Result<()> {
        let rows = match &self.open {
            Open::Packed { bytes, extent } => {
                return fetched.add_block(aggregation, extent.last, bytes);
            }
            Open::Rows(rows) => rows,
        };
        let column =
            methods.iter().position(|&method| method == aggregation.method).expect("checked by the caller");
        for (row, &start) in rows.starts.iter().enumerate() {
            let value = rows.columns[column][row];
            let lacks = may_lack(aggregation.method) && is_absent(value);
            fetched.add_row(start, (!lacks).then_some(value));
        }
        Ok(())
    }

    /// Adds the buckets that are not final to `fetched`.
    pub fn add_lazy(&self, points: Points<'_>, method: AggregationMethod, fetched: &mut Fetched) {
        if let Some(partial) = &self.partial {
            let value = self.completed(partial, points.raw).value(method);
            fetched.add_row(Timestamp(partial.start), value);
            let rest = GrainState {
                marks: self.marks.clone(),
                ..GrainState::new(self.granularity, self.partial_end(partial))
            };
            return rest.add_lazy(points, method, fetched);
        }
        let rows = self.lazy_rows(points, &[method], &mut Buffers::default());
        fetched.reserve(rows.len());
        for (&start, &value) in rows.starts.iter().zip(&rows.columns[0]) {
            let lacks = may_lack(method) && is_absent(value);
            fetched.add_row(start, (!lacks).then_some(value));
        }
    }
}

/// Converts a stored open block to a sealed one.
fn as_sealed(bytes: Vec<u8>, extent: block::Extent) -> SealedBlock {
    let block::Extent { granularity, first, last, .. } = extent;
    SealedBlock { granularity, first, last, bytes }
}

/// Splits rows into blocks of `size` rows.
fn cut_into_blocks<'a>(
    granularity: Timespan,
    methods: &'a [AggregationMethod],
    rows: &'a Rows,
    size: usize,
) -> impl Iterator<Item = SealedBlock> + 'a {
    (0..rows.len()).step_by(size).map(move |from| {
        let to = (from + size).min(rows.len());
        let mut bytes = Vec::new();
        block::encode(granularity, methods, rows, from..to, &mut bytes);
        SealedBlock { granularity, first: rows.starts[from], last: rows.starts[to - 1], bytes }
    })
}

/// Splits rows into blocks of about equal size.
pub(super) fn blocks_of_rows<'a>(
    granularity: Timespan,
    methods: &'a [AggregationMethod],
    rows: &'a Rows,
) -> impl Iterator<Item = SealedBlock> + 'a {
    let blocks = rows.len().div_ceil(BLOCK_ROWS).max(1);
    cut_into_blocks(granularity, methods, rows, rows.len().div_ceil(blocks).max(1))
}

/// The points that count in aggregates: all but end markers, which only policies with raw points have.
pub(super) fn aggregated(points: &[Measure], may_have_markers: bool) -> Cow<'_, [Measure]> {
    if may_have_markers && points.iter().any(Measure::is_end_marker) {
        points.iter().filter(|point| !point.is_end_marker()).copied().collect()
    } else {
        Cow::Borrowed(points)
    }
}

//! One granularity of a head: its open block, and its buckets inside the raw window, which are computed when asked for.

use gnudi_model::{Aggregation, AggregationMethod, Measure, Statistic, Timespan, Timestamp};

use super::{
    SealedBlock,
    marks::{Cut, Marks},
};
use crate::{
    CodecError,
    aggregate::{Scratch, push_row},
    block,
    layout::floor,
    read::Fetched,
    rows::{Rows, absent, is_absent, may_lack},
};

/// An open block is sealed at this many rows. Fewer would make more and smaller objects to store and to read, more would
/// make every pass carry them: see the figures in `examples/speed.rs`.
pub(super) const SEAL_ROWS: usize = 64;

/// A sealed block has at most so many rows: where a request brings many buckets at once, a reader of a few of them
/// should not have to fetch all.
pub(super) const BLOCK_ROWS: usize = 1024;

/// The final rows that wait to be sealed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Open {
    /// As stored: most passes only carry them along.
    Packed {
        bytes: Vec<u8>,
        rows: usize,
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
            Open::Packed { rows, .. } => *rows,
            Open::Rows(rows) => rows.len(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GrainState {
    pub granularity: Timespan,
    /// Buckets that start before this are final: sealed, open, or expired before they were ever stored.
    pub final_until: i64,
    /// Buckets that start before this have expired and are hidden.
    pub kept_from: i64,
    pub open: Open,
    pub marks: Marks,
}

impl GrainState {
    pub fn new(granularity: Timespan, final_until: i64) -> Self {
        GrainState { granularity, final_until, ..Self::default() }
    }

    /// Finalises the buckets before `until`, the start of a bucket.
    pub fn finalise(
        &mut self,
        raw: &[Measure],
        before: Option<Measure>,
        methods: &[AggregationMethod],
        until: i64,
        sealed: &mut Vec<SealedBlock>,
    ) {
        if until <= self.final_until {
            return;
        }
        let first = raw.partition_point(|point| point.timestamp.0 < self.final_until);
        if raw.get(first).is_some_and(|point| point.timestamp.0 < until) {
            let mut rows = self.take_rows(methods, sealed);
            self.push_lazy(raw, before, methods, until, &mut rows);
            self.open = Open::Rows(rows);
        }
        self.final_until = until;
    }

    /// Appends the buckets from `final_until` to `until` (the start of a bucket), computed from the raw points.
    fn push_lazy(
        &self,
        raw: &[Measure],
        before: Option<Measure>,
        methods: &[AggregationMethod],
        until: i64,
        out: &mut Rows,
    ) {
        let (plain, rates) = methods.split_at(methods.partition_point(|method| !method.rate));
        let needs_check = methods.iter().all(|&method| may_lack(method));
        let mut scratch = Scratch::default();
        let mut differences = Vec::new();
        let mut from = raw.partition_point(|point| point.timestamp.0 < self.final_until);
        let step = self.granularity.0;
        let mut bucket = -step;
        while from < raw.len() && raw[from].timestamp.0 < until {
            let time = raw[from].timestamp.0;
            // The next bucket mostly follows at once, which saves a division.
            bucket = match bucket.saturating_add(step) {
                next if time >= next && time - next < step => next,
                _ => floor(time, step),
            };
            let end = bucket.saturating_add(step);
            let mut to = from + 1;
            while to < raw.len() && raw[to].timestamp.0 < end {
                to += 1;
            }
            let row = out.values.len();
            if !plain.is_empty() {
                let offset = self.marks.offset(raw, from, bucket);
                let values = raw[from..to].iter().map(|point| point.value);
                push_row(values, plain, offset, &mut scratch, &mut out.values);
            }
            if !rates.is_empty() {
                let cut = self.marks.cut_at(raw[from].timestamp.0);
                differences.clear();
                rates_of(raw, before, from..to, cut, &mut differences);
                let offset = self.marks.rate_offset(raw, from, bucket);
                push_rates(&differences, cut, rates, offset, &mut scratch, &mut out.values);
            }
            if needs_check && out.values[row..].iter().all(|&value| is_absent(value)) {
                out.values.truncate(row);
            } else {
                out.starts.push(bucket);
            }
            from = to;
        }
    }

    pub fn is_full(&self) -> bool {
        self.open.len() >= SEAL_ROWS
    }

    /// Moves the open rows out, cut into blocks; expired ones are dropped.
    pub fn seal(&mut self, methods: &[AggregationMethod], out: &mut Vec<SealedBlock>) {
        let mut rows = self.take_rows(methods, out);
        rows.drop_before(self.kept_from);
        let mut from = 0;
        while from < rows.len() {
            let to = (from + BLOCK_ROWS).min(rows.len());
            let mut bytes = Vec::new();
            block::encode(self.granularity, methods, &rows, from..to, &mut bytes);
            out.push(SealedBlock {
                granularity: self.granularity,
                first: Timestamp(rows.starts[from]),
                last: Timestamp(rows.starts[to - 1]),
                bytes,
            });
            from = to;
        }
    }

    /// All open rows, which leave the grain. A stored open block that is not of these methods, which no policy change
    /// makes, is sealed as it is.
    fn take_rows(&mut self, methods: &[AggregationMethod], sealed: &mut Vec<SealedBlock>) -> Rows {
        let bytes = match std::mem::take(&mut self.open) {
            Open::Rows(rows) => return rows,
            Open::Packed { bytes, .. } => bytes,
        };
        match (block::decode_rows(&bytes, methods), block::extent(&bytes)) {
            (Ok(Some(rows)), _) => return rows,
            (_, Ok(block::Extent { first, last, .. })) => {
                sealed.push(SealedBlock { granularity: self.granularity, first, last, bytes });
            }
            (_, Err(error)) => unreachable!("checked when the head was decoded: {error}"),
        }
        Rows::default()
    }

    /// Hands the open rows to a reader.
    pub fn add_open(
        &self,
        methods: &[AggregationMethod],
        aggregation: Aggregation,
        fetched: &mut Fetched,
    ) -> Result<(), CodecError> {
        let rows = match &self.open {
            Open::Packed { bytes, .. } => {
                return fetched.add_block(aggregation, block::extent(bytes)?.last, bytes);
            }
            Open::Rows(rows) => rows,
        };
        let column =
            methods.iter().position(|&method| method == aggregation.method).expect("checked by the caller");
        for (row, &start) in rows.starts.iter().enumerate() {
            let value = rows.values[row * methods.len() + column];
            let lacks = may_lack(aggregation.method) && is_absent(value);
            fetched.add_row(Timestamp(start), (!lacks).then_some(value));
        }
        Ok(())
    }

    /// Hands the buckets that are not final to a reader.
    pub fn add_lazy(
        &self,
        raw: &[Measure],
        before: Option<Measure>,
        method: AggregationMethod,
        fetched: &mut Fetched,
    ) {
        let mut rows = Rows::default();
        self.push_lazy(raw, before, &[method], i64::MAX, &mut rows);
        for (&start, &value) in rows.starts.iter().zip(&rows.values) {
            let lacks = may_lack(method) && is_absent(value);
            fetched.add_row(Timestamp(start), (!lacks).then_some(value));
        }
    }
}

/// Appends the rates of the points `range`: each one's difference from the point before it. A cut takes the first one's.
fn rates_of(
    raw: &[Measure],
    before: Option<Measure>,
    range: std::ops::Range<usize>,
    cut: Option<&Cut>,
    out: &mut Vec<f64>,
) {
    let first = range.start;
    let previous = if first > 0 { Some(raw[first - 1]) } else { before };
    if let (None, Some(previous)) = (cut, previous) {
        out.push(raw[first].value - previous.value);
    }
    out.extend(raw[range].windows(2).map(|pair| pair[1].value - pair[0].value));
}

/// Appends one value for each rate method: of the differences, or of what a cut remembers of them.
fn push_rates(
    differences: &[f64],
    cut: Option<&Cut>,
    methods: &[AggregationMethod],
    offset: u64,
    scratch: &mut Scratch,
    out: &mut Vec<f64>,
) {
    let row = out.len();
    let kept;
    let differences = match (differences, cut.and_then(|cut| cut.rate)) {
        ([], Some(rate)) => {
            kept = [rate];
            &kept
        }
        _ => differences,
    };
    if differences.is_empty() {
        out.resize(row + methods.len(), absent());
        return;
    }
    push_row(differences.iter().copied(), methods, offset, scratch, out);
    if let (1, Some(std)) = (differences.len(), cut.and_then(|cut| cut.std)) {
        for (method, value) in methods.iter().zip(&mut out[row..]) {
            if method.statistic == Statistic::Std {
                *value = std;
            }
        }
    }
}

//! Collects rows as measures, and groups the measures by metric.

use std::ops::Range;

use gnudi_model::{Measure, Timestamp};

use super::{
    ReadError, ReadLimits, Result,
    columns::{Columns, Numbers},
    distinct::Numbered,
    schema::{Number, Role},
};

/// A row's metric: the codes of its resource and its name, or the code of its id and 0.
pub type Key = (u32, u32);

/// All integers up to this are exact doubles.
const EXACT_MAX: u64 = 1 << 53;

/// Consecutive rows of one metric: from row `from` to that of the next run. It may span record batches.
struct Run {
    metric: u32,
    from: u32,
}

/// Notes per metric.
const NOTES: usize = 2;

/// A metric's notes: the codes of optional texts, each from the metric's first row that has one.
pub type Notes = [Option<u32>; NOTES];

/// The rows so far: the measures, and the metric of each.
pub struct Rows<'o> {
    out: &'o mut Vec<Measure>,
    metrics: Numbered<Key>,
    notes: Vec<Notes>,
    runs: Vec<Run>,
}

impl<'o> Rows<'o> {
    /// Clears `out` first.
    pub fn new(limits: &ReadLimits, out: &'o mut Vec<Measure>) -> Self {
        out.clear();
        Rows { out, metrics: Numbered::new(limits.metrics_max), notes: Vec::new(), runs: Vec::new() }
    }

    /// The number of rows so far.
    pub fn count(&self) -> usize {
        self.out.len()
    }

    /// Appends the rows of a record batch; `key` maps a row to its metric.
    pub fn append(&mut self, columns: &Columns<'_, '_>, key: impl Fn(usize) -> Result<Key>) -> Result<()> {
        let from = self.out.len();
        self.append_measures(columns)?;
        let mut last = self.runs.last().map(|run| self.metrics.values[run.metric as usize]);
        for row in 0..columns.rows {
            let key = key(row)?;
            if last == Some(key) {
                continue;
            }
            let metric = self.metrics.code(&key, || {
                self.notes.push(Notes::default());
                key
            })?;
            self.runs.push(Run { metric, from: (from + row) as u32 });
            last = Some(key);
        }
        Ok(())
    }

    fn append_measures(&mut self, columns: &Columns<'_, '_>) -> Result<()> {
        let (unit, bytes) = columns.times()?;
        let times =
            || bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight")));
        let (first, last) =
            times().fold((0, 0), |(first, last): (i64, i64), time| (first.min(time), last.max(time)));
        if first < 0 || last > i64::MAX / unit {
            let (row, time) =
                times().enumerate().find(|(_, time)| *time < 0 || *time > i64::MAX / unit).expect("one is");
            let what = if time < 0 { "before 1970" } else { "after 2262" };
            return Err(ReadError::Malformed(format!(
                "Column '{}' has a time {what} in row {row} of its record batch",
                Role::Timestamp.name()
            )));
        }
        let times = times().map(|time| Timestamp(time * unit));
        let Numbers { number, bytes } = columns.values()?;
        macro_rules! extend {
            ($type:ty, $value:expr) => {{
                let (values, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                let values = values.iter().map(|bytes| $value(<$type>::from_le_bytes(*bytes)));
                self.out.extend(times.zip(values).map(|(timestamp, value)| Measure { timestamp, value }));
            }};
        }
        match number {
            Number::F64 => extend!(f64, |value| value),
            Number::F32 => extend!(f32, f64::from),
            Number::I8 => extend!(i8, f64::from),
            Number::I16 => extend!(i16, f64::from),
            Number::I32 => extend!(i32, f64::from),
            Number::U8 => extend!(u8, f64::from),
            Number::U16 => extend!(u16, f64::from),
            Number::U32 => extend!(u32, f64::from),
            Number::I64 => {
                refuse_inexact(bytes, |bytes| i64::from_le_bytes(bytes).unsigned_abs())?;
                extend!(i64, |value| value as f64);
            }
            Number::U64 => {
                refuse_inexact(bytes, u64::from_le_bytes)?;
                extend!(u64, |value| value as f64);
            }
        }
        Ok(())
    }

    /// Stores each metric's first note, among the rows from `from` on; `code` maps a row to its note.
    pub fn note_first(&mut self, from: usize, note: usize, code: impl Fn(usize) -> Option<u32>) {
        let first_run = self.runs.partition_point(|run| (run.from as usize) <= from).saturating_sub(1);
        for (index, run) in self.runs.iter().enumerate().skip(first_run) {
            let end = self.runs.get(index + 1).map_or(self.out.len(), |next| next.from as usize);
            let noted = &mut self.notes[run.metric as usize][note];
            if noted.is_none() {
                *noted = (from.max(run.from as usize)..end).find_map(|row| code(row - from));
            }
        }
    }

    /// Groups the measures by metric, in row order. Returns the metrics in the order of their first rows, each with its
    /// notes and the range of its measures.
    pub fn finish(self) -> impl Iterator<Item = (Key, Notes, Range<usize>)> {
        let metrics = self.metrics.values;
        let mut ranges = vec![0..0; metrics.len()];
        let ends = self.runs.iter().skip(1).map(|run| run.from as usize).chain([self.out.len()]);
        let runs = self.runs.iter().zip(ends).map(|(run, end)| (run.metric as usize, run.from as usize..end));
        if self.runs.len() == metrics.len() {
            for (metric, range) in runs {
                ranges[metric] = range;
            }
        } else {
            let mut counts = vec![0; metrics.len()];
            for (metric, range) in runs.clone() {
                counts[metric] += range.len();
            }
            let mut from = 0;
            for (range, count) in ranges.iter_mut().zip(counts) {
                *range = from..from;
                from += count;
            }
            let unset = Measure { timestamp: Timestamp::EPOCH, value: 0.0 };
            let mut sorted = vec![unset; self.out.len()];
            for (metric, range) in runs {
                let to = ranges[metric].end;
                sorted[to..to + range.len()].copy_from_slice(&self.out[range.clone()]);
                ranges[metric].end = to + range.len();
            }
            *self.out = sorted;
        }
        metrics.into_iter().zip(self.notes).zip(ranges).map(|((key, notes), range)| (key, notes, range))
    }
}

/// Refuses integers that are not exact doubles.
fn refuse_inexact(bytes: &[u8], magnitude: impl Fn([u8; 8]) -> u64) -> Result<()> {
    let (values, _) = bytes.as_chunks::<8>();
    match values.iter().position(|bytes| magnitude(*bytes) > EXACT_MAX) {
        None => Ok(()),
        Some(row) => Err(ReadError::Malformed(format!(
            "Column '{}' has an integer beyond 2^53 in row {row} of its record batch: cast the column to float64",
            Role::Value.name()
        ))),
    }
}

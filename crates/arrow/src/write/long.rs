//! The long form: a row per point, with its series' keys (dictionary-encoded), its time, its granularity
//! unless omitted, and its value.
//!
//! Long series are written without a copy, as record batches of [`BATCH_ROWS`] points. Short ones are
//! combined to larger batches, since each batch costs the client some work.

use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;

use super::{
    frame::{ColumnBuffers, Frames},
    series::{POINT_BYTES, Series, SeriesSet, VALUE, bytes_of, granularity_field, time_field},
};
use crate::Compression;

/// The maximum number of rows per record batch: 1.5 MiB without keys.
const BATCH_ROWS: usize = 64 << 10;

/// The rest of a series becomes a batch of its own from this many rows on.
const ALONE_ROWS_MIN: usize = 8 << 10;

/// A stream of rows, as an iterator over its pieces.
#[derive(Debug)]
pub struct Long {
    set: SeriesSet,
    /// The next row of the first series.
    row: usize,
    frames: Frames,
    /// A cached granularity column, as long as the longest batch so far.
    granularity: Option<(Option<u64>, ColumnBuffers)>,
}

impl Long {
    pub fn new(set: SeriesSet, compression: Compression) -> Self {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let keys = set.keys.iter().map(|key| Field::new(&key.name, text.clone(), true));
        let granularity = (!set.omits_granularity).then(granularity_field);
        let value = Field::new(VALUE, DataType::Float64, false);
        let fields: Vec<Field> = keys.chain([time_field()]).chain(granularity).chain([value]).collect();
        let schema = Schema::new(fields);
        let mut frames = Frames::new(&schema, compression);
        for (id, key) in set.keys.iter().enumerate() {
            frames.dictionary(id as i64, key.texts.iter().map(String::as_str));
        }
        Long { set, row: 0, frames, granularity: None }
    }

    /// Appends the next batch, or the end.
    fn batch(&mut self) {
        while self.set.series.front().is_some_and(|series| series.len() == self.row) {
            self.pop();
        }
        let Some(series) = self.set.series.front() else { return self.frames.end() };
        let left = series.len() - self.row;
        if left >= ALONE_ROWS_MIN {
            self.slice(left.min(BATCH_ROWS));
        } else {
            self.gather();
        }
    }

    fn pop(&mut self) {
        self.set.series.pop_front();
        self.row = 0;
    }

    /// Appends rows of the first series without a copy.
    fn slice(&mut self, rows: usize) {
        let series = &self.set.series[0];
        let range = self.row * POINT_BYTES..(self.row + rows) * POINT_BYTES;
        let (timestamps, values) = (series.timestamps.slice(range.clone()), series.values.slice(range));
        let mut columns: Vec<ColumnBuffers> =
            series.keys.iter().map(|key| key_column(rows, [(*key, rows)].into_iter())).collect();
        let granularity = series.granularity;
        columns.push(ColumnBuffers::full(timestamps));
        if !self.set.omits_granularity {
            columns.push(self.granularity(granularity, rows));
        }
        columns.push(ColumnBuffers::full(values));
        self.frames.batch(rows, columns);
        self.row += rows;
    }

    /// A column with a constant granularity.
    fn granularity(&mut self, granularity: Option<f64>, rows: usize) -> ColumnBuffers {
        let bits = granularity.map(f64::to_bits);
        if self.granularity.as_ref().is_none_or(|(known, _)| *known != bits) {
            self.granularity = Some((bits, granularity_column([(granularity, BATCH_ROWS)].into_iter())));
        }
        let (_, whole) = self.granularity.as_ref().expect("it was made");
        let mut column = whole.clone();
        column.nulls = column.nulls.min(rows);
        let lengths = [rows.div_ceil(8), rows * POINT_BYTES];
        for (buffer, length) in column.buffers.iter_mut().zip(lengths) {
            buffer.truncate(length);
        }
        column
    }

    /// Appends a batch of several short series.
    fn gather(&mut self) {
        let mut parts: Vec<(Series, usize)> = Vec::new();
        let mut rows = 0;
        let mut is_first = true;
        while let Some(series) = self.set.series.front() {
            let left = series.len() - self.row;
            if !is_first && (left >= ALONE_ROWS_MIN || rows + left > BATCH_ROWS) {
                break;
            }
            is_first = false;
            rows += left;
            let from = self.row;
            parts.extend(self.set.series.pop_front().map(|series| (series, from)));
            self.row = 0;
        }
        let lengths = || parts.iter().map(|(series, from)| series.len() - from);
        let mut columns: Vec<ColumnBuffers> = (0..self.set.keys.len())
            .map(|key| key_column(rows, parts.iter().map(|(series, _)| series.keys[key]).zip(lengths())))
            .collect();
        let joined = |bytes: &dyn Fn(&Series) -> &Bytes| {
            let mut joined = Vec::with_capacity(rows * POINT_BYTES);
            for (series, from) in &parts {
                joined.extend_from_slice(&bytes(series)[from * POINT_BYTES..]);
            }
            ColumnBuffers::full(joined.into())
        };
        columns.push(joined(&|series| &series.timestamps));
        if !self.set.omits_granularity {
            let granularities = parts.iter().map(|(series, _)| series.granularity);
            columns.push(granularity_column(granularities.zip(lengths())));
        }
        columns.push(joined(&|series| &series.values));
        self.frames.batch(rows, columns);
    }
}

/// A key column from runs: key and number of rows.
fn key_column(rows: usize, runs: impl Iterator<Item = (Option<u32>, usize)> + Clone) -> ColumnBuffers {
    let mut data = Vec::with_capacity(rows * 4);
    for (key, count) in runs.clone() {
        let number = (key.unwrap_or_default() as i32).to_le_bytes();
        data.extend(std::iter::repeat_n(number, count).flatten());
    }
    let (nulls, bits) = bitmap(runs.map(|(key, count)| (key.is_some(), count)));
    ColumnBuffers { nulls, buffers: vec![bits, data.into()] }
}

pub(super) fn granularity_column(runs: impl Iterator<Item = (Option<f64>, usize)> + Clone) -> ColumnBuffers {
    let mut data = Vec::new();
    for (granularity, count) in runs.clone() {
        data.resize(data.len() + count, granularity.unwrap_or_default());
    }
    let (nulls, bits) = bitmap(runs.map(|(granularity, count)| (granularity.is_some(), count)));
    ColumnBuffers { nulls, buffers: vec![bits, bytes_of(data)] }
}

/// The number of nulls, and the validity bitmap; the bitmap is empty without nulls.
pub(super) fn bitmap(runs: impl Iterator<Item = (bool, usize)> + Clone) -> (usize, Bytes) {
    let nulls = runs.clone().filter(|(is_there, _)| !is_there).map(|(_, count)| count).sum();
    if nulls == 0 {
        return (0, Bytes::new());
    }
    let mut bits = Vec::new();
    let mut row = 0;
    for (is_there, count) in runs {
        bits.resize((row + count).div_ceil(8), 0);
        if is_there {
            for row in row..row + count {
                bits[row / 8] |= 1 << (row % 8);
            }
        }
        row += count;
    }
    (nulls, bits.into())
}

impl Iterator for Long {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.frames.is_wanting() {
            self.batch();
        }
        self.frames.pop()
    }
}

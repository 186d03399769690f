//! The wide form: a row per granularity and time, and a column per series; null without a point.
//!
//! Of several series with one key and one granularity, such as two granularities resampled to one, each has rows of its own.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;

use super::{
    frame::{ColumnBuffers, Frames},
    long::{bitmap, granularity_column},
    series::{POINT_BYTES, Series, SeriesSet, bytes_of, granularity_field, time_field},
};
use crate::Compression;

/// The maximum number of series columns.
const COLUMNS_MAX: usize = 10_000;

/// The maximum number of cells (rows times columns): 512 MiB.
const CELLS_MAX: usize = 1 << 26;

/// The approximate number of cells per record batch.
const BATCH_CELLS: usize = 128 << 10;

/// The series are too large for a wide table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooWide {
    #[error("The table would have more than {COLUMNS_MAX} columns: request the long form")]
    Columns,
    #[error("The table would have more than {CELLS_MAX} cells: request the long form, or fewer points")]
    Cells,
}

/// The rows of one granularity; further ones of the same granularity have further series of the same keys.
#[derive(Debug)]
struct Part {
    granularity: Option<f64>,
    times: Vec<i64>,
    /// For each column, its series of this granularity and the next row of it.
    series: Vec<Option<(Series, usize)>>,
}

/// A stream of rows, as an iterator over its pieces.
#[derive(Debug)]
pub struct Wide {
    parts: std::vec::IntoIter<Part>,
    part: Option<Part>,
    row: usize,
    columns: usize,
    frames: Frames,
}

impl Wide {
    /// # Errors
    /// If it would be too large.
    pub fn new(mut set: SeriesSet, compression: Compression) -> Result<Self, TooWide> {
        let mut places: HashMap<Vec<Option<u32>>, usize> = HashMap::new();
        let mut names = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        for series in std::mem::take(&mut set.series) {
            let column = *places.entry(series.keys.clone()).or_insert_with(|| {
                names.push(set.name(&series));
                names.len() - 1
            });
            if names.len() > COLUMNS_MAX {
                return Err(TooWide::Columns);
            }
            place(&mut parts, column, series);
        }
        let mut cells = 0_usize;
        for part in &mut parts {
            part.series.resize_with(names.len(), || None);
            part.times = union(part.series.iter().flatten().map(|(series, _)| series));
            cells = cells.saturating_add(part.times.len().saturating_mul(names.len()));
            if cells > CELLS_MAX {
                return Err(TooWide::Cells);
            }
        }
        let series = names.iter().map(|name| Field::new(name, DataType::Float64, true));
        let fields: Vec<Field> = [time_field(), granularity_field()].into_iter().chain(series).collect();
        let frames = Frames::new(&Schema::new(fields), compression);
        let parts = parts.into_iter();
        Ok(Wide { parts, part: None, row: 0, columns: names.len(), frames })
    }

    /// Appends the next batch, or the end.
    fn batch(&mut self) {
        loop {
            if let Some(part) = &mut self.part
                && self.row < part.times.len()
            {
                let rows = (BATCH_CELLS / self.columns.max(1)).max(1).min(part.times.len() - self.row);
                let times = &part.times[self.row..][..rows];
                let mut columns = Vec::with_capacity(self.columns + 2);
                columns.push(ColumnBuffers::full(bytes_of(times.to_vec())));
                columns.push(granularity_column([(part.granularity, rows)].into_iter()));
                columns.extend(part.series.iter_mut().map(|series| cells(series, times)));
                self.frames.batch(rows, columns);
                self.row += rows;
                return;
            }
            self.part = self.parts.next();
            self.row = 0;
            if self.part.is_none() {
                return self.frames.end();
            }
        }
    }
}

/// Appends a series to the first part of its granularity that has none in the column.
fn place(parts: &mut Vec<Part>, column: usize, series: Series) {
    let granularity = series.granularity;
    let mut free = None;
    for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.granularity == granularity) {
        match part.series.get(column).and_then(Option::as_ref) {
            // A metric that was named twice.
            Some((known, _)) if known.timestamps == series.timestamps && known.values == series.values => {
                return;
            }
            Some(_) => {}
            None => {
                free = Some(index);
                break;
            }
        }
    }
    let part = free.unwrap_or_else(|| {
        parts.push(Part { granularity, times: Vec::new(), series: Vec::new() });
        parts.len() - 1
    });
    let columns = &mut parts[part].series;
    columns.resize_with(columns.len().max(column + 1), || None);
    columns[column] = Some((series, 0));
}

/// The sorted union of the series' times.
fn union<'s>(series: impl Iterator<Item = &'s Series>) -> Vec<i64> {
    let mut union: Vec<i64> = Vec::new();
    let mut last: Option<&Bytes> = None;
    let mut sorted_to = 0;
    for series in series {
        let times = &series.timestamps;
        if last.is_some_and(|last| last == times) {
            continue;
        }
        last = Some(times);
        union.extend((0..series.len()).map(|row| series.time(row)));
        // Deduplicate from time to time, to bound the memory.
        if union.len() > 2 * sorted_to {
            union.sort_unstable();
            union.dedup();
            sorted_to = union.len().max(1 << 16);
        }
    }
    union.sort_unstable();
    union.dedup();
    union
}

/// The values of a series at these times.
fn cells(series: &mut Option<(Series, usize)>, times: &[i64]) -> ColumnBuffers {
    let mut values = vec![0.0; times.len()];
    let mut there = vec![false; times.len()];
    if let Some((series, row)) = series {
        for (index, time) in times.iter().enumerate() {
            if *row < series.len() && series.time(*row) == *time {
                let bits = &series.values[*row * POINT_BYTES..][..POINT_BYTES];
                values[index] = f64::from_le_bytes(bits.try_into().expect("eight bytes"));
                there[index] = true;
                *row += 1;
                // Of two points at one time the first counts.
                while *row < series.len() && series.time(*row) <= *time {
                    *row += 1;
                }
            }
        }
    }
    let (nulls, bits) = bitmap(there.into_iter().map(|is_there| (is_there, 1)));
    ColumnBuffers { nulls, buffers: vec![bits, bytes_of(values)] }
}

impl Iterator for Wide {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.frames.is_wanting() {
            self.batch();
        }
        self.frames.pop()
    }
}

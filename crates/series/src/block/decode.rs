//! Decodes blocks from untrusted bytes.

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use super::{DEVIATION, Extent, NONE, QUOTIENT, ROWS_MAX, SAME, SPARSE, VERSION, deviation, version_1};
use crate::{
    CodecError, Result,
    packing::{Reader, checked, unpack},
    rows::{Rows, absent, is_absent, may_lack},
    values,
};

/// The columns from which a method's values are computed.
#[derive(Clone, Copy)]
enum Source {
    Column(usize),
    /// The first divided by the second.
    Quotient(usize, usize),
}

/// What a block says before its columns.
struct Header<'a> {
    version: u8,
    /// Positive.
    granularity: i64,
    /// Positive.
    rows: usize,
    first: i64,
    /// The smallest step from row to row, in granularities; `starts` has the excess of each.
    min_step: u64,
    starts: Reader<'a>,
    width: usize,
}

/// A block with a valid checksum, not decoded yet.
struct Parsed<'a> {
    header: Header<'a>,
    columns: Vec<(u8, &'a [u8])>,
}

impl<'a> Header<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let version = reader.byte()?;
        if !(1..=VERSION).contains(&version) {
            return Err(CodecError::Version(version));
        }
        let rows = reader.count(ROWS_MAX, "number of rows")?;
        let granularity = i64::try_from(reader.varint()?).map_err(|_| CodecError::Invalid("granularity"))?;
        let first = i64::try_from(reader.varint()?).ok().and_then(|first| first.checked_mul(granularity));
        let first = first.ok_or(CodecError::Invalid("first row"))?;
        if rows == 0 || granularity == 0 {
            return Err(CodecError::Invalid("block without rows"));
        }
        let (min_step, width) = if rows > 1 { (reader.varint()?, reader.byte()?) } else { (1, 0) };
        let starts = Reader(reader.take(usize::from(width).saturating_mul(rows - 1))?);
        Ok(Header { version, granularity, rows, first, min_step, starts, width: usize::from(width) })
    }

    /// The step from row to row if all are equal; an error if the last start exceeds the range of time.
    fn even_step(&self) -> Result<Option<i64>> {
        if self.width > 0 || self.min_step == 0 {
            return Ok(None);
        }
        let step =
            self.min_step.checked_mul(self.granularity as u64).and_then(|step| i64::try_from(step).ok());
        let end = step.and_then(|step| step.checked_mul(self.rows as i64 - 1));
        let is_in_range = end.and_then(|end| end.checked_add(self.first)).is_some();
        step.filter(|_| is_in_range).map(Some).ok_or(CodecError::Invalid("row"))
    }

    /// Calls `each` with every start; an error if one exceeds the range of time.
    fn uneven_starts(&self, mut each: impl FnMut(Timestamp)) -> Result<()> {
        let granularity = self.granularity as u64;
        let max = i64::MAX as u64 / granularity;
        let mut index = self.first as u64 / granularity;
        let mut in_range = self.min_step > 0;
        each(Timestamp(self.first));
        unpack(self.width, self.rows - 1, &mut { self.starts }, |above| {
            let next = index.wrapping_add(self.min_step).wrapping_add(above);
            in_range &= next <= max && next > index;
            index = next;
            each(Timestamp(index.wrapping_mul(granularity) as i64));
        })?;
        if in_range { Ok(()) } else { Err(CodecError::Invalid("row")) }
    }

    /// Appends all starts.
    fn push_starts(&self, out: &mut Vec<Timestamp>) -> Result<()> {
        if let Some(step) = self.even_step()? {
            out.extend((0..self.rows as i64).map(|row| Timestamp(self.first + row * step)));
            return Ok(());
        }
        out.reserve(self.rows);
        self.uneven_starts(|start| out.push(start))
    }

    fn extent(&self) -> Result<Extent> {
        let first = Timestamp(self.first);
        let mut last = first;
        match self.even_step()? {
            Some(step) => last.0 += (self.rows as i64 - 1) * step,
            None => self.uneven_starts(|start| last = start)?,
        }
        Ok(Extent { granularity: Timespan(self.granularity), rows: self.rows, first, last })
    }
}

impl<'a> Parsed<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(checked(bytes)?);
        let mut parsed = Parsed { header: Header::read(&mut reader)?, columns: Vec::new() };
        let count = reader.count(usize::from(AggregationMethod::COUNT), "number of columns")?;
        let mut directory = Vec::with_capacity(count);
        for _ in 0..count {
            directory.push((reader.byte()?, reader.count(usize::MAX, "length")?));
        }
        for (code, length) in directory {
            parsed.columns.push((code, reader.take(length)?));
        }
        reader.end()?;
        Ok(parsed)
    }

    fn find(&self, method: AggregationMethod) -> Option<usize> {
        self.columns.iter().position(|(code, _)| *code == method.code())
    }

    /// The source of a method's values, if the block has them. A mean may be computed from sum and count.
    fn source(&self, method: AggregationMethod) -> Option<Source> {
        let other = |statistic| self.find(AggregationMethod { statistic, ..method });
        let quotient = || match method.statistic {
            Statistic::Mean => Some(Source::Quotient(other(Statistic::Sum)?, other(Statistic::Count)?)),
            _ => None,
        };
        self.find(method).map(Source::Column).or_else(quotient)
    }

    /// The values of a source, including absent ones. `buffer` is reused.
    fn values(&self, source: Source, buffer: &mut Vec<u64>, out: &mut Vec<f64>) -> Result<()> {
        match source {
            Source::Column(column) => self.column(column, HOPS_MAX, buffer, out),
            Source::Quotient(sum, count) => self.quotient((sum, count), HOPS_MAX, buffer, out),
        }
    }

    fn rows_of(&self, sources: &[Source]) -> Result<Rows> {
        let (mut rows, mut buffer) = (Rows::new(sources.len()), Vec::with_capacity(self.header.rows));
        self.header.push_starts(&mut rows.starts)?;
        for (source, values) in sources.iter().zip(&mut rows.columns) {
            self.values(*source, &mut buffer, values)?;
        }
        Ok(rows)
    }

    /// The quotients of two columns; absent where the second one is.
    fn quotient(
        &self,
        (sum, count): (usize, usize),
        hops: u8,
        buffer: &mut Vec<u64>,
        out: &mut Vec<f64>,
    ) -> Result<()> {
        let start = out.len();
        self.column(sum, hops, buffer, out)?;
        let sums = &mut out[start..];
        match &self.counts(count, hops, buffer)?[..] {
            [count] if !is_absent(*count) => sums.iter_mut().for_each(|value| *value /= *count),
            counts => {
                for (value, &count) in sums.iter_mut().zip(counts) {
                    *value = if is_absent(count) { absent() } else { *value / count };
                }
            }
        }
        Ok(())
    }

    /// The values of a column; only one if all are equal, as counts usually are.
    fn counts(&self, column: usize, hops: u8, buffer: &mut Vec<u64>) -> Result<Vec<f64>> {
        let bytes = self.columns.get(column).ok_or(CodecError::Invalid("reference"))?.1;
        if self.header.version > 1
            && let Some(value) = values::constant(bytes)
        {
            return Ok(vec![value]);
        }
        let mut counts = Vec::with_capacity(self.header.rows);
        self.column(column, hops, buffer, &mut counts)?;
        Ok(counts)
    }

    /// The values of a column, including absent ones; follows at most `hops` references.
    fn column(&self, column: usize, hops: u8, buffer: &mut Vec<u64>, out: &mut Vec<f64>) -> Result<()> {
        let bytes = self.columns.get(column).ok_or(CodecError::Invalid("reference"))?.1;
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        let (kind, is_sparse) = if self.header.version == 1 {
            version_1::kind(kind)
        } else {
            (kind & !SPARSE, kind & SPARSE != 0)
        };
        let other = |reader: &mut Reader<'_>| reader.byte().map(usize::from);
        match kind {
            SAME | QUOTIENT | DEVIATION if hops == 0 => return Err(CodecError::Invalid("reference")),
            SAME => self.column(other(&mut reader)?, hops - 1, buffer, out)?,
            QUOTIENT => {
                let columns = (other(&mut reader)?, other(&mut reader)?);
                self.quotient(columns, hops - 1, buffer, out)?;
            }
            DEVIATION => {
                let (sum, count, power) = (other(&mut reader)?, other(&mut reader)?, reader.byte()?);
                let start = out.len();
                self.column(sum, hops - 1, buffer, out)?;
                let counts = self.counts(count, hops - 1, buffer)?;
                deviation::read(power, &counts, &mut reader, buffer, &mut out[start..])?;
            }
            NONE => out.resize(out.len() + self.header.rows, absent()),
            kind if is_sparse => {
                let bitmap = reader.take(self.header.rows.div_ceil(8))?;
                let present = |row: &usize| bitmap[row / 8] >> (row % 8) & 1 == 1;
                let mut values = Vec::new();
                let count = (0..self.header.rows).filter(present).count();
                self.read_values(kind, count, &mut reader, buffer, &mut values)?;
                let mut values = values.into_iter();
                let mut value = |row| if present(&row) { values.next().expect("counted") } else { absent() };
                out.extend((0..self.header.rows).map(&mut value));
            }
            kind => self.read_values(kind, self.header.rows, &mut reader, buffer, out)?,
        }
        reader.end()
    }

    fn read_values(
        &self,
        kind: u8,
        count: usize,
        reader: &mut Reader<'_>,
        buffer: &mut Vec<u64>,
        out: &mut Vec<f64>,
    ) -> Result<()> {
        match self.header.version {
            1 => version_1::read_values(kind, count, reader, out),
            _ if count == 0 => Err(CodecError::Invalid("number of values")),
            _ => values::read_kind(kind, count, reader, buffer, out),
        }
    }
}

/// The most references from a column to its values: a mean refers to its sum, the sum to another column.
const HOPS_MAX: u8 = 2;

/// The block's extent, without decoding the values.
pub fn extent(bytes: &[u8]) -> Result<Extent> {
    Header::read(&mut Reader(checked(bytes)?))?.extent()
}

/// The extent of a block inside a head, whose checksum includes the block's bytes.
pub(crate) fn extent_in_head(bytes: &[u8]) -> Result<Extent> {
    Header::read(&mut Reader(bytes))?.extent()
}

/// Appends the bucket starts and values of one method. Skips buckets without a value; appends nothing if the
/// block does not have the method. After an error the vectors contain what was decoded before it.
pub fn decode(
    bytes: &[u8],
    method: AggregationMethod,
    timestamps: &mut Vec<Timestamp>,
    values: &mut Vec<f64>,
) -> Result<()> {
    let parsed = Parsed::new(bytes)?;
    let Some(source) = parsed.source(method) else { return Ok(()) };
    let (times_before, values_before) = (timestamps.len(), values.len());
    parsed.values(source, &mut Vec::with_capacity(parsed.header.rows), values)?;
    parsed.header.push_starts(timestamps)?;
    if may_lack(method) && values[values_before..].iter().any(|&value| is_absent(value)) {
        let present: Vec<bool> = values[values_before..].iter().map(|&value| !is_absent(value)).collect();
        keep(timestamps, times_before, &present);
        keep(values, values_before, &present);
    }
    Ok(())
}

/// Of the items from `from` on, keeps those whose `present` is true.
fn keep<T: Copy>(items: &mut Vec<T>, from: usize, present: &[bool]) {
    let mut kept = from;
    for (index, &present) in present.iter().enumerate() {
        if present {
            items[kept] = items[from + index];
            kept += 1;
        }
    }
    items.truncate(kept);
}

/// All rows of a block with these methods; `None` if it lacks one of them.
pub fn decode_rows(bytes: &[u8], methods: &[AggregationMethod]) -> Result<Option<Rows>> {
    let parsed = Parsed::new(bytes)?;
    let sources: Option<Vec<Source>> = methods.iter().map(|method| parsed.source(*method)).collect();
    sources.map(|sources| parsed.rows_of(&sources)).transpose()
}

/// All methods and rows of a block.
pub fn decode_all(bytes: &[u8]) -> Result<(Vec<AggregationMethod>, Rows)> {
    let parsed = Parsed::new(bytes)?;
    let method = |(code, _): &(u8, &[u8])| AggregationMethod::from_code(*code);
    let methods: Option<Vec<AggregationMethod>> = parsed.columns.iter().map(method).collect();
    let methods = methods.ok_or(CodecError::Invalid("method"))?;
    let sources: Vec<Source> = (0..methods.len()).map(Source::Column).collect();
    Ok((methods, parsed.rows_of(&sources)?))
}

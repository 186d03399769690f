//! Reads blocks, whose bytes may be anything.

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use super::{CONSTANT, Extent, NONE, QUOTIENT, RAW, ROWS_MAX, SAME, SPARSE, VERSION, WHOLE};
use crate::{
    CodecError,
    packing::{Reader, checked, unpack},
    rows::{Rows, absent, is_absent, may_lack},
    whole,
};

/// Columns that give a method's values.
#[derive(Clone, Copy)]
enum Source {
    Column(usize),
    /// Of the first by the second.
    Quotient(usize, usize),
}

/// A block whose checksum matches, not yet decoded.
struct Parsed<'a> {
    /// Positive.
    granularity: i64,
    /// Positive.
    rows: usize,
    first: i64,
    /// The steps from row to row, in granularities: `min_step` and what is packed.
    min_step: u64,
    starts: Reader<'a>,
    width: usize,
    columns: Vec<(u8, &'a [u8])>,
}

impl<'a> Parsed<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = Reader(checked(bytes)?);
        match reader.byte()? {
            VERSION => {}
            version => return Err(CodecError::Version(version)),
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
        let mut parsed = Parsed {
            granularity,
            rows,
            first,
            starts,
            min_step,
            width: usize::from(width),
            columns: Vec::new(),
        };
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

    /// Appends all starts; an error where they leave the range of time.
    fn push_starts(&self, out: &mut Vec<Timestamp>) -> Result<(), CodecError> {
        if self.width == 0 && self.min_step > 0 {
            // Evenly spaced: the last one tells whether all are in range.
            let step =
                self.min_step.checked_mul(self.granularity as u64).and_then(|step| i64::try_from(step).ok());
            let end = step.and_then(|step| step.checked_mul(self.rows as i64 - 1));
            let (Some(step), Some(_)) = (step, end.and_then(|end| end.checked_add(self.first))) else {
                return Err(CodecError::Invalid("row"));
            };
            out.extend((0..self.rows as i64).map(|row| Timestamp(self.first + row * step)));
            return Ok(());
        }
        let granularity = self.granularity as u64;
        let max = i64::MAX as u64 / granularity;
        let mut index = self.first as u64 / granularity;
        let mut in_range = self.min_step > 0;
        out.reserve(self.rows);
        out.push(Timestamp(self.first));
        unpack(self.width, self.rows - 1, &mut { self.starts }, |above| {
            let next = index.wrapping_add(self.min_step).wrapping_add(above);
            in_range &= next <= max && next > index;
            index = next;
            out.push(Timestamp(index.wrapping_mul(granularity) as i64));
        })?;
        if in_range { Ok(()) } else { Err(CodecError::Invalid("row")) }
    }

    fn find(&self, method: AggregationMethod) -> Option<usize> {
        self.columns.iter().position(|(code, _)| *code == method.code())
    }

    /// Where the values of a method come from, if the block has them: a mean is the quotient of sum and count, too.
    fn source(&self, method: AggregationMethod) -> Option<Source> {
        let other = |statistic| self.find(AggregationMethod { statistic, ..method });
        let quotient = || match method.statistic {
            Statistic::Mean => Some(Source::Quotient(other(Statistic::Sum)?, other(Statistic::Count)?)),
            _ => None,
        };
        self.find(method).map(Source::Column).or_else(quotient)
    }

    /// The values of a source, absent ones included.
    fn values(&self, source: Source, out: &mut Vec<f64>) -> Result<(), CodecError> {
        match source {
            Source::Column(column) => self.column(column, HOPS_MAX, out),
            Source::Quotient(sum, count) => self.quotient(sum, count, HOPS_MAX, out),
        }
    }

    fn rows_of(&self, sources: &[Source]) -> Result<Rows, CodecError> {
        let mut rows = Rows::new(sources.len());
        self.push_starts(&mut rows.starts)?;
        for (source, values) in sources.iter().zip(&mut rows.columns) {
            self.values(*source, values)?;
        }
        Ok(rows)
    }

    /// The quotients of two columns, absent where the second one is.
    fn quotient(&self, sum: usize, count: usize, hops: u8, out: &mut Vec<f64>) -> Result<(), CodecError> {
        let start = out.len();
        self.column(sum, hops, out)?;
        let mut counts = Vec::new();
        self.column(count, hops, &mut counts)?;
        for (value, count) in out[start..].iter_mut().zip(counts) {
            *value = if is_absent(count) { absent() } else { *value / count };
        }
        Ok(())
    }

    /// The values of a column, absent ones included; follows at most `hops` references.
    fn column(&self, column: usize, hops: u8, out: &mut Vec<f64>) -> Result<(), CodecError> {
        let bytes = self.columns.get(column).ok_or(CodecError::Invalid("reference"))?.1;
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        let other = |reader: &mut Reader<'_>| reader.byte().map(usize::from);
        match kind {
            SAME | QUOTIENT if hops == 0 => return Err(CodecError::Invalid("reference")),
            SAME => self.column(other(&mut reader)?, hops - 1, out)?,
            QUOTIENT => {
                let (sum, count) = (other(&mut reader)?, other(&mut reader)?);
                self.quotient(sum, count, hops - 1, out)?;
            }
            NONE => out.resize(out.len() + self.rows, absent()),
            kind if kind & SPARSE != 0 => {
                let bitmap = reader.take(self.rows.div_ceil(8))?;
                let present = |row: &usize| bitmap[row / 8] >> (row % 8) & 1 == 1;
                let mut values = Vec::new();
                let count = (0..self.rows).filter(present).count();
                decode_values(kind & !SPARSE, count, &mut reader, &mut values)?;
                let mut values = values.into_iter();
                let mut value = |row| if present(&row) { values.next().expect("counted") } else { absent() };
                out.extend((0..self.rows).map(&mut value));
            }
            kind => decode_values(kind, self.rows, &mut reader, out)?,
        }
        reader.end()
    }
}

fn decode_values(
    kind: u8,
    count: usize,
    reader: &mut Reader<'_>,
    out: &mut Vec<f64>,
) -> Result<(), CodecError> {
    match kind {
        RAW => {
            let bytes = reader.take(8 * count)?;
            out.extend(
                bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes"))),
            );
        }
        CONSTANT => {
            let value = reader.float()?;
            out.resize(out.len() + count, value);
        }
        WHOLE if count > 0 => {
            out.reserve(count);
            whole::read(count, reader, |value| out.push(value))?;
        }
        _ => return Err(CodecError::Invalid("kind of column")),
    }
    Ok(())
}

/// How many hops a column may take to its values: a mean to its sum, the sum to another column.
const HOPS_MAX: u8 = 2;

/// What the block holds, without its values.
pub fn extent(bytes: &[u8]) -> Result<Extent, CodecError> {
    let parsed = Parsed::new(bytes)?;
    let mut starts = Vec::new();
    parsed.push_starts(&mut starts)?;
    let (first, last) = (starts[0], starts[parsed.rows - 1]);
    Ok(Extent { granularity: Timespan(parsed.granularity), rows: parsed.rows, first, last })
}

/// Appends the bucket starts and values of one method. Buckets without a value are left out; a method that the block
/// does not have gives nothing. After an error the vectors hold what was decoded before it.
pub fn decode(
    bytes: &[u8],
    method: AggregationMethod,
    timestamps: &mut Vec<Timestamp>,
    values: &mut Vec<f64>,
) -> Result<(), CodecError> {
    let parsed = Parsed::new(bytes)?;
    let Some(source) = parsed.source(method) else { return Ok(()) };
    let (times_before, values_before) = (timestamps.len(), values.len());
    parsed.values(source, values)?;
    parsed.push_starts(timestamps)?;
    if may_lack(method) && values[values_before..].iter().any(|&value| is_absent(value)) {
        let present: Vec<bool> = values[values_before..].iter().map(|&value| !is_absent(value)).collect();
        keep(timestamps, times_before, &present);
        keep(values, values_before, &present);
    }
    Ok(())
}

/// Keeps the items after `from` for which `present` says so.
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

/// All rows of a block with these methods. `None` where it does not have all of them.
pub fn decode_rows(bytes: &[u8], methods: &[AggregationMethod]) -> Result<Option<Rows>, CodecError> {
    let parsed = Parsed::new(bytes)?;
    let sources: Option<Vec<Source>> = methods.iter().map(|method| parsed.source(*method)).collect();
    sources.map(|sources| parsed.rows_of(&sources)).transpose()
}

/// The methods of a block, and all its rows.
pub fn decode_all(bytes: &[u8]) -> Result<(Vec<AggregationMethod>, Rows), CodecError> {
    let parsed = Parsed::new(bytes)?;
    let method = |(code, _): &(u8, &[u8])| AggregationMethod::from_code(*code);
    let methods: Option<Vec<AggregationMethod>> = parsed.columns.iter().map(method).collect();
    let methods = methods.ok_or(CodecError::Invalid("method"))?;
    let sources: Vec<Source> = (0..methods.len()).map(Source::Column).collect();
    Ok((methods, parsed.rows_of(&sources)?))
}

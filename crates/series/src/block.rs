//! Blocks: finalised buckets of one granularity with all their methods, as columns. A sealed block is written once; the
//! head carries one that is still open.
//!
//! Buckets repeat themselves: with one point each, mean, min, max and sum are the same column and count is constant; the
//! mean is the sum divided by the count. Such columns cost nothing. What is left is whole numbers or raw. Values are
//! exact. A column is found by a directory, so that reading one method does not decode the others.
//!
//! ```text
//! u8      version
//! varint  rows; varint granularity (ns); varint first start / granularity
//!         from the second row on: varint the smallest step (in granularities); u8 width; width bytes: what is above it
//! varint  columns; for each: u8 method code, varint length; then the columns
//! u32     CRC32C of all before
//!
//! column  u8 kind, with bit 7: a bitmap of the rows that have a value follows, and values are only those rows'
//!         raw: 8 bytes each; constant: 8 bytes; same: u8 column; quotient: u8 column, u8 column; none: nothing;
//!         whole: signed varint the first; from the second on: signed varint the smallest difference, u8 width, ...
//! ```

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use crate::{
    CodecError,
    packing::{Reader, checked, pack, put_checksum, put_signed, put_varint, unpack, width_of},
    rows::{Rows, absent, is_absent, may_lack},
};

const VERSION: u8 = 1;

/// More rows are never in one block; bounds what decoding allocates.
pub const ROWS_MAX: usize = 1 << 16;

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const SAME: u8 = 2;
const WHOLE: u8 = 3;
const QUOTIENT: u8 = 4;
const NONE: u8 = 5;
const SPARSE: u8 = 0x80;

/// Whole numbers up to here are exact in an f64.
const WHOLE_MAX: i64 = 1 << 53;

/// The first and last bucket starts, and how many buckets there are: all that the head of a block tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub granularity: Timespan,
    pub rows: usize,
    pub first: Timestamp,
    pub last: Timestamp,
}

/// Appends the rows `range` as a block. There is at least one, at most [`ROWS_MAX`]; starts are multiples of the
/// granularity, not before the epoch, and grow.
pub(crate) fn encode(
    granularity: Timespan,
    methods: &[AggregationMethod],
    rows: &Rows,
    range: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) {
    let block = out.len();
    out.push(VERSION);
    encode_starts(granularity.0, &rows.starts[range.clone()], out);
    put_varint(methods.len() as u64, out);
    let columns = Columns::encode(methods, rows, &range);
    for (method, place) in methods.iter().zip(&columns.places) {
        out.push(method.code());
        put_varint(place.len() as u64, out);
    }
    for place in &columns.places {
        out.extend_from_slice(&columns.bytes[place.clone()]);
    }
    put_checksum(block, out);
}

fn encode_starts(granularity: i64, starts: &[Timestamp], out: &mut Vec<u8>) {
    assert!(!starts.is_empty() && starts.len() <= ROWS_MAX && starts[0].0 >= 0, "rows of a block");
    put_varint(starts.len() as u64, out);
    put_varint(granularity as u64, out);
    put_varint((starts[0].0 / granularity) as u64, out);
    if starts.len() == 1 {
        return;
    }
    let steps = || starts.windows(2).map(|pair| ((pair[1].0 - pair[0].0) / granularity) as u64);
    let (min, max) = steps().fold((u64::MAX, 0), |(min, max), step| (min.min(step), max.max(step)));
    assert!(min > 0, "bucket starts grow");
    let width = width_of(max - min);
    put_varint(min, out);
    out.push(width as u8);
    pack(width, starts.len() - 1, steps().map(|step| step - min), out);
}

/// The columns of a block that is being written.
struct Columns<'a> {
    methods: &'a [AggregationMethod],
    /// The rows of the block, by column.
    values: Vec<&'a [f64]>,
    /// Where each column lies in `bytes`.
    places: Vec<std::ops::Range<usize>>,
    bytes: Vec<u8>,
}

impl<'a> Columns<'a> {
    fn encode(methods: &'a [AggregationMethod], rows: &'a Rows, range: &std::ops::Range<usize>) -> Self {
        let values: Vec<&[f64]> = rows.columns.iter().map(|column| &column[range.clone()]).collect();
        let bytes = Vec::with_capacity(16 + 8 * range.len() * methods.len());
        let mut columns = Columns { methods, values, places: vec![0..0; methods.len()], bytes };
        // A mean may refer to its sum and count, so it comes last. Only columns written on their own are referred to.
        let is_mean = |method: &AggregationMethod| method.statistic == Statistic::Mean;
        let order = (0..methods.len()).filter(|&column| !is_mean(&methods[column]));
        let means = (0..methods.len()).filter(|&column| is_mean(&methods[column]));
        let mut plain = Vec::with_capacity(methods.len());
        for column in order.chain(means) {
            let start = columns.bytes.len();
            match columns.reference(column, &plain) {
                Some(Reference::Same(other)) => columns.bytes.extend([SAME, other as u8]),
                Some(Reference::Quotient(sum, count)) => {
                    columns.bytes.extend([QUOTIENT, sum as u8, count as u8]);
                }
                None => {
                    plain.push(column);
                    encode_column(columns.values[column], may_lack(methods[column]), &mut columns.bytes);
                }
            }
            columns.places[column] = start..columns.bytes.len();
        }
        columns
    }

    /// The column as a reference to one or two others, if it is one.
    fn reference(&self, column: usize, plain: &[usize]) -> Option<Reference> {
        let method = self.methods[column];
        let values = self.values[column];
        // An absent value means something only to methods that may lack one.
        let comparable = |other: &&usize| may_lack(self.methods[**other]) == may_lack(method);
        let equal = |other: &&usize| same_bits(values, self.values[**other]);
        if let Some(other) = plain.iter().filter(comparable).find(equal) {
            return Some(Reference::Same(*other));
        }
        if method.statistic != Statistic::Mean {
            return None;
        }
        let find = |statistic| {
            let wanted = AggregationMethod { rate: method.rate, statistic };
            self.methods.iter().position(|&method| method == wanted)
        };
        let (sum, count) = (find(Statistic::Sum)?, find(Statistic::Count)?);
        let quotients = self.values[sum].iter().zip(self.values[count]);
        let is_quotient = values.iter().zip(quotients).all(|(mean, (sum, count))| match is_absent(*count) {
            true => is_absent(*mean),
            false => mean.to_bits() == (sum / count).to_bits(),
        });
        is_quotient.then_some(Reference::Quotient(sum, count))
    }
}

enum Reference {
    Same(usize),
    Quotient(usize, usize),
}

fn same_bits(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Appends a column that stands on its own.
fn encode_column(values: &[f64], may_lack: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(NONE);
    if !may_lack || !values.iter().any(|&value| is_absent(value)) {
        out[start] = encode_values(values, out);
        return;
    }
    let present: Vec<f64> = values.iter().copied().filter(|&value| !is_absent(value)).collect();
    if present.is_empty() {
        return;
    }
    out.resize(start + 1 + values.len().div_ceil(8), 0);
    for (row, value) in values.iter().enumerate() {
        out[start + 1 + row / 8] |= u8::from(!is_absent(*value)) << (row % 8);
    }
    out[start] = SPARSE | encode_values(&present, out);
}

/// Appends the values and gives their kind.
fn encode_values(values: &[f64], out: &mut Vec<u8>) -> u8 {
    if values.iter().all(|value| value.to_bits() == values[0].to_bits()) {
        out.extend_from_slice(&values[0].to_le_bytes());
        return CONSTANT;
    }
    if let Some((min, width)) = whole_differences(values)
        && width < 8
    {
        put_signed(values[0] as i64, out);
        put_signed(min, out);
        out.push(width as u8);
        let above = values.windows(2).map(|pair| (pair[1] as i64 - pair[0] as i64 - min) as u64);
        pack(width, values.len() - 1, above, out);
        return WHOLE;
    }
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    RAW
}

/// The smallest difference and the width of the others above it, where all values are whole numbers (-0.0 is none).
fn whole_differences(values: &[f64]) -> Option<(i64, usize)> {
    let whole = |value: f64| {
        let number = value as i64;
        ((number as f64).to_bits() == value.to_bits() && (-WHOLE_MAX..=WHOLE_MAX).contains(&number))
            .then_some(number)
    };
    let mut before = whole(values[0])?;
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    for &value in &values[1..] {
        let number = whole(value)?;
        min = min.min(number - before);
        max = max.max(number - before);
        before = number;
    }
    Some((min, width_of((max - min) as u64)))
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
            let step = self.min_step.checked_mul(self.granularity as u64);
            let end = step
                .and_then(|step| step.checked_mul(self.rows as u64 - 1))
                .and_then(|end| end.checked_add(self.first as u64));
            let (Some(step), true) = (step, end.is_some_and(|end| end <= i64::MAX as u64)) else {
                return Err(CodecError::Invalid("row"));
            };
            out.extend((0..self.rows as i64).map(|row| Timestamp(self.first + row * step as i64)));
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
                let start = out.len();
                self.column(other(&mut reader)?, hops - 1, out)?;
                let mut counts = Vec::new();
                self.column(other(&mut reader)?, hops - 1, &mut counts)?;
                for (value, count) in out[start..].iter_mut().zip(counts) {
                    *value = if is_absent(count) { absent() } else { *value / count };
                }
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
            let mut number = reader.signed()?;
            out.push(number as f64);
            let (min, width) = (reader.signed()?, reader.byte()?);
            unpack(usize::from(width), count - 1, reader, |above| {
                number = number.wrapping_add(min).wrapping_add(above as i64);
                out.push(number as f64);
            })?;
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
    let Some(column) = parsed.find(method) else { return Ok(()) };
    let (times_before, values_before) = (timestamps.len(), values.len());
    parsed.column(column, HOPS_MAX, values)?;
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

/// All rows of a block. `None` where its methods are not exactly `methods`.
pub(crate) fn decode_rows(bytes: &[u8], methods: &[AggregationMethod]) -> Result<Option<Rows>, CodecError> {
    let parsed = Parsed::new(bytes)?;
    if !parsed.columns.iter().map(|(code, _)| *code).eq(methods.iter().map(|method| method.code())) {
        return Ok(None);
    }
    let mut rows = Rows::new(methods.len());
    parsed.push_starts(&mut rows.starts)?;
    for (column, values) in rows.columns.iter_mut().enumerate() {
        parsed.column(column, HOPS_MAX, values)?;
    }
    Ok(Some(rows))
}

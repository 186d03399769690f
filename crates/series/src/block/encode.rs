//! Writes blocks.

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use super::{CONSTANT, NONE, QUOTIENT, RAW, ROWS_MAX, SAME, SPARSE, VERSION, WHOLE};
use crate::{
    packing::{pack, put_checksum, put_varint, width_of},
    rows::{Rows, is_absent, may_lack},
    whole,
};

/// Appends the rows `range` as a block. There is at least one, at most [`ROWS_MAX`]; starts are multiples of the
/// granularity, not before the epoch, and grow.
pub fn encode(
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
        let is_quotient = values.iter().zip(quotients).all(|(mean, (sum, count))| {
            if is_absent(*count) { is_absent(*mean) } else { mean.to_bits() == (sum / count).to_bits() }
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
    if whole::put(values.iter().copied(), values.len(), out) {
        return WHOLE;
    }
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    RAW
}

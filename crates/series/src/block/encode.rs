//! Encodes blocks.

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use super::{DEVIATION, NONE, QUOTIENT, ROWS_MAX, SAME, SPARSE, VERSION, deviation::Deviations};
use crate::{
    packing::{pack, put_checksum, put_varint, width_of},
    rows::{Rows, is_absent, may_lack},
    values,
};

/// Appends the rows of `range` as a block: at least one, at most [`ROWS_MAX`]. Starts are multiples of the
/// granularity, not before the epoch, and ascending.
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

/// The columns of a block that is being encoded.
struct Columns<'a> {
    methods: &'a [AggregationMethod],
    /// The rows of the block, by column.
    values: Vec<&'a [f64]>,
    /// The range of each column in `bytes`.
    places: Vec<std::ops::Range<usize>>,
    /// For each column the power of ten that makes its values whole numbers, if there is one.
    powers: Vec<Option<usize>>,
    bytes: Vec<u8>,
}

/// The encoding order: columns that may refer to others come after them.
fn turn(statistic: Statistic) -> u8 {
    match statistic {
        Statistic::Std => 1,
        Statistic::Mean => 2,
        _ => 0,
    }
}

impl<'a> Columns<'a> {
    fn encode(methods: &'a [AggregationMethod], rows: &'a Rows, range: &std::ops::Range<usize>) -> Self {
        let values: Vec<&[f64]> = rows.columns.iter().map(|column| &column[range.clone()]).collect();
        let bytes = Vec::with_capacity(16 + 8 * range.len() * methods.len());
        let (places, powers) = (vec![0..0; methods.len()], vec![None; methods.len()]);
        let mut columns = Columns { methods, values, places, powers, bytes };
        // References point only to columns that are encoded without references.
        let mut plain = Vec::with_capacity(methods.len());
        let mut order: Vec<usize> = (0..methods.len()).collect();
        order.sort_by_key(|&column| turn(methods[column].statistic));
        for column in order {
            let start = columns.bytes.len();
            match columns.reference(column, &plain) {
                Some(Reference::Same(other)) => {
                    columns.bytes.extend([SAME, other as u8]);
                    columns.powers[column] = columns.powers[other];
                }
                Some(Reference::Quotient(sum, count)) => {
                    columns.bytes.extend([QUOTIENT, sum as u8, count as u8]);
                }
                Some(Reference::Deviations { deviations, sum, count }) => {
                    columns.bytes.push(DEVIATION);
                    deviations.put(sum, count, &mut columns.bytes);
                }
                None => {
                    plain.push(column);
                    let lacks = may_lack(methods[column]);
                    columns.powers[column] = encode_column(columns.values[column], lacks, &mut columns.bytes);
                }
            }
            columns.places[column] = start..columns.bytes.len();
        }
        columns
    }

    /// The column as a reference to one or two others, if possible.
    fn reference(&self, column: usize, plain: &[usize]) -> Option<Reference> {
        let method = self.methods[column];
        let values = self.values[column];
        // Only some methods may lack a value; only for these the absent value has a meaning.
        let comparable = |other: &&usize| may_lack(self.methods[**other]) == may_lack(method);
        let equal = |other: &&usize| same_bits(values, self.values[**other]);
        if let Some(other) = plain.iter().filter(comparable).find(equal) {
            return Some(Reference::Same(*other));
        }
        if turn(method.statistic) == 0 {
            return None;
        }
        let find = |statistic| {
            let wanted = AggregationMethod { rate: method.rate, statistic };
            self.methods.iter().position(|&method| method == wanted)
        };
        let (sum, count) = (find(Statistic::Sum)?, find(Statistic::Count)?);
        if method.statistic == Statistic::Std {
            let (sums, counts, power) = (self.values[sum], self.values[count], self.powers[sum]?);
            let deviations = Deviations::of(values, sums, counts, power)?;
            let is_worth = deviations.is_worth(values.len()) && !is_constant(values);
            return is_worth.then_some(Reference::Deviations { deviations, sum, count });
        }
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
    Deviations { deviations: Deviations, sum: usize, count: usize },
}

fn same_bits(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn is_constant(values: &[f64]) -> bool {
    values.iter().all(|value| value.to_bits() == values[0].to_bits())
}

/// Appends a column without references. Returns the power of ten that makes its values whole numbers, if
/// there is one.
fn encode_column(values: &[f64], may_lack: bool, out: &mut Vec<u8>) -> Option<usize> {
    if !may_lack || !values.iter().any(|&value| is_absent(value)) {
        return values::put(values, out);
    }
    let present: Vec<f64> = values.iter().copied().filter(|&value| !is_absent(value)).collect();
    if present.is_empty() {
        out.push(NONE);
        return None;
    }
    let start = out.len();
    out.resize(start + 1 + values.len().div_ceil(8), 0);
    for (row, value) in values.iter().enumerate() {
        out[start + 1 + row / 8] |= u8::from(!is_absent(*value)) << (row % 8);
    }
    let kind = out.len();
    let power = values::put(&present, out);
    out[start] = SPARSE | out.remove(kind);
    power
}

//! Lossless encoding of the values of raw points and buckets.
//!
//! Most measured values are decimals of few digits: 12.5 is 125 tenths. They are stored as whole numbers
//! ([`decimal`]); others (a NaN, an infinity, a long fraction) are exceptions. For long fractions there are
//! two kinds: either sign, exponent and the next four bits are compressed and the other 48 bits stored as
//! they are, or all bits are a whole number with the order of the values ([`ordered`]).
//!
//! Finding the decimal of a double follows ALP (Afroozeh, Kuffo, Boncz: "ALP: Adaptive Lossless
//! floating-Point Compression", SIGMOD 2024).
//!
//! ```text
//! u8       kind; with bit 7: a bitmap of the values that differ from the one before follows, and only those are kept
//! constant 8 bytes; or, as the constant decimal, u8 power of ten, signed varint
//! decimal  u8 power of ten, with bits 5 to 7 the mode of numbers; as in `numbers`;
//!          varint exceptions; for each: varint values skipped since the one before, 8 bytes
//! near     as decimal; then each value's distance from its decimal in steps of the last bit, in mode 0 as in `numbers`
//! split    u16 the smallest upper half; the excess of each as in `bits`; 6 bytes for each value
//! ordered  u8 how many lowest bits are 0 in all values, u8 the mode of numbers; as in `numbers`
//! raw      8 bytes each
//! ```

pub mod decimal;
pub mod numbers;
mod ordered;

use crate::{
    CodecError, Result, bits,
    packing::{Reader, pack, put_signed, unpack},
};
use decimal::Decimals;

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const DECIMAL: u8 = 2;
const SPLIT: u8 = 3;
const NEAR: u8 = 4;
const ORDERED: u8 = 5;
const CONSTANT_DECIMAL: u8 = 6;
const REPEATS: u8 = 0x80;

/// The order of differences.
pub const FIRST_DIFFERENCES: u8 = 0x80;
pub const SECOND_DIFFERENCES: u8 = 0x40;
/// Numbers were divided by a common divisor.
pub const DIVISOR: u8 = 0x20;

/// The bits of the lower half of a split value.
const LOWER_BITS: u32 = 48;
const LOWER_BYTES: usize = LOWER_BITS as usize / 8;

/// Appends the values, at least one. Returns the power of ten that makes them whole numbers, except for their
/// last bits, if there is one.
pub fn put(values: &[f64], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    let power = put_all(values, out);
    let changes = 1 + values.windows(2).filter(|pair| pair[0].to_bits() != pair[1].to_bits()).count();
    if changes == 1 || changes > values.len() * 3 / 4 {
        return power;
    }
    let mut repeated = vec![0; 1 + values.len().div_ceil(8)];
    let mut rest = Vec::with_capacity(changes);
    for (index, value) in values.iter().enumerate() {
        if index == 0 || value.to_bits() != values[index - 1].to_bits() {
            repeated[1 + index / 8] |= 1 << (index % 8);
            rest.push(*value);
        }
    }
    let kind = repeated.len();
    put_all(&rest, &mut repeated);
    repeated[0] = repeated.remove(kind) | REPEATS;
    if repeated.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(&repeated);
    }
    power
}

/// Appends all values, in the smallest kind.
fn put_all(values: &[f64], out: &mut Vec<u8>) -> Option<usize> {
    if values.iter().all(|value| value.to_bits() == values[0].to_bits()) {
        return put_constant(values[0], out);
    }
    let decimals = Decimals::of(values);
    let power = decimals.as_ref().map(Decimals::power);
    let put_decimals = |decimals: &Decimals, out: &mut Vec<u8>| {
        out.push(if decimals.has_steps() { NEAR } else { DECIMAL });
        decimals.put(values, out);
    };
    // At this size other kinds are hardly smaller.
    if let Some(decimals) = decimals.as_ref().filter(|decimals| decimals.cost() <= 40 * values.len()) {
        put_decimals(decimals, out);
        return power;
    }
    let ordered = ordered::Ordered::of(values);
    let split = Split::of(values);
    let raw = 64 * values.len();
    let decimal = decimals.as_ref().map_or(usize::MAX, Decimals::cost);
    let best = decimal.min(ordered.cost()).min(split.cost()).min(raw);
    match decimals {
        Some(decimals) if decimal == best => put_decimals(&decimals, out),
        _ if ordered.cost() == best => {
            out.push(ORDERED);
            ordered.put(out);
        }
        _ if split.cost() == best => {
            out.push(SPLIT);
            split.put(values, out);
        }
        _ => {
            out.push(RAW);
            for value in values {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }
    power
}

fn put_constant(value: f64, out: &mut Vec<u8>) -> Option<usize> {
    if let Some((power, number)) = decimal::exact(value) {
        out.extend([CONSTANT_DECIMAL, power as u8]);
        put_signed(number, out);
        return Some(power);
    }
    out.push(CONSTANT);
    out.extend_from_slice(&value.to_le_bytes());
    None
}

/// The upper halves and their encoding.
struct Split {
    min: u64,
    above: Vec<u64>,
    plan: bits::Plan,
}

impl Split {
    fn of(values: &[f64]) -> Self {
        let upper = |value: &f64| value.to_bits() >> LOWER_BITS;
        let min = values.iter().map(upper).min().expect("there are values");
        let above: Vec<u64> = values.iter().map(|value| upper(value) - min).collect();
        let plan = bits::plan(&above);
        Split { min, above, plan }
    }

    fn cost(&self) -> usize {
        self.plan.cost + LOWER_BITS as usize * self.above.len()
    }

    fn put(&self, values: &[f64], out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.min as u16).to_le_bytes());
        bits::put_planned(&self.above, self.plan, out);
        pack(LOWER_BYTES, values.len(), values.iter().map(|value| value.to_bits()), out);
    }
}

/// Appends `count` values, at least one. `buffer` is reused.
pub fn read(count: usize, reader: &mut Reader<'_>, buffer: &mut Vec<u64>, out: &mut Vec<f64>) -> Result<()> {
    read_kind(reader.byte()?, count, reader, buffer, out)
}

/// The value of all rows, if it was stored as a constant decimal.
pub fn constant(bytes: &[u8]) -> Option<f64> {
    let mut reader = Reader(bytes);
    let is_constant = reader.byte() == Ok(CONSTANT_DECIMAL);
    is_constant.then(|| decimal::constant(&mut reader).ok())?
}

/// As [`read`], after reading the kind.
pub fn read_kind(
    kind: u8,
    count: usize,
    reader: &mut Reader<'_>,
    buffer: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<()> {
    if kind & REPEATS == 0 {
        return read_all(kind, count, reader, buffer, out);
    }
    let bitmap = reader.take(count.div_ceil(8))?;
    let is_new = |index: usize| bitmap[index / 8] >> (index % 8) & 1 == 1;
    let changes = (0..count).filter(|&index| is_new(index)).count();
    if changes == 0 || !is_new(0) {
        return Err(CodecError::Invalid("values that repeat nothing"));
    }
    let mut rest = Vec::with_capacity(changes);
    read_all(kind & !REPEATS, changes, reader, buffer, &mut rest)?;
    let mut at = 0;
    out.extend((0..count).map(|index| {
        at += usize::from(is_new(index));
        rest[at - 1]
    }));
    Ok(())
}

fn read_all(
    kind: u8,
    count: usize,
    reader: &mut Reader<'_>,
    buffer: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<()> {
    out.reserve(count);
    match kind {
        RAW => unpack(8, count, reader, |bits| out.push(f64::from_bits(bits))),
        CONSTANT | CONSTANT_DECIMAL => {
            let value = if kind == CONSTANT { reader.float()? } else { decimal::constant(reader)? };
            out.resize(out.len() + count, value);
            Ok(())
        }
        DECIMAL | NEAR => decimal::read(count, kind == NEAR, reader, buffer, out),
        ORDERED => ordered::read(count, reader, buffer, out),
        SPLIT => {
            let min = u64::from(u16::from_le_bytes(reader.take(2)?.try_into().expect("2 bytes")));
            bits::read(count, reader, buffer)?;
            let mut uppers = buffer.iter();
            unpack(LOWER_BYTES, count, reader, |lower| {
                let Some(upper) = uppers.next() else { return };
                out.push(f64::from_bits(min.wrapping_add(*upper) << LOWER_BITS | lower));
            })
        }
        _ => Err(CodecError::Invalid("kind of values")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(values: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(values, &mut bytes);
        bytes
    }

    /// Whole numbers are exact up to here.
    const WHOLE_MAX: f64 = (1u64 << 53) as f64;

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-1000i64..1000, 0i32..4).prop_map(|(number, power)| number as f64 / 10f64.powi(power)),
            any::<u64>().prop_map(f64::from_bits),
            any::<f32>().prop_map(f64::from),
            prop::sample::select(vec![
                -0.0,
                f64::NAN,
                f64::INFINITY,
                WHOLE_MAX,
                -WHOLE_MAX,
                WHOLE_MAX / 4.0,
                f64::MIN_POSITIVE,
                -5e-324,
                f64::from_bits(0x7ff0_0000_0000_0002),
            ]),
        ]
    }

    /// Decimals of a random walk; some are off by some steps of the last bit, and some are other values.
    fn walk() -> impl Strategy<Value = Vec<f64>> {
        let steps =
            prop::collection::vec((-300i64..300, 0u64..3, prop::option::weighted(0.05, value())), 1..200);
        (any::<i32>(), 0i32..18, any::<bool>(), steps).prop_map(|(from, power, exact, steps)| {
            let mut number = i64::from(from);
            let value = |(step, off, other): (i64, u64, Option<f64>)| {
                number += step;
                let decimal = number as f64 / 10f64.powi(power);
                let near = f64::from_bits(decimal.to_bits().wrapping_add(off));
                other.unwrap_or(if exact { decimal } else { near })
            };
            steps.into_iter().map(value).collect()
        })
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        let repeated = prop::collection::vec((value(), 1usize..9), 1..40).prop_map(|runs| {
            runs.into_iter().flat_map(|(value, count)| std::iter::repeat_n(value, count)).collect()
        });
        let counter = (any::<i32>(), prop::collection::vec(0i64..50, 1..100)).prop_map(|(from, steps)| {
            let mut number = i64::from(from);
            steps
                .into_iter()
                .map(|step| {
                    number += step;
                    number as f64
                })
                .collect()
        });
        let smooth = prop::collection::vec(0.0f64..1.0, 1..100);
        prop_oneof![repeated, counter, smooth, walk(), prop::collection::vec(value(), 1..100)]
    }

    proptest! {
        #[test]
        fn values_round_trip(values in values()) {
            let bytes = encoded(&values);
            let (mut reader, mut back) = (Reader(&bytes), vec![7.0]);
            read(values.len(), &mut reader, &mut Vec::new(), &mut back).unwrap();
            prop_assert!(reader.end().is_ok());
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back[1..]), bits(&values));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>, values in values(), count in 1usize..200, flip: (usize, u8)) {
            let _ = read(count, &mut Reader(&bytes), &mut Vec::new(), &mut Vec::new());
            let mut damaged = encoded(&values);
            let at = flip.0 % damaged.len();
            damaged[at] ^= flip.1;
            let _ = read(values.len(), &mut Reader(&damaged), &mut Vec::new(), &mut Vec::new());
        }
    }

    #[test]
    fn each_kind_is_written() {
        let kind = |value: fn(u32) -> f64| encoded(&(0..200).map(value).collect::<Vec<_>>())[0];
        assert_eq!(kind(|_| 12.5), CONSTANT_DECIMAL);
        assert_eq!(kind(|_| f64::NAN), CONSTANT);
        assert_eq!(kind(|index| f64::from(index * 7919 % 1000) / 100.0), DECIMAL);
        assert_eq!(kind(|index| f64::from(index * 7919 % 1000) / 100.0 * 3.0), NEAR);
        assert_eq!(kind(|index| f64::from(index + 1000).sqrt()), ORDERED);
        assert_eq!(kind(|index| f64::from(index / 3 * 7919 % 1000 + 1000).sqrt()) & REPEATS, REPEATS);
    }

    #[test]
    fn usual_values_are_small() {
        let size = |value: fn(u32) -> f64| encoded(&(0..1000).map(value).collect::<Vec<_>>()).len();
        let noise = |index: u32| f64::from(index.wrapping_mul(2_654_435_761) >> 16);
        // A percentage with two digits; a counter of bytes; a gauge that rarely changes.
        assert!(size(|index| (f64::from(index.wrapping_mul(2_654_435_761) % 10_000)) / 100.0) < 1_800);
        assert!(
            size(|index| f64::from(index) * 1500.0 + f64::from(index.wrapping_mul(2_654_435_761) >> 24))
                < 1_800
        );
        assert!(size(|index| f64::from(index / 100).sqrt()) < 250);
        let all: Vec<f64> = (0..1000).map(|index| noise(index) / 65_536.0).collect();
        assert!(encoded(&all).len() < 8_000);
    }
}

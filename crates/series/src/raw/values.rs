//! The values of raw points, bit for bit.
//!
//! Most of what is measured are decimals of few digits: 12.5 is 125 tenths. Such values are kept as whole numbers, or as differences
//! where they grow, and those that are none (a NaN, an infinity, a long fraction) aside. Of values that are long fractions,
//! sign, exponent and four more bits repeat, and the other 48 bits are kept as they are.
//!
//! The idea of finding the decimal behind a double is of ALP (Afroozeh, Kuffo, Boncz: "ALP: Adaptive Lossless floating-Point
//! Compression", SIGMOD 2024).
//!
//! ```text
//! u8       kind; with bit 7: a bitmap of the values that differ from the one before follows, and only those are kept
//! constant 8 bytes
//! decimal  u8 power of ten, with bit 7 differences; signed varint the smallest; what is above it as in `bits`;
//!          varint exceptions; for each: varint how many values after the one before it, 8 bytes
//! split    u16 the smallest upper half; what is above it as in `bits`; 6 bytes for each value
//! raw      8 bytes each
//! ```

use super::bits;
use crate::{
    CodecError,
    packing::{Reader, Span, pack, put_signed, put_varint, unpack},
};

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const DECIMAL: u8 = 2;
const SPLIT: u8 = 3;
const REPEATS: u8 = 0x80;

const DIFFERENCES: u8 = 0x80;

/// Exact as doubles, as is the quotient of a whole number up to [`WHOLE_MAX`] and one of them when it is rounded once.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// The bits of the lower half of a split value.
const LOWER_BITS: u32 = 48;
const LOWER_BYTES: usize = LOWER_BITS as usize / 8;

/// How many values decide over the power of ten.
const SAMPLE: usize = 64;

/// Appends the values, at least one.
pub fn put(values: &[f64], out: &mut Vec<u8>) {
    let start = out.len();
    put_all(values, out);
    let is_new = |index: &usize| *index == 0 || values[*index].to_bits() != values[*index - 1].to_bits();
    let changes: Vec<usize> = (0..values.len()).filter(is_new).collect();
    if changes.len() == 1 || changes.len() > values.len() * 3 / 4 {
        return;
    }
    let mut repeated = vec![0; 1 + values.len().div_ceil(8)];
    for &index in &changes {
        repeated[1 + index / 8] |= 1 << (index % 8);
    }
    let rest: Vec<f64> = changes.iter().map(|&index| values[index]).collect();
    let kind = repeated.len();
    put_all(&rest, &mut repeated);
    repeated[0] = repeated.remove(kind) | REPEATS;
    if repeated.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(&repeated);
    }
}

/// Each value, in the smallest kind.
fn put_all(values: &[f64], out: &mut Vec<u8>) {
    let start = out.len();
    if values.iter().all(|value| value.to_bits() == values[0].to_bits()) {
        out.push(CONSTANT);
        out.extend_from_slice(&values[0].to_le_bytes());
        return;
    }
    if let Some(power) = power_of(values) {
        put_decimals(values, power, out);
        // What a split cannot make smaller.
        if out.len() - start <= LOWER_BYTES * values.len() {
            return;
        }
    }
    let decimal = out.split_off(start);
    put_split(values, out);
    if out.len() - start > 8 * values.len() {
        out.truncate(start);
        out.push(RAW);
        for value in values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    if !decimal.is_empty() && decimal.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(&decimal);
    }
}

fn put_split(values: &[f64], out: &mut Vec<u8>) {
    let upper = |value: &f64| value.to_bits() >> LOWER_BITS;
    let min = values.iter().map(upper).min().expect("there are values");
    let above: Vec<u64> = values.iter().map(|value| upper(value) - min).collect();
    out.push(SPLIT);
    out.extend_from_slice(&(min as u16).to_le_bytes());
    bits::put(&above, out);
    pack(LOWER_BYTES, values.len(), values.iter().map(|value| value.to_bits()), out);
}

/// The whole number that gives the value when it is divided by the power.
fn decimal(value: f64, power: f64) -> Option<i64> {
    let scaled = (value * power).round();
    if scaled.is_nan() || scaled.abs() > WHOLE_MAX {
        return None;
    }
    let number = scaled as i64;
    (from_decimal(number, power).to_bits() == value.to_bits()).then_some(number)
}

fn from_decimal(number: i64, power: f64) -> f64 {
    number as f64 / power
}

/// The smallest power of ten by which most values of a sample are whole.
fn power_of(values: &[f64]) -> Option<usize> {
    let step = values.len().div_ceil(SAMPLE);
    let sample: Vec<f64> = values.iter().copied().step_by(step).collect();
    let others_max = sample.len() / 8;
    let fits = |power: f64| {
        let mut others = sample.iter().filter(|value| decimal(**value, power).is_none());
        // Most powers are out after a few values.
        others.nth(others_max).is_none()
    };
    (0..POWERS.len()).find(|&power| fits(POWERS[power]))
}

fn put_decimals(values: &[f64], power: usize, out: &mut Vec<u8>) {
    let mut numbers = Vec::with_capacity(values.len());
    let mut exceptions = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let number = decimal(*value, POWERS[power]);
        if number.is_none() {
            exceptions.push(index);
        }
        // The number before costs the least.
        numbers.push(number.or(numbers.last().copied()).unwrap_or(0));
    }
    out.extend([DECIMAL, power as u8]);
    let mut differences: Vec<i64> = Vec::with_capacity(numbers.len());
    let mut before = 0;
    for &number in &numbers {
        differences.push(number - before);
        before = number;
    }
    let (mut plain, mut changes) = (Vec::new(), Vec::new());
    put_above(&numbers, &mut plain);
    // The first one stands for itself, and is no measure of the others.
    put_signed(differences[0], &mut changes);
    put_above(&differences[1..], &mut changes);
    if changes.len() < plain.len() {
        let power = out.last_mut().expect("the power");
        *power |= DIFFERENCES;
        out.append(&mut changes);
    } else {
        out.append(&mut plain);
    }
    put_varint(exceptions.len() as u64, out);
    let mut next = 0;
    for index in exceptions {
        put_varint((index - next) as u64, out);
        out.extend_from_slice(&values[index].to_le_bytes());
        next = index + 1;
    }
}

/// The smallest number, and what the others have above it.
fn put_above(numbers: &[i64], out: &mut Vec<u8>) {
    let mut span = Span::new();
    for number in numbers {
        span.add(*number);
    }
    let min = if numbers.is_empty() { 0 } else { span.min };
    put_signed(min, out);
    let above: Vec<u64> = numbers.iter().map(|number| number.wrapping_sub(min) as u64).collect();
    bits::put(&above, out);
}

/// Appends `count` values, at least one. `numbers` is a buffer.
pub fn read(
    count: usize,
    reader: &mut Reader<'_>,
    numbers: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<(), CodecError> {
    let kind = reader.byte()?;
    if kind & REPEATS == 0 {
        return read_all(kind, count, reader, numbers, out);
    }
    let bitmap = reader.take(count.div_ceil(8))?;
    let is_new = |index: usize| bitmap[index / 8] >> (index % 8) & 1 == 1;
    let changes = (0..count).filter(|&index| is_new(index)).count();
    if changes == 0 || !is_new(0) {
        return Err(CodecError::Invalid("values that repeat nothing"));
    }
    let mut rest = Vec::with_capacity(changes);
    read_all(kind & !REPEATS, changes, reader, numbers, &mut rest)?;
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
    numbers: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<(), CodecError> {
    match kind {
        RAW => unpack(8, count, reader, |bits| out.push(f64::from_bits(bits))),
        CONSTANT => {
            let value = reader.float()?;
            out.resize(out.len() + count, value);
            Ok(())
        }
        DECIMAL => read_decimals(count, reader, numbers, out),
        SPLIT => {
            let min = u64::from(u16::from_le_bytes(reader.take(2)?.try_into().expect("2 bytes")));
            bits::read(count, reader, numbers)?;
            let mut uppers = numbers.iter();
            out.reserve(count);
            unpack(LOWER_BYTES, count, reader, |lower| {
                let Some(upper) = uppers.next() else { return };
                out.push(f64::from_bits(min.wrapping_add(*upper) << LOWER_BITS | lower));
            })
        }
        _ => Err(CodecError::Invalid("kind of values")),
    }
}

fn read_decimals(
    count: usize,
    reader: &mut Reader<'_>,
    numbers: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<(), CodecError> {
    let flags = reader.byte()?;
    let power = POWERS.get(usize::from(flags & !DIFFERENCES)).ok_or(CodecError::Invalid("power of ten"))?;
    let start = out.len();
    out.reserve(count);
    if flags & DIFFERENCES == 0 {
        let min = reader.signed()?;
        bits::read(count, reader, numbers)?;
        out.extend(numbers.iter().map(|above| from_decimal(min.wrapping_add(*above as i64), *power)));
    } else {
        let mut number = reader.signed()?;
        let min = reader.signed()?;
        bits::read(count - 1, reader, numbers)?;
        out.push(from_decimal(number, *power));
        out.extend(numbers.iter().map(|above| {
            number = number.wrapping_add(min).wrapping_add(*above as i64);
            from_decimal(number, *power)
        }));
    }
    let mut next = start;
    for _ in 0..reader.count(count, "number of exceptions")? {
        let index = next.saturating_add(reader.count(count, "place of an exception")?);
        let value = out.get_mut(index).ok_or(CodecError::Invalid("place of an exception"))?;
        *value = reader.float()?;
        next = index + 1;
    }
    Ok(())
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

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-1000i64..1000, 0usize..4).prop_map(|(number, power)| from_decimal(number, POWERS[power])),
            any::<u64>().prop_map(f64::from_bits),
            prop::sample::select(vec![
                -0.0,
                f64::NAN,
                f64::INFINITY,
                WHOLE_MAX,
                -WHOLE_MAX,
                f64::MIN_POSITIVE
            ]),
        ]
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
        prop_oneof![repeated, counter, smooth, prop::collection::vec(value(), 1..100)]
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
    fn usual_values_are_small() {
        let size = |value: fn(u32) -> f64| encoded(&(0..1000).map(value).collect::<Vec<_>>()).len();
        let noise = |index: u32| f64::from(index.wrapping_mul(2_654_435_761) >> 16);
        // A percentage with two digits; a counter of bytes; a gauge that mostly stays.
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

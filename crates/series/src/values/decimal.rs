//! Values as whole numbers and a power of ten.
//!
//! Results computed from decimals (a sum, a percentile) are usually decimals except for the last bits. The
//! distance in steps of the last bit is stored besides the number.

use super::numbers;
use crate::{
    CodecError, Result,
    packing::{Reader, put_varint},
};

/// Exact as doubles. The quotient of a whole number and one of them is rounded only once.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

const POWER: u8 = 0x1f;

/// A short decimal has fewer digits after the point.
const SHORT: usize = 8;

/// Numbers up to here are rounded by adding [`ROUND`], without a branch.
const NUMBER_MAX: f64 = (1u64 << 51) as f64;
const ROUND: f64 = (3u64 << 51) as f64;

/// A value is near a decimal if it is at most this many steps of the last bit away...
const STEPS_MAX: u64 = 64;
/// ... and the product of number and steps stays below this, else it would not be smaller.
const NEAR_MAX: f64 = (1u64 << 46) as f64;

/// How many values are sampled to choose the power of ten.
const SAMPLE: usize = 64;
/// If more than one in this many values is no decimal, none is encoded as a decimal.
const OTHERS: usize = 8;

/// The size of an exception in bits, with its index.
const EXCEPTION_BITS: usize = 72;

pub fn power(index: usize) -> Result<f64> {
    POWERS.get(index).copied().ok_or(CodecError::Invalid("power of ten"))
}

/// The whole number nearest to the value times the power; undefined beyond [`NUMBER_MAX`].
pub fn number(value: f64, power: f64) -> i64 {
    (value * power + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i64
}

/// For the decimal nearest to the value: whether it is in range, and the value's distance above it in steps
/// of the last bit.
fn steps(value: f64, power: f64) -> (bool, i64) {
    let scaled = value * power;
    let rounded = scaled + ROUND - ROUND;
    (scaled.abs() < NUMBER_MAX, value.to_bits().wrapping_sub((rounded / power).to_bits()) as i64)
}

fn is_near(value: f64, power: f64) -> bool {
    let (in_range, steps) = steps(value, power);
    let near = || (value * power).abs() * (steps.unsigned_abs() as f64) < NEAR_MAX;
    in_range && (steps == 0 || steps.unsigned_abs() <= STEPS_MAX && near())
}

/// The power and number of a value that is a short decimal.
pub fn exact(value: f64) -> Option<(usize, i64)> {
    let fits = |index: &usize| {
        let (in_range, steps) = steps(value, POWERS[*index]);
        in_range && steps == 0
    };
    let index = (0..SHORT).find(fits)?;
    Some((index, number(value, POWERS[index])))
}

/// Decodes a constant decimal.
pub fn constant(reader: &mut Reader<'_>) -> Result<f64> {
    let power = power(usize::from(reader.byte()?))?;
    Ok(reader.signed()? as f64 / power)
}

/// The power of ten expected to give the smallest encoding, by a sample: the best trade-off of digits and
/// exceptions. `None` if the values are no decimals.
fn power_of(values: &[f64]) -> Option<usize> {
    let step = values.len().div_ceil(SAMPLE);
    let sampled = values.len().div_ceil(step);
    let others_max = sampled / OTHERS;
    // The number of values that need each power.
    let (mut needs, mut others, mut last) = ([0; POWERS.len()], 0, 0);
    for &value in values.iter().step_by(step) {
        // Most need the same power as the value before.
        let needed = if is_near(value, POWERS[last]) {
            (0..last).rev().find(|&index| !is_near(value, POWERS[index])).map_or(0, |index| index + 1)
        } else {
            match (last + 1..POWERS.len()).find(|&index| is_near(value, POWERS[index])) {
                Some(index) => index,
                None if others == others_max => return None,
                None => {
                    others += 1;
                    continue;
                }
            }
        };
        last = needed;
        needs[needed] += 1;
    }
    // Each digit costs 10/3 bits a value; an exception costs about 72.
    let (mut best, mut best_cost, mut beyond) = (0, usize::MAX, 0);
    for index in (0..POWERS.len()).rev() {
        let cost = 10 * index * sampled + 3 * EXCEPTION_BITS * beyond;
        if needs[index] > 0 && cost < best_cost {
            (best, best_cost) = (index, cost);
        }
        beyond += needs[index];
    }
    (best_cost < usize::MAX).then_some(best)
}

/// Encoded decimals.
#[derive(Debug)]
pub struct Decimals {
    power: usize,
    numbers: numbers::Planned,
    exceptions: Vec<usize>,
    /// For each value; `None` if all are 0.
    steps: Option<numbers::Planned>,
}

impl Decimals {
    /// `None` if the values are no decimals.
    pub fn of(values: &[f64]) -> Option<Self> {
        let index = power_of(values)?;
        let power = POWERS[index];
        let mut whole: Vec<i64> = values.iter().map(|&value| number(value, power)).collect();
        let mut off = Vec::with_capacity(values.len());
        let (mut any_off, mut all_near) = (0, true);
        off.extend(values.iter().map(|&value| {
            let (in_range, steps) = steps(value, power);
            any_off |= steps;
            all_near &= in_range & (steps.unsigned_abs() <= STEPS_MAX);
            steps
        }));
        let mut exceptions = Vec::new();
        if !all_near {
            any_off = 0;
            for (place, value) in values.iter().enumerate() {
                let (in_range, steps) = steps(*value, power);
                if in_range && steps.unsigned_abs() <= STEPS_MAX {
                    any_off |= steps;
                } else {
                    exceptions.push(place);
                    // Repeating the number before costs the least.
                    whole[place] = if place > 0 { whole[place - 1] } else { 0 };
                    off[place] = 0;
                }
            }
        }
        let steps = (any_off != 0).then(|| numbers::Planned::plain(&off));
        Some(Decimals { power: index, numbers: numbers::Planned::of(&whole), exceptions, steps })
    }

    pub fn power(&self) -> usize {
        self.power
    }

    pub fn has_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// The approximate size in bits.
    pub fn cost(&self) -> usize {
        let steps = self.steps.as_ref().map_or(0, |steps| steps.cost() + 24);
        self.numbers.cost() + EXCEPTION_BITS * self.exceptions.len() + steps
    }

    pub fn put(&self, values: &[f64], out: &mut Vec<u8>) {
        out.push(self.power as u8 | self.numbers.mode());
        self.numbers.put(out);
        put_varint(self.exceptions.len() as u64, out);
        let mut next = 0;
        for &index in &self.exceptions {
            put_varint((index - next) as u64, out);
            out.extend_from_slice(&values[index].to_le_bytes());
            next = index + 1;
        }
        if let Some(steps) = &self.steps {
            steps.put(out);
        }
    }
}

/// Appends `count` values, at least one; with steps of the last bit if `with_steps`.
pub fn read(
    count: usize,
    with_steps: bool,
    reader: &mut Reader<'_>,
    buffer: &mut Vec<u64>,
    out: &mut Vec<f64>,
) -> Result<()> {
    let flags = reader.byte()?;
    let power = power(usize::from(flags & POWER))?;
    let start = out.len();
    numbers::read(flags & !POWER, count, reader, buffer, |number| {
        out.push(number as f64 / power);
    })?;
    let (mut next, mut exceptions) = (start, Vec::new());
    for _ in 0..reader.count(count, "number of exceptions")? {
        let index = next.saturating_add(reader.count(count, "place of an exception")?);
        if index >= out.len() {
            return Err(CodecError::Invalid("place of an exception"));
        }
        exceptions.push((index, reader.float()?));
        next = index + 1;
    }
    if with_steps {
        let min = numbers::read_above(count, reader, buffer)?;
        for (value, above) in out[start..].iter_mut().zip(buffer.iter()) {
            let steps = min.wrapping_add(*above as i64);
            *value = f64::from_bits(value.to_bits().wrapping_add(steps as u64));
        }
    }
    for (index, value) in exceptions {
        out[index] = value;
    }
    Ok(())
}

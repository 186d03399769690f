//! Values as whole numbers with the same order: all their bits, except the lowest ones that are 0 in all.

use super::numbers;
use crate::{CodecError, Result, packing::Reader};

/// Leaves at least one bit besides the sign.
const SHIFT_MAX: u32 = 62;

/// Maps the bits without the lowest ones to a number with the order of the values, and back. `shift` is at
/// most 63.
fn ordered(bits: i64, shift: u32) -> i64 {
    bits ^ ((bits >> 63) as u64 >> (1 + shift)) as i64
}

/// Encoded values.
#[derive(Debug)]
pub struct Ordered {
    shift: u32,
    numbers: numbers::Planned,
}

impl Ordered {
    pub fn of(values: &[f64]) -> Self {
        let any = values.iter().fold(0, |any, value| any | value.to_bits());
        let shift = any.trailing_zeros().min(SHIFT_MAX);
        let number = |value: &f64| ordered(value.to_bits() as i64 >> shift, shift);
        let numbers: Vec<i64> = values.iter().map(number).collect();
        Ordered { shift, numbers: numbers::Planned::of(&numbers) }
    }

    /// The approximate size in bits.
    pub fn cost(&self) -> usize {
        self.numbers.cost()
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.shift as u8);
        out.push(self.numbers.mode());
        self.numbers.put(out);
    }
}

/// Appends `count` values, at least one.
pub fn read(count: usize, reader: &mut Reader<'_>, buffer: &mut Vec<u64>, out: &mut Vec<f64>) -> Result<()> {
    let shift = u32::from(reader.byte()?);
    if shift > SHIFT_MAX {
        return Err(CodecError::Invalid("shift"));
    }
    numbers::read(reader.byte()?, count, reader, buffer, |number| {
        out.push(f64::from_bits((ordered(number, shift) as u64) << shift));
    })
}

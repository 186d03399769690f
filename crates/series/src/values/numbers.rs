//! Whole numbers: plain, as differences, or as differences of differences, whichever is smallest.
//!
//! ```text
//! signed varint  with differences: the first number; then, with differences of differences: the first difference
//! signed varint  the smallest of the rest; the excess of each as in `bits`, divided by
//! varint         with bit 5 of the mode: the common divisor (pages of memory, steps of a converter)
//! ```

use super::{DIVISOR, FIRST_DIFFERENCES, SECOND_DIFFERENCES};
use crate::{
    CodecError, Result, bits,
    packing::{Reader, put_signed, put_varint},
};

/// Encoded numbers.
#[derive(Debug)]
pub struct Planned {
    /// How many differences were taken.
    order: u8,
    /// The first number and the first difference.
    first: [i64; 2],
    min: i64,
    above: Vec<u64>,
    divisor: u64,
    plan: bits::Plan,
}

/// The smallest number, and each number's excess over it.
fn above_min(numbers: &[i64]) -> (i64, Vec<u64>) {
    let min = numbers.iter().copied().min().unwrap_or(0);
    (min, numbers.iter().map(|number| number.wrapping_sub(min) as u64).collect())
}

fn differences(numbers: &[i64]) -> Vec<i64> {
    numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
}

/// The greatest common divisor.
fn divisor_of(numbers: &[u64]) -> u64 {
    let mut divisor = 0;
    for &number in numbers {
        let mut rest = number;
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        if divisor == 1 {
            break;
        }
    }
    divisor.max(1)
}

impl Planned {
    /// Without differences or a divisor.
    pub fn plain(numbers: &[i64]) -> Self {
        let (min, above) = above_min(numbers);
        let plan = bits::plan(&above);
        Planned { order: 0, first: [0; 2], min, above, divisor: 1, plan }
    }

    /// Divided by their greatest common divisor.
    fn divided(numbers: &[i64]) -> Self {
        let mut planned = Self::plain(numbers);
        planned.divisor = divisor_of(&planned.above);
        if planned.divisor > 1 {
            planned.above.iter_mut().for_each(|number| *number /= planned.divisor);
            planned.plan = bits::plan(&planned.above);
        }
        planned
    }

    /// The smallest encoding of at least one number.
    pub fn of(numbers: &[i64]) -> Self {
        let plain = Self::divided(numbers);
        let once = differences(numbers);
        let Some(&second) = once.first() else { return plain };
        let twice = differences(&once);
        let mut differences = Self::divided(&once);
        (differences.order, differences.first) = (1, [numbers[0], 0]);
        let mut best = if differences.cost() < plain.cost() { differences } else { return plain };
        if !twice.is_empty() {
            let mut twice = Self::divided(&twice);
            (twice.order, twice.first) = (2, [numbers[0], second]);
            if twice.cost() < best.cost() {
                best = twice;
            }
        }
        best
    }

    /// The flags that decoding needs.
    pub fn mode(&self) -> u8 {
        let order = [0, FIRST_DIFFERENCES, SECOND_DIFFERENCES][usize::from(self.order)];
        if self.divisor > 1 { order | DIVISOR } else { order }
    }

    /// The approximate size in bits.
    pub fn cost(&self) -> usize {
        self.plan.cost + 16 * usize::from(self.order)
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        self.first[..usize::from(self.order)].iter().for_each(|&first| put_signed(first, out));
        put_signed(self.min, out);
        if self.divisor > 1 {
            put_varint(self.divisor, out);
        }
        bits::put_planned(&self.above, self.plan, out);
    }
}

/// Decodes order 0: returns the smallest number; `above` gets the excess of `count` numbers.
pub fn read_above(count: usize, reader: &mut Reader<'_>, above: &mut Vec<u64>) -> Result<i64> {
    let min = reader.signed()?;
    bits::read(count, reader, above)?;
    Ok(min)
}

/// Calls `each` with `count` numbers, at least one.
pub fn read(
    mode: u8,
    count: usize,
    reader: &mut Reader<'_>,
    buffer: &mut Vec<u64>,
    mut each: impl FnMut(i64),
) -> Result<()> {
    let order = match mode & !DIVISOR {
        0 => 0,
        FIRST_DIFFERENCES => 1,
        SECOND_DIFFERENCES if count > 2 => 2,
        _ => return Err(CodecError::Invalid("order of differences")),
    };
    let mut first = [0; 2];
    for first in &mut first[..order] {
        *first = reader.signed()?;
    }
    let min = reader.signed()?;
    let divisor = if mode & DIVISOR == 0 { 1 } else { reader.varint()? };
    bits::read(count - order, reader, buffer)?;
    let [mut number, mut difference] = first;
    let number_of = |above: u64| min.wrapping_add(above.wrapping_mul(divisor) as i64);
    match order {
        0 => buffer.iter().for_each(|&above| each(number_of(above))),
        1 => {
            each(number);
            for &above in buffer.iter() {
                number = number.wrapping_add(number_of(above));
                each(number);
            }
        }
        _ => {
            each(number);
            number = number.wrapping_add(difference);
            each(number);
            for &above in buffer.iter() {
                difference = difference.wrapping_add(number_of(above));
                number = number.wrapping_add(difference);
                each(number);
            }
        }
    }
    Ok(())
}

//! Unsigned numbers packed in the number of bits that most of them need. Larger numbers are exceptions: their
//! bits above that width follow the packed numbers.
//!
//! ```text
//! u8      width: 0 to 64 bits
//! bytes   the lowest bits of each number, one after the other from the lowest bit on
//! varint  exceptions; for each: varint numbers skipped since the one before; varint its bits above the width
//! ```

use crate::{
    CodecError, Result,
    packing::{Reader, put_varint},
};

/// The approximate overhead of an exception in bits: its distance, and the unused bits of varints.
const EXCEPTION_BITS: usize = 18;

/// A width, and the size in bits at this width.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    width: usize,
    pub cost: usize,
}

/// The width with the smallest encoding.
pub fn plan(numbers: &[u64]) -> Plan {
    let mut lengths = [0u32; 65];
    for number in numbers {
        lengths[length(*number)] += 1;
    }
    let mut best = Plan { width: 64, cost: usize::MAX };
    // The count and total bits of the numbers that are longer than the width.
    let (mut longer, mut bits) = (0, 0);
    let longest = lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    for width in (0..=longest).rev() {
        let cost = numbers.len() * width + longer * EXCEPTION_BITS + bits - longer * width;
        if cost <= best.cost {
            best = Plan { width, cost };
        }
        longer += lengths[width] as usize;
        bits += lengths[width] as usize * width;
    }
    best
}

/// In bits.
fn length(number: u64) -> usize {
    64 - number.leading_zeros() as usize
}

fn mask(width: usize) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// The bits above the lowest `width` bits.
fn above(number: u64, width: usize) -> u64 {
    number.checked_shr(width as u32).unwrap_or(0)
}

pub fn put(numbers: &[u64], out: &mut Vec<u8>) {
    put_planned(numbers, plan(numbers), out);
}

/// With the plan made for these numbers.
pub fn put_planned(numbers: &[u64], plan: Plan, out: &mut Vec<u8>) {
    let (width, mask) = (plan.width, mask(plan.width));
    out.push(width as u8);
    out.reserve(width * numbers.len() / 8 + 16);
    let (mut bits, mut held, mut longer) = (0u64, 0, 0);
    for number in numbers {
        let low = number & mask;
        longer += usize::from(low != *number);
        bits |= low << held;
        held += width;
        if held >= 64 {
            out.extend_from_slice(&bits.to_le_bytes());
            held -= 64;
            // The bits that did not fit; 0 if all did.
            bits = above(low, width - held);
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..held.div_ceil(8)]);
    put_varint(longer as u64, out);
    if longer == 0 {
        return;
    }
    let mut next = 0;
    for (index, number) in numbers.iter().enumerate().filter(|(_, number)| above(**number, width) > 0) {
        put_varint((index - next) as u64, out);
        put_varint(above(*number, width), out);
        next = index + 1;
    }
}

/// Reads `count` numbers into `out`, which is cleared.
pub fn read(count: usize, reader: &mut Reader<'_>, out: &mut Vec<u64>) -> Result<()> {
    let width = usize::from(reader.byte()?);
    if width > 64 {
        return Err(CodecError::Invalid("width"));
    }
    let bytes = reader.take(width.checked_mul(count).ok_or(CodecError::Truncated)?.div_ceil(8))?;
    out.clear();
    out.reserve(count);
    let mask = mask(width);
    // An 8-byte load at the byte of the first bit holds at least 57 bits of the number.
    let fast = if width <= 57 { count.min((8 * bytes.len()).saturating_sub(63) / width.max(1)) } else { 0 };
    let load = |bytes: &[u8], bit: usize| {
        let word = u64::from_le_bytes(bytes[bit / 8..bit / 8 + 8].try_into().expect("8 bytes"));
        word >> (bit % 8) & mask
    };
    out.extend((0..fast).map(|index| load(bytes, index * width)));
    let rest = &bytes[(fast * width / 8).min(bytes.len())..];
    if width <= 57 {
        // The last numbers: a load of 8 bytes would pass the end.
        let mut padded = [0; 24];
        padded[..rest.len()].copy_from_slice(rest);
        let from = fast * width / 8 * 8;
        out.extend((fast..count).map(|index| load(&padded, index * width - from)));
    } else {
        out.extend((0..count).map(|index| {
            let rest = &bytes[index * width / 8..];
            let mut padded = [0; 16];
            let length = rest.len().min(16);
            padded[..length].copy_from_slice(&rest[..length]);
            (u128::from_le_bytes(padded) >> (index * width % 8)) as u64 & mask
        }));
    }
    let mut next = 0usize;
    for _ in 0..reader.count(count, "number of exceptions")? {
        let index = next.saturating_add(reader.count(count, "place of an exception")?);
        let number = out.get_mut(index).ok_or(CodecError::Invalid("place of an exception"))?;
        *number |= reader.varint()?.checked_shl(width as u32).unwrap_or(0);
        next = index + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let number = prop_oneof![8 => (0u32..=64, any::<u64>()), 1 => (0u32..1, any::<u64>())];
        let width = 0u32..=64;
        (width, prop::collection::vec(number, 0..200)).prop_map(|(width, numbers)| {
            let cut = |(shift, number): (u32, u64)| match shift {
                0 => number,
                _ => number & mask(width as usize),
            };
            numbers.into_iter().map(cut).collect()
        })
    }

    proptest! {
        #[test]
        fn numbers_round_trip(numbers in numbers()) {
            let (mut bytes, mut back) = (Vec::new(), vec![7]);
            put(&numbers, &mut bytes);
            let mut reader = Reader(&bytes);
            read(numbers.len(), &mut reader, &mut back).unwrap();
            prop_assert!(reader.end().is_ok());
            prop_assert_eq!(back, numbers);
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>, count in 0usize..300) {
            let _ = read(count, &mut Reader(&bytes), &mut Vec::new());
        }
    }

    #[test]
    fn an_outlier_costs_itself() {
        let mut numbers = vec![3; 1000];
        numbers[500] = u64::MAX;
        let mut bytes = Vec::new();
        put(&numbers, &mut bytes);
        assert!(bytes.len() < 250 + 16, "{}", bytes.len());
    }
}

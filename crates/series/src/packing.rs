//! Shared by all codecs of this crate: a cursor over untrusted bytes, varints, and integers packed in the
//! number of whole bytes that the largest of them needs.
//!
//! Whole bytes, not bits: reading a packed number is one unaligned load and a mask. Packing and unpacking do
//! not branch on the numbers and run at memory speed.

use crate::{CodecError, Result};

/// Reads from the front of untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CodecError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn word(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub fn float(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.word()?))
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        match self.0.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.0 = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(CodecError::Invalid("varint"))
    }

    pub fn signed(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    /// A varint that counts at most `max` items.
    pub fn count(&mut self, max: usize, what: &'static str) -> Result<usize> {
        match usize::try_from(self.varint()?) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(CodecError::Invalid(what)),
        }
    }

    pub fn end(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(CodecError::Invalid("bytes after the end")) }
    }
}

/// Appends a number of 7 bits a byte, lowest first; the last byte has no high bit.
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_signed(value: i64, out: &mut Vec<u8>) {
    put_varint(zigzag(value), out);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The smallest and the largest of some differences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub min: i64,
    pub max: i64,
}

impl Span {
    pub fn new() -> Self {
        Span { min: i64::MAX, max: i64::MIN }
    }

    pub fn add(&mut self, value: i64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many bytes [`pack`] needs for each difference less the smallest.
    pub fn width(&self) -> usize {
        width_of(self.max.wrapping_sub(self.min) as u64)
    }
}

/// How many bytes [`pack`] needs for numbers up to `max`.
pub(crate) fn width_of(max: u64) -> usize {
    (64 - max.leading_zeros() as usize).div_ceil(8)
}

/// Appends `count` numbers, each truncated to `width` bytes.
pub(crate) fn pack(width: usize, count: usize, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let start = out.len();
    // Each store writes 8 bytes; the next one overwrites the excess.
    out.resize(start + width * count + 8, 0);
    let room = &mut out[start..];
    for (index, number) in numbers.take(count).enumerate() {
        room[index * width..index * width + 8].copy_from_slice(&number.to_le_bytes());
    }
    out.truncate(start + width * count);
}

/// Calls `each` with `count` numbers of `width` bytes each, in order.
pub(crate) fn unpack(
    width: usize,
    count: usize,
    reader: &mut Reader<'_>,
    mut each: impl FnMut(u64),
) -> Result<()> {
    match width {
        0 => (0..count).for_each(|_| each(0)),
        1..=8 => {
            let bytes = reader.take(width.checked_mul(count).ok_or(CodecError::Truncated)?)?;
            let mask = u64::MAX >> (64 - 8 * width);
            let whole = (bytes.len().saturating_sub(7)).div_ceil(width).min(count);
            for index in 0..whole {
                let at = index * width;
                each(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) & mask);
            }
            for number in bytes[whole * width..].chunks_exact(width) {
                let mut padded = [0; 8];
                padded[..width].copy_from_slice(number);
                each(u64::from_le_bytes(padded));
            }
        }
        _ => return Err(CodecError::Invalid("width")),
    }
    Ok(())
}

/// CRC32C (Castagnoli), as in the log's records.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Appends the checksum of what `out` holds from `start` on.
pub(crate) fn put_checksum(start: usize, out: &mut Vec<u8>) {
    let sum = checksum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
pub(crate) mod damage {
    //! Damage that a checksum does not show.

    use proptest::{collection, prelude::*, sample::Index};

    use super::put_checksum;

    /// Other bytes, and where the rest is cut off.
    pub(crate) type Damage = (Vec<(Index, u8)>, Option<Index>);

    pub(crate) fn damage() -> impl Strategy<Value = Damage> {
        (collection::vec((any::<Index>(), any::<u8>()), 0..4), any::<Option<Index>>())
    }

    /// The bytes with the damage, and with a checksum that matches.
    pub(crate) fn damaged(mut bytes: Vec<u8>, (changes, cut): Damage) -> Vec<u8> {
        bytes.truncate(bytes.len() - 4);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        put_checksum(0, &mut bytes);
        bytes
    }
}

/// The bytes before the checksum, if it matches.
pub(crate) fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or(CodecError::Truncated)?;
    if checksum(body) == u32::from_le_bytes(*sum) { Ok(body) } else { Err(CodecError::Checksum) }
}

/// The row count that a block of aggregates or raw points claims, at most `max`. For reserving memory before
/// the checksum is verified.
pub(crate) fn claimed_rows(bytes: &[u8], max: usize) -> usize {
    let mut reader = Reader(bytes);
    let rows = reader.byte().and_then(|_version| reader.varint()).unwrap_or(0);
    usize::try_from(rows).map_or(max, |rows| rows.min(max))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksum_is_crc32c() {
        // The check value of CRC-32/ISCSI.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            put_signed(value as i64, &mut bytes);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.signed(), Ok(value as i64));
            prop_assert!(reader.end().is_ok());
        }

        #[test]
        fn packed_numbers_round_trip(bits in 0u32..=64, numbers in prop::collection::vec(any::<u64>(), 0..40)) {
            let numbers: Vec<u64> = numbers.iter().map(|n| n.checked_shr(64 - bits).unwrap_or(0)).collect();
            let width = width_of(numbers.iter().copied().max().unwrap_or(0));
            prop_assert!(width <= bits.div_ceil(8) as usize);
            let mut bytes = vec![7];
            pack(width, numbers.len(), numbers.iter().copied(), &mut bytes);
            prop_assert_eq!(bytes.len(), 1 + width * numbers.len());
            let (mut reader, mut back) = (Reader(&bytes[1..]), Vec::new());
            unpack(width, numbers.len(), &mut reader, |number| back.push(number)).unwrap();
            prop_assert_eq!(back, numbers);
            prop_assert!(reader.end().is_ok());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>, width in 0usize..12, count: usize) {
            let count = if width == 0 { count % 100 } else { count };
            let _ = unpack(width, count, &mut Reader(&bytes), |_| ());
            let _ = Reader(&bytes).varint();
        }
    }
}

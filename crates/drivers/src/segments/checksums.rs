//! CRC32C of ranges of a frame that overlap: each takes a few hundred bytes, however long the range is.
//!
//! CRCs are linear: that of a range follows from those of the bytes up to its start and up to its end (zlib's
//! `crc32_combine`, solved for the second part). Polynomials over GF(2) have the coefficient of x^0 in the highest bit.

use std::ops::Range;

/// CRC32C's polynomial, without x^32.
const POLYNOMIAL: u32 = 0x82F6_3B78;
const ONE: u32 = 1 << 31;
/// How far apart the recorded checksums are, in bytes: they take a 64th of the frame.
const STRIDE: usize = 256;

/// The checksums of a frame's ranges.
pub struct Checksums<'a> {
    bytes: &'a [u8],
    /// The checksum of the first n strides, for each n; empty until ranges overlap.
    recorded: Vec<u32>,
    /// x^8, and each the square of the one before.
    powers: [u32; 32],
}

impl<'a> Checksums<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, recorded: Vec::new(), powers: [0; 32] }
    }

    /// To be called before ranges overlap: reads all bytes once.
    pub fn record(&mut self) {
        if !self.recorded.is_empty() {
            return;
        }
        let mut power = ONE >> 8;
        for of in &mut self.powers {
            *of = power;
            power = multiply(power, power);
        }
        let stride = self.power(STRIDE);
        let mut checksum = 0;
        self.recorded.push(checksum);
        for bytes in self.bytes.chunks_exact(STRIDE) {
            checksum = multiply(stride, checksum) ^ crc(bytes);
            self.recorded.push(checksum);
        }
    }

    pub fn of(&self, range: Range<usize>) -> u32 {
        if self.recorded.is_empty() || range.len() <= 2 * STRIDE {
            return crc(&self.bytes[range]);
        }
        self.up_to(range.end) ^ multiply(self.power(range.len()), self.up_to(range.start))
    }

    /// Of all bytes before `end`.
    fn up_to(&self, end: usize) -> u32 {
        let (strides, rest) = (end / STRIDE, end % STRIDE);
        multiply(self.power(rest), self.recorded[strides]) ^ crc(&self.bytes[end - rest..end])
    }

    /// x^(8 * bytes): a checksum is multiplied by it when this number of bytes follows.
    fn power(&self, mut bytes: usize) -> u32 {
        let mut product = ONE;
        for power in &self.powers {
            if bytes & 1 == 1 {
                product = multiply(product, *power);
            }
            bytes >>= 1;
            if bytes == 0 {
                break;
            }
        }
        product
    }
}

/// The product of two polynomials, modulo CRC32C's.
fn multiply(mut one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    while one != 0 {
        if one & ONE != 0 {
            product ^= other;
        }
        one <<= 1;
        other = (other >> 1) ^ if other & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

fn crc(bytes: &[u8]) -> u32 {
    #[cfg(test)]
    tests::READ_BYTES.set(tests::READ_BYTES.get() + bytes.len());
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// How many bytes this thread has read for checksums.
        pub static READ_BYTES: Cell<usize> = const { Cell::new(0) };
    }

    proptest! {
        #[test]
        fn a_range_has_the_checksum_of_its_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..5_000),
            ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 20),
        ) {
            let mut recorded = Checksums::new(&bytes);
            recorded.record();
            for (one, other) in ranges {
                let (one, other) = (one.index(bytes.len() + 1), other.index(bytes.len() + 1));
                let range = one.min(other)..one.max(other);
                let expected = crc_fast::crc32_iscsi(&bytes[range.clone()]);
                prop_assert_eq!(recorded.of(range.clone()), expected, "{:?}", range);
                prop_assert_eq!(Checksums::new(&bytes).of(range), expected);
            }
        }
    }
}

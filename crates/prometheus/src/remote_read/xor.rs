//! Encodes samples as a chunk of Prometheus with encoding XOR (`tsdb/docs/format/chunks.md`): times as deltas of
//! deltas, values as the XOR with the previous value. Lossless: all bits of the values are preserved.

use crate::protobuf::put_varint;

/// The widths in bits of a delta of deltas, each with its prefix and the prefix' width. Larger ones have 64 bits and
/// the prefix `1111`.
const WIDTHS: [(u32, u64, u32); 3] = [(14, 0b10, 2), (17, 0b110, 3), (20, 0b1110, 4)];

/// The maximum count of leading zeros, which has five bits. Further leading zeros are encoded as part of the value.
const LEADING_MAX: u32 = 31;

/// Encodes at most 65,535 samples. Both slices must have the same length.
pub(super) fn encode(times_ms: &[i64], values: &[f64]) -> Vec<u8> {
    let count = u16::try_from(times_ms.len()).expect("a chunk has few samples");
    let mut out = BitWriter { bytes: count.to_be_bytes().to_vec(), free: 0 };
    let (mut delta, mut window) = (0_i64, None);
    for (index, (&time, &value)) in times_ms.iter().zip(values).enumerate() {
        if index == 0 {
            out.varint((time << 1 ^ time >> 63).cast_unsigned());
            out.write(value.to_bits(), 64);
            continue;
        }
        let new_delta = time.wrapping_sub(times_ms[index - 1]);
        if index == 1 {
            out.varint(new_delta.cast_unsigned());
        } else {
            put_delta_of_delta(new_delta.wrapping_sub(delta), &mut out);
        }
        delta = new_delta;
        put_value(value.to_bits() ^ values[index - 1].to_bits(), &mut window, &mut out);
    }
    out.bytes
}

/// Appends a delta of deltas.
fn put_delta_of_delta(delta_of_delta: i64, out: &mut BitWriter) {
    if delta_of_delta == 0 {
        out.write(0, 1);
        return;
    }
    let fits = |width: u32| (-((1_i64 << (width - 1)) - 1)..=1 << (width - 1)).contains(&delta_of_delta);
    if let Some(&(width, prefix, prefix_bits)) = WIDTHS.iter().find(|(width, ..)| fits(*width)) {
        out.write(prefix, prefix_bits);
        out.write(delta_of_delta.cast_unsigned(), width);
    } else {
        out.write(0b1111, 4);
        out.write(delta_of_delta.cast_unsigned(), 64);
    }
}

/// Appends the XOR of two values without its leading and trailing zeros. `window` has the counts of these zeros as last
/// written; they are reused if this XOR has at least as many.
fn put_value(xor: u64, window: &mut Option<(u32, u32)>, out: &mut BitWriter) {
    if xor == 0 {
        out.write(0, 1);
        return;
    }
    out.write(1, 1);
    let own = (xor.leading_zeros().min(LEADING_MAX), xor.trailing_zeros());
    if let Some((leading, trailing)) = *window
        && own.0 >= leading
        && own.1 >= trailing
    {
        out.write(0, 1);
        out.write(xor >> trailing, 64 - leading - trailing);
        return;
    }
    let (leading, trailing) = own;
    let bits = 64 - leading - trailing;
    out.write(1, 1);
    out.write(u64::from(leading), 5);
    // 64 does not fit into six bits and is written as 0.
    out.write(u64::from(bits), 6);
    out.write(xor >> trailing, bits);
    *window = Some(own);
}

/// Writes bits, starting with the most significant bit of each byte.
struct BitWriter {
    bytes: Vec<u8>,
    /// The number of unused bits of the last byte.
    free: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of a number.
    fn write(&mut self, number: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let taken = left.min(self.free);
            let bits = (number >> (left - taken)) as u8 & (0xff >> (8 - taken));
            *self.bytes.last_mut().expect("one was pushed") |= bits << (self.free - taken);
            self.free -= taken;
            left -= taken;
        }
    }

    fn varint(&mut self, number: u64) {
        let mut bytes = Vec::with_capacity(10);
        put_varint(number, &mut bytes);
        for byte in bytes {
            self.write(u64::from(byte), 8);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    /// A slow decoder, bit by bit, written after the description of the format.
    pub fn decode(chunk: &[u8]) -> Vec<(i64, u64)> {
        let count = u16::from_be_bytes([chunk[0], chunk[1]]);
        let mut bits = chunk[2..].iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        let mut read =
            |count: u32| (0..count).fold(0_u64, |number, _| number << 1 | u64::from(bits.next().unwrap()));
        let varint = |read: &mut dyn FnMut(u32) -> u64| {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = read(8);
                number |= (byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return number;
                }
            }
        };
        let (mut samples, mut time, mut delta, mut value, mut window) =
            (Vec::new(), 0_i64, 0_i64, 0_u64, (0, 0));
        for index in 0..count {
            match index {
                0 => {
                    let zigzag = varint(&mut read);
                    time = (zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed());
                    value = read(64);
                    samples.push((time, value));
                    continue;
                }
                1 => delta = varint(&mut read).cast_signed(),
                _ => {
                    let width = [0, 14, 17, 20, 64][(0..4).take_while(|_| read(1) == 1).count()];
                    let mut delta_of_delta = if width == 0 { 0 } else { read(width).cast_signed() };
                    if width != 0 && width != 64 && delta_of_delta > 1 << (width - 1) {
                        delta_of_delta -= 1 << width;
                    }
                    delta = delta.wrapping_add(delta_of_delta);
                }
            }
            time = time.wrapping_add(delta);
            if read(1) == 1 {
                if read(1) == 1 {
                    let leading = read(5) as u32;
                    let length = match read(6) as u32 {
                        0 => 64,
                        length => length,
                    };
                    window = (leading, 64 - leading - length);
                }
                value ^= read(64 - window.0 - window.1) << window.1;
            }
            samples.push((time, value));
        }
        samples
    }

    proptest! {
        #[test]
        fn encoded_chunks_are_decoded(
            start in -10_000_000_000_000_i64..10_000_000_000_000,
            samples in collection::vec((prop_oneof![Just(15_000_i64), 14_990..15_010_i64, 1..10_000_000_i64, 1..i64::from(u32::MAX) * 4], prop_oneof![any::<u64>(), (0_u64..40).prop_map(|whole| (whole as f64).to_bits()), Just(0x7ff0_0000_0000_0002)]), 0..200),
        ) {
            let mut time = start;
            let samples: Vec<(i64, u64)> = samples.into_iter().map(|(delta, bits)| { time += delta; (time, bits) }).collect();
            let (times, values): (Vec<i64>, Vec<f64>) = samples.iter().map(|(time, bits)| (*time, f64::from_bits(*bits))).unzip();
            prop_assert_eq!(decode(&encode(&times, &values)), samples);
        }
    }

    #[test]
    fn deltas_at_the_limits_of_a_width_are_decoded() {
        for width in [14_u32, 17, 20] {
            let edge = 1_i64 << (width - 1);
            for delta_of_delta in [-edge - 1, -edge, -edge + 1, edge - 1, edge, edge + 1] {
                let times = [0, 2_000_000, 4_000_000 + delta_of_delta];
                let read = decode(&encode(&times, &[1.0, 1.0, 2.0]));
                assert_eq!(read.iter().map(|sample| sample.0).collect::<Vec<_>>(), times, "{delta_of_delta}");
            }
        }
    }

    /// The bytes that Prometheus' encoder (3.16) gives for these samples.
    #[test]
    fn chunks_equal_those_of_prometheus() {
        let times = [1_700_000_000_000, 1_700_000_015_000, 1_700_000_030_001, 1_700_000_045_000];
        let chunk = encode(&times, &[1.0, 1.0, 2.5, f64::from_bits(0x7ff0_0000_0000_0002)]);
        let own = [
            0x00, 0x04, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x3f, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x98, 0x75, 0x40, 0x00, 0xe1, 0x37, 0xff, 0xb7, 0xff, 0xd8, 0xbd, 0xff, 0xd0, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x08,
        ];
        assert_eq!(chunk, own);
    }
}

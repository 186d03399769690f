//! Formats floats as Python's `repr` does. All numbers in Gnocchi's API are written this way.
//!
//! zmij finds the shortest digits that read back as the same double; its layout equals Python's between 1e-4
//! and 1e16. Outside, `gnudi_model::python` prints them (`1e-05`, `1.5e+16`). `NaN` and `Infinity` are as in JSON.
//!
//! Fast path: most series have few decimals, and as many in each value. A [`Printer`] tries the last value's
//! number of decimals first: if a decimal of up to 15 digits reads back as the double, it is the shortest.

use gnudi_model::python::text_of_float;

/// Within this range of magnitudes, zmij and Python use the same fixed notation.
const FIXED: std::ops::Range<f64> = 1e-4..1e16;

/// The longest text of a float: `-2.2250738585072014e-308`.
pub const TEXT_BYTES_MAX: usize = 24;

/// Buffer size: writes behind the text's end are allowed.
pub const ROOM_BYTES: usize = 32;

/// Appends `value` as JSON text.
pub fn write(value: f64, out: &mut Vec<u8>) {
    let mut text = [0; ROOM_BYTES];
    let length = Printer::default().put(value, &mut text);
    out.extend_from_slice(&text[..length]);
}

/// Prints values; tries the previous value's number of decimals first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printer {
    /// 1 to `DECIMALS_MAX`; 0 where the last value had more.
    decimals: usize,
}

const DECIMALS_MAX: usize = 8;
const POWERS: [f64; DECIMALS_MAX + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// Decimals of up to this many digits map to distinct doubles.
const SURE_DIGITS: usize = 15;
const SURE_END: f64 = 1e15;

impl Printer {
    /// Writes `value` as JSON text to the start of `out`; returns its length.
    #[inline]
    pub fn put(&mut self, value: f64, out: &mut [u8; ROOM_BYTES]) -> usize {
        let magnitude = value.abs();
        if !FIXED.contains(&magnitude) && value != 0.0 {
            let text = unusual(value);
            out[..text.len()].copy_from_slice(text.as_bytes());
            return text.len();
        }
        if self.decimals > 0 {
            let power = POWERS[self.decimals];
            let scaled = magnitude * power + 0.5;
            if scaled < SURE_END {
                let digits = scaled as i64;
                // Both operands are exact, so the quotient is the double that the decimal reads as.
                if digits as f64 / power == magnitude {
                    return put_decimal(value.is_sign_negative(), digits as u64, self.decimals, out);
                }
            }
        }
        self.search(value, out)
    }

    fn search(&mut self, value: f64, out: &mut [u8; ROOM_BYTES]) -> usize {
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(value).as_bytes();
        out[..text.len()].copy_from_slice(text);
        let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
        let decimals = text.len().saturating_sub(point + 1);
        let fits = decimals <= DECIMALS_MAX && text.len() <= SURE_DIGITS;
        self.decimals = if fits { decimals } else { 0 };
        text.len()
    }
}

/// Writes `digits / 10^decimals` without trailing zeros, but with at least one decimal; at most 16 digits.
#[inline]
fn put_decimal(negative: bool, digits: u64, decimals: usize, out: &mut [u8; ROOM_BYTES]) -> usize {
    let high = eight_digits((digits / 100_000_000) as u32);
    let low = eight_digits((digits % 100_000_000) as u32);
    // One digit per byte, the first in the lowest byte.
    let all = u128::from(high) | u128::from(low) << 64;
    let leading_zeros = all.trailing_zeros() as usize / 8;
    let whole_start = leading_zeros.min(15 - decimals);
    let whole_digits = 16 - decimals - whole_start;
    let fraction = (all >> (8 * (16 - decimals))) as u64;
    let fraction_digits = (8 - fraction.leading_zeros() as usize / 8).max(1);
    let ascii = all | 0x3030_3030_3030_3030_3030_3030_3030_3030;
    out[0] = b'-';
    let at = usize::from(negative);
    out[at..at + 16].copy_from_slice(&(ascii >> (8 * whole_start)).to_le_bytes());
    let at = at + whole_digits;
    out[at] = b'.';
    let fraction = (ascii >> (8 * (16 - decimals))) as u64;
    out[at + 1..at + 9].copy_from_slice(&fraction.to_le_bytes());
    at + 1 + fraction_digits
}

/// The eight decimal digits of a number below 10^8, one per byte, the first in the lowest byte.
#[inline]
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// A value that is infinite, NaN, or has an exponent.
#[cold]
fn unusual(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        text_of_float(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn looks_as_python_prints_it() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (60.0, "60.0"),
            (4.2, "4.2"),
            (-1.5, "-1.5"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (0.000_01, "1e-05"),
            (-0.000_099_9, "-9.99e-05"),
            (1e-7, "1e-07"),
            (1.5e-10, "1.5e-10"),
            (5e-324, "5e-324"),
            (2.225_073_858_507_201_4e-308, "2.2250738585072014e-308"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (-12_345_678_901_234_567_000.0, "-1.2345678901234567e+19"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (123_456_789.125, "123456789.125"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn a_printer_expects_decimals_and_is_never_wrong() {
        let mut printer = Printer::default();
        for (value, expected) in [
            (1.5, "1.5"),
            (12.0, "12.0"),
            (-0.0, "-0.0"),
            (0.25, "0.25"),
            (100.5, "100.5"),
            (-123_456.78, "-123456.78"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.3, "0.3"),
            (1.234_567_8, "1.2345678"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (9_999_999.999, "9999999.999"),
            (99_999_999_999_999.9, "99999999999999.9"),
            (999_999_999_999_999.9, "999999999999999.9"),
            (0.999_999_999, "0.999999999"),
            (4_503_599_627_370_495.5, "4503599627370495.5"),
            (10.0, "10.0"),
        ] {
            let mut out = [b'x'; ROOM_BYTES];
            let length = printer.put(value, &mut out);
            assert_eq!(std::str::from_utf8(&out[..length]), Ok(expected));
        }
    }

    proptest! {
        #[test]
        fn a_printer_prints_what_a_new_one_prints(
            values in prop::collection::vec((any::<i64>(), 0..60_u32, 0..12_i32, any::<bool>()), 1..50)
        ) {
            let mut printer = Printer::default();
            for (number, shift, decimals, noise) in values {
                let decimal: f64 = format!("{}e-{decimals}", number >> shift).parse().unwrap();
                let value = if noise { f64::from_bits(decimal.to_bits() ^ 1) } else { decimal };
                let mut out = [0; ROOM_BYTES];
                let length = printer.put(value, &mut out);
                prop_assert_eq!(std::str::from_utf8(&out[..length]).unwrap(), text(value));
            }
        }

        #[test]
        fn reads_back_as_the_same_double(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = text(value);
            prop_assert!(text.len() <= TEXT_BYTES_MAX);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}

//! Parses JSON numbers to correctly rounded `f64`: common ones by eight-digit words and one division, others
//! by fast-float2.
//!
//! Accepts exactly RFC 8259's grammar. Gnocchi's extensions (`1.`, `01`, `NaN`) are for the slow path.

/// 10^0 to 10^16, which are exact doubles.
const POWERS: [f64; 17] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];

/// This many digits always fit a `u64`.
const DIGITS_MAX: usize = 19;

/// Longer integers may not fit a Python float: an error there, infinity here.
const INTEGER_DIGITS_MAX: usize = 300;

/// The bytes that [`read_usual`] reads: a sign, four words of digits around a point, and what follows.
const WINDOW: usize = 40;

/// 10^0 to 10^16, as integers.
const INTEGER_POWERS: [u64; 17] = {
    let mut powers = [1; 17];
    let mut exponent = 1;
    while exponent < 17 {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// All integers up to this are exact doubles.
const EXACT_MAX: u64 = 1 << 53;

/// Parses the number at `start`; returns its end too. `None` if there is no JSON number.
#[inline]
pub fn read(input: &[u8], start: usize) -> Option<(f64, usize)> {
    read_usual(input, start).or_else(|| read_any(input, start))
}

/// The fast path, for digits that fit an exact double; its branches do not depend on the number of digits.
/// `None` for all others, and near the end of the input.
#[inline]
fn read_usual(input: &[u8], start: usize) -> Option<(f64, usize)> {
    let window: &[u8; WINDOW] = input.get(start..)?.first_chunk()?;
    let negative = window[0] == b'-';
    let first = usize::from(negative);
    let (whole, whole_digits) = leading_digits(window, first)?;
    if whole_digits == 0 || (whole_digits > 1 && window[first] == b'0') {
        return None;
    }
    let mut end = first + whole_digits;
    let mut magnitude = whole as f64;
    if window[end] == b'.' {
        let (fraction, fraction_digits) = leading_digits(window, end + 1)?;
        if fraction_digits == 0 || whole_digits + fraction_digits > DIGITS_MAX {
            return None;
        }
        let mantissa = whole * INTEGER_POWERS[fraction_digits] + fraction;
        if mantissa > EXACT_MAX {
            return None;
        }
        end += 1 + fraction_digits;
        // Both operands are exact, so the quotient is correctly rounded (Clinger 1990).
        magnitude = mantissa as f64 / POWERS[fraction_digits];
    } else if whole == 0 {
        // Python's integer zero has no sign.
        return (window[end] | 0x20 != b'e').then_some((0.0, start + end));
    }
    let value = if negative { -magnitude } else { magnitude };
    (window[end] | 0x20 != b'e').then_some((value, start + end))
}

/// The value and number of the digits at `at`; `None` beyond sixteen.
#[inline]
fn leading_digits(window: &[u8; WINDOW], at: usize) -> Option<(u64, usize)> {
    let (first, count) = digits_of_word(window, at)?;
    if count < 8 {
        return Some((first, count));
    }
    let (second, count) = digits_of_word(window, at + 8)?;
    if count == 8 && window.get(at + 16)?.is_ascii_digit() {
        return None;
    }
    Some((first * INTEGER_POWERS[count] + second, 8 + count))
}

/// The value and number of the leading digits in the eight bytes at `at`.
#[inline]
fn digits_of_word(window: &[u8; WINDOW], at: usize) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*window.get(at..)?.first_chunk()?);
    let digits = word ^ 0x3030_3030_3030_3030;
    // The lowest byte that is no digit is always marked; carries may mark bytes above it.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    // Shift the digits to the end of the word, filling up with zeros.
    let number = if count == 0 { 0 } else { number_of_eight(digits << (64 - 8 * count)) };
    Some((number, count))
}

/// Parses any number: its end by the grammar, its value by fast-float2.
#[inline(never)]
fn read_any(input: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut at = start + usize::from(input.get(start) == Some(&b'-'));
    let digits = |at: &mut usize| {
        let from = *at;
        while is_digit_at(input, *at) {
            *at += 1;
        }
        *at - from
    };
    let first = at;
    let whole_digits = digits(&mut at);
    if whole_digits == 0 || (whole_digits > 1 && input[first] == b'0') {
        return None;
    }
    let mut integer = true;
    if input.get(at) == Some(&b'.') {
        integer = false;
        at += 1;
        if digits(&mut at) == 0 {
            return None;
        }
    }
    if matches!(input.get(at), Some(b'e' | b'E')) {
        integer = false;
        at += 1;
        at += usize::from(matches!(input.get(at), Some(b'+' | b'-')));
        if digits(&mut at) == 0 {
            return None;
        }
    }
    if integer && whole_digits > INTEGER_DIGITS_MAX {
        return None;
    }
    let value = fast_float2::parse::<f64, _>(&input[start..at]).ok()?;
    Some((if integer && value == 0.0 { 0.0 } else { value }, at))
}

#[inline]
fn is_digit_at(input: &[u8], at: usize) -> bool {
    input.get(at).is_some_and(u8::is_ascii_digit)
}

/// The number formed by eight digit values, the first in the lowest byte.
#[inline]
fn number_of_eight(digits: u64) -> u64 {
    let pairs = (digits * 10) + (digits >> 8);
    let mask = 0x0000_00ff_0000_00ff;
    let high = (pairs & mask).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & mask).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_json_numbers_are_numbers() {
        for text in ["", "-", "+1", ".5", "1.", "01", "-01", "1e", "1e+", "NaN", "inf", "1.e5", "x"] {
            assert_eq!(read(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(read(b"4.2}", 0), Some((4.2, 3)));
        assert_eq!(read(b"x-17,", 1), Some((-17.0, 4)));
        assert_eq!(read(b"1e400", 0), Some((f64::INFINITY, 5)));
    }

    #[test]
    fn a_number_ends_where_its_digits_end_wherever_it_stands() {
        for text in [
            "0",
            "7",
            "-17",
            "12345678",
            "123456789",
            "1234567890123456",
            "12345678901234567",
            "0.1",
            "-0.5",
            "1.12345678",
            "0.1234567890123456",
            "0.12345678901234567",
            "99999999.99999999",
            "1420113600.25",
            "9007199254740993",
            "0e5",
            "1.5e3",
            "1E5",
            "123.456E-2",
            "9007199254740992.5",
            "0.000001",
            "1000000.0",
            "-0.0",
            "9999999999999999.1",
        ] {
            let expected = text.parse::<f64>().unwrap().to_bits();
            for behind in ["", ",", "}", "x", "]                                        ", "\u{80}"] {
                for before in ["", "                                                   "] {
                    let input = format!("{before}{text}{behind}");
                    let (value, end) = read(input.as_bytes(), before.len()).unwrap();
                    assert_eq!((value.to_bits(), end), (expected, before.len() + text.len()), "{input}");
                }
            }
        }
    }

    #[test]
    fn only_fractions_have_a_negative_zero() {
        assert!(read(b"-0", 0).unwrap().0.is_sign_positive());
        assert!(read(b"-0.0", 0).unwrap().0.is_sign_negative());
        assert!(read(b"-0e5", 0).unwrap().0.is_sign_negative());
        assert!(read(b"-00000000000000000000", 0).is_none());
    }

    proptest! {
        #[test]
        fn printed_doubles_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            for text in [format!("{value:?}"), format!("{value:e}"), format!("{value:.3}"), format!("{value:.0}.0")] {
                let expected: f64 = text.parse().unwrap();
                // Once at the end of the input, once followed by the whole window.
                for input in [text.clone(), format!("{text}{:50}", "}")] {
                    match read(input.as_bytes(), 0) {
                        Some((read, end)) => prop_assert_eq!((read.to_bits(), end), (expected.to_bits(), text.len())),
                        None => prop_assert!(false, "{}", input),
                    }
                }
            }
        }

        #[test]
        fn decimal_texts_are_rounded_correctly(text in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?") {
            let expected: f64 = text.parse().unwrap();
            for input in [text.clone(), format!("{text}{:50}", ",")] {
                let (value, end) = read(input.as_bytes(), 0).unwrap();
                prop_assert_eq!(value, expected);
                prop_assert_eq!(end, text.len());
            }
        }
    }
}

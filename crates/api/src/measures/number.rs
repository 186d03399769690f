//! Reads JSON numbers as `f64`, correctly rounded: the common ones by one multiplication, the others by fast-float2.
//!
//! Accepts exactly RFC 8259's grammar; what else Gnocchi's parser takes (`1.`, `01`, `NaN`) is for the slow path.

/// 10^0 to 10^22: the powers that an `f64` holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// A mantissa of this many digits cannot overflow a `u64`.
const DIGITS_MAX: usize = 19;

/// An integer of more digits than this may not fit a Python float, which is an error there and infinity here.
const INTEGER_DIGITS_MAX: usize = 300;

/// The number at `start` and the index behind it; `None` where there is no plain JSON number.
#[inline]
pub fn read(input: &[u8], start: usize) -> Option<(f64, usize)> {
    let negative = input.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let mut mantissa: u64 = 0;
    let mut at = first;
    while let Some(digit) = digit_at(input, at) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let whole_digits = at - first;
    if whole_digits == 0 || (whole_digits > 1 && input[first] == b'0') {
        return None;
    }
    match input.get(at) {
        Some(b'.') => {}
        Some(b'e' | b'E') => return read_slowly(input, start),
        // A Python integer has no negative zero.
        _ if whole_digits < DIGITS_MAX => {
            let value = mantissa as f64;
            return Some((if negative && mantissa != 0 { -value } else { value }, at));
        }
        _ => return read_slowly(input, start),
    }
    at += 1;
    let fraction = at;
    while let Some(eight) = eight_digits(input, at) {
        mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(eight);
        at += 8;
    }
    while let Some(digit) = digit_at(input, at) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let fraction_digits = at - fraction;
    if fraction_digits == 0 {
        return None;
    }
    let exact = whole_digits + fraction_digits <= DIGITS_MAX
        && mantissa <= 1 << 53
        && !matches!(input.get(at), Some(b'e' | b'E'));
    if !exact {
        return read_slowly(input, start);
    }
    // Both operands are exact, so that the quotient is rounded once (Clinger 1990).
    let value = mantissa as f64 / POWERS[fraction_digits];
    Some((if negative { -value } else { value }, at))
}

#[cold]
fn read_slowly(input: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut at = start + usize::from(input.get(start) == Some(&b'-'));
    let digits = |at: &mut usize| {
        let from = *at;
        while digit_at(input, *at).is_some() {
            *at += 1;
        }
        *at - from
    };
    let whole_digits = digits(&mut at);
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
fn digit_at(input: &[u8], at: usize) -> Option<u64> {
    let digit = input.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// The value of the eight digits at `at`, all at once.
#[inline]
fn eight_digits(input: &[u8], at: usize) -> Option<u64> {
    let word = u64::from_le_bytes(*input.get(at..)?.first_chunk()?);
    let digits = word ^ 0x3030_3030_3030_3030;
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits * 10) + (digits >> 8);
    let mask = 0x0000_00ff_0000_00ff;
    let high = (pairs & mask).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & mask).wrapping_mul(1 + (10_000 << 32));
    Some(high.wrapping_add(low) >> 32)
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
                match read(text.as_bytes(), 0) {
                    Some((read, end)) => prop_assert_eq!((read.to_bits(), end), (expected.to_bits(), text.len())),
                    None => prop_assert!(false, "{}", text),
                }
            }
        }

        #[test]
        fn decimal_texts_are_rounded_correctly(text in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?") {
            let (value, end) = read(text.as_bytes(), 0).unwrap();
            let expected: f64 = text.parse().unwrap();
            prop_assert_eq!(value, expected);
            prop_assert_eq!(end, text.len());
        }
    }
}

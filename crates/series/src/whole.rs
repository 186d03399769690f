//! Whole numbers, stored as differences.
//!
//! ```text
//! signed varint  the first; for more than one value:
//! signed varint  the smallest difference from one to the next; u8 width; for each, width bytes: the excess
//! ```

use crate::{
    Result,
    packing::{Reader, Span, pack, put_signed, unpack},
};

/// Whole numbers up to here are exact in an f64.
pub(crate) const WHOLE_MAX: i64 = 1 << 53;

/// The value as a whole number; none for -0.0.
fn whole(value: f64) -> Option<i64> {
    let number = value as i64;
    let exact = (number as f64).to_bits() == value.to_bits();
    (exact && (-WHOLE_MAX..=WHOLE_MAX).contains(&number)).then_some(number)
}

/// Appends the values, at least one, if all are whole numbers and this encoding is smaller.
pub(crate) fn put(values: impl Iterator<Item = f64> + Clone, count: usize, out: &mut Vec<u8>) -> bool {
    let Some((first, span)) = span(values.clone()) else { return false };
    if count > 1 && span.width() == 8 {
        return false;
    }
    put_signed(first, out);
    if count > 1 {
        put_signed(span.min, out);
        out.push(span.width() as u8);
        let mut before = first;
        let above = values.skip(1).map(|value| {
            let number = value as i64;
            let difference = number - before;
            before = number;
            difference.wrapping_sub(span.min) as u64
        });
        pack(span.width(), count - 1, above, out);
    }
    true
}

/// The first value and the span of the differences.
fn span(mut values: impl Iterator<Item = f64>) -> Option<(i64, Span)> {
    let first = whole(values.next()?)?;
    let mut before = first;
    let mut span = Span::new();
    for value in values {
        let number = whole(value)?;
        span.add(number - before);
        before = number;
    }
    Some((first, span))
}

/// Calls `each` with `count` values, at least one.
pub(crate) fn read(count: usize, reader: &mut Reader<'_>, mut each: impl FnMut(f64)) -> Result<()> {
    let mut number = reader.signed()?;
    each(number as f64);
    if count > 1 {
        let (min, width) = (reader.signed()?, reader.byte()?);
        unpack(usize::from(width), count - 1, reader, |above| {
            number = number.wrapping_add(min).wrapping_add(above as i64);
            each(number as f64);
        })?;
    }
    Ok(())
}

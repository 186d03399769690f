//! Protobuf's wire format: decodes the fields of a message without copying, and encodes fields.
//!
//! Knows no message types: the decoder of each message interprets the fields. Arbitrary bytes give fields or an error,
//! never a panic.

use std::borrow::Cow;

/// Why bytes cannot be decoded as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the message ends early")]
    Truncated,
    #[error("a number of more than 64 bits")]
    Varint,
    #[error("a field without a number")]
    FieldNumber,
    #[error("field {field} has wire type {wire_type}")]
    WireType { field: u64, wire_type: u8 },
    #[error("a text is not UTF-8")]
    Utf8,
}

/// A field's value, by protobuf's wire types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldValue<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    /// The value is not needed: no field that is decoded has this type.
    Fixed32,
}

impl<'a> FieldValue<'a> {
    /// The error for a field with this value, which should have another wire type.
    pub(crate) fn unexpected(self, field: u64) -> Malformed {
        let wire_type = match self {
            FieldValue::Varint(_) => 0,
            FieldValue::Fixed64(_) => 1,
            FieldValue::Bytes(_) => 2,
            FieldValue::Fixed32 => 5,
        };
        Malformed::WireType { field, wire_type }
    }

    pub(crate) fn bytes(self, field: u64) -> Result<&'a [u8], Malformed> {
        if let FieldValue::Bytes(bytes) = self { Ok(bytes) } else { Err(self.unexpected(field)) }
    }

    pub(crate) fn text(self, field: u64) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| Malformed::Utf8)
    }

    /// A text in which what is not UTF-8 becomes U+FFFD.
    pub(crate) fn lossy_text(self, field: u64) -> Result<Cow<'a, str>, Malformed> {
        self.bytes(field).map(String::from_utf8_lossy)
    }

    pub(crate) fn fixed64(self, field: u64) -> Result<u64, Malformed> {
        if let FieldValue::Fixed64(bytes) = self {
            Ok(u64::from_le_bytes(bytes))
        } else {
            Err(self.unexpected(field))
        }
    }

    pub(crate) fn double(self, field: u64) -> Result<f64, Malformed> {
        self.fixed64(field).map(f64::from_bits)
    }

    pub(crate) fn varint(self, field: u64) -> Result<u64, Malformed> {
        if let FieldValue::Varint(number) = self { Ok(number) } else { Err(self.unexpected(field)) }
    }

    /// An `int64` or `int32`: negative numbers are encoded in two's complement of 64 bits.
    pub(crate) fn signed(self, field: u64) -> Result<i64, Malformed> {
        self.varint(field).map(u64::cast_signed)
    }
}

/// The fields of a message with their numbers, up to and including the first error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, FieldValue<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, FieldValue<'a>), Malformed> {
        let tag = read_varint(&mut self.0)?;
        let (field, wire_type) = (tag >> 3, (tag & 7) as u8);
        if field == 0 {
            return Err(Malformed::FieldNumber);
        }
        let value = match wire_type {
            0 => FieldValue::Varint(read_varint(&mut self.0)?),
            1 => FieldValue::Fixed64(self.take(8)?.try_into().expect("eight bytes")),
            2 => {
                let length = read_varint(&mut self.0)?;
                FieldValue::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed::Truncated)?)?)
            }
            5 => {
                self.take(4)?;
                FieldValue::Fixed32
            }
            _ => return Err(Malformed::WireType { field, wire_type }),
        };
        Ok((field, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Decodes all fields of this number, which are messages, with `read`.
pub(crate) fn repeated<'a, T, E: From<Malformed>>(
    field: u64,
    message: &'a [u8],
    mut read: impl FnMut(&'a [u8]) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut all = Vec::new();
    for found in Fields(message) {
        let (number, value) = found?;
        if number == field {
            all.push(read(value.bytes(field)?)?);
        }
    }
    Ok(all)
}

/// Decodes a varint and advances `bytes` past it.
#[inline]
pub(crate) fn read_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    match bytes.split_first() {
        // The fast path for tags and most lengths.
        Some((&byte, rest)) if byte < 0x80 => {
            *bytes = rest;
            Ok(byte.into())
        }
        _ => read_long_varint(bytes),
    }
}

fn read_long_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Malformed::Truncated)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(Malformed::Varint);
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed::Varint)
}

pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number of bytes that [`put_varint`] writes.
fn varint_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a field of bytes or text, or an encoded message.
pub(crate) fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(field << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field with an `int64`; zero is omitted, as in proto3.
pub(crate) fn put_signed(field: u64, number: i64, out: &mut Vec<u8>) {
    if number != 0 {
        put_varint(field << 3, out);
        put_varint(number.cast_unsigned(), out);
    }
}

/// Appends a field with a `double`; positive zero is omitted, as in proto3.
pub(crate) fn put_double(field: u64, number: f64, out: &mut Vec<u8>) {
    if number.to_bits() != 0 {
        put_varint(field << 3 | 1, out);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends a nested message, whose fields `write` appends.
pub(crate) fn put_message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(field << 3 | 2, out);
    let start = out.len();
    write(out);
    // The length precedes the bytes but is known only now: move the bytes to make room for it.
    let length = (out.len() - start) as u64;
    let width = varint_bytes(length);
    out.resize(out.len() + width, 0);
    out.copy_within(start..start + length as usize, start + width);
    let mut prefix = Vec::with_capacity(width);
    put_varint(length, &mut prefix);
    out[start..start + width].copy_from_slice(&prefix);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_fields_are_decoded(number: i64, value: f64, text in ".{0,200}", nested in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            put_signed(1, number, &mut out);
            put_double(2, value, &mut out);
            put_message(3, &mut out, |out| {
                put_bytes(4, text.as_bytes(), out);
                put_bytes(5, &nested, out);
            });
            let (mut read, mut inner) = ((0, 0.0_f64), None);
            for field in Fields(&out) {
                match field.unwrap() {
                    (1, value) => read.0 = value.signed(1).unwrap(),
                    (2, value) => read.1 = value.double(2).unwrap(),
                    (3, value) => inner = Some(value.bytes(3).unwrap()),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!((read.0, read.1.to_bits()), (number, value.to_bits()));
            let inner: Vec<_> = Fields(inner.unwrap()).map(|field| field.unwrap()).collect();
            prop_assert_eq!(inner[0].1.text(4).unwrap(), text);
            prop_assert_eq!(inner[1].1.bytes(5).unwrap(), nested);
        }

        #[test]
        fn varint_bytes_is_the_encoded_length(number: u64, shift in 0_u32..64) {
            let mut out = Vec::new();
            put_varint(number >> shift, &mut out);
            prop_assert_eq!(out.len(), varint_bytes(number >> shift));
            prop_assert_eq!(read_varint(&mut out.as_slice()), Ok(number >> shift));
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_rejected() {
        assert_eq!(read_varint(&mut &[0xff; 11][..]), Err(Malformed::Varint));
        assert_eq!(
            read_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..]),
            Err(Malformed::Varint)
        );
        assert_eq!(read_varint(&mut &[0x80][..]), Err(Malformed::Truncated));
    }
}

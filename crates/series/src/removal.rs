//! A request to remove a metric's measures in a time range, as bytes. It is stored in place of points
//! ([`crate::points`]), so it is applied in request order. Decoders of earlier versions fail at its first
//! byte.
//!
//! ```text
//! u8      0x10
//! varint  the first time; varint the time after the last
//! ```

use std::ops::Range;

use gnudi_model::Timestamp;

use crate::{
    CodecError, Result,
    packing::{Reader, put_varint},
};

const MARK: u8 = 0x10;

/// Appends the request. No time is before the epoch.
pub fn encode(span: &Range<Timestamp>, out: &mut Vec<u8>) {
    assert!(span.start.0 >= 0 && span.end.0 >= 0, "a time before the epoch");
    out.push(MARK);
    put_varint(span.start.0 as u64, out);
    put_varint(span.end.0 as u64, out);
}

/// Whether the bytes are a removal and not points.
pub fn is_removal(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// Decodes the bytes of [`encode`].
pub fn decode(bytes: &[u8]) -> Result<Range<Timestamp>> {
    let mut reader = Reader(bytes);
    if reader.byte()? != MARK {
        return Err(CodecError::Invalid("mark of a removal"));
    }
    let mut time = || i64::try_from(reader.varint()?).map(Timestamp).map_err(|_| CodecError::Invalid("time"));
    let span = time()?..time()?;
    reader.end()?;
    Ok(span)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::points;

    proptest! {
        #[test]
        fn requests_round_trip(start in 0..i64::MAX, end in 0..i64::MAX) {
            let span = Timestamp(start)..Timestamp(end);
            let mut bytes = Vec::new();
            encode(&span, &mut bytes);
            prop_assert!(is_removal(&bytes));
            prop_assert_eq!(decode(&bytes), Ok(span));
            prop_assert!(points::decode(&bytes, &mut Vec::new()).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}

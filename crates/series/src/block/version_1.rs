//! Decodes columns of blocks of version 1; they are no longer written.
//!
//! ```text
//! column  u8 kind, with bit 7: a bitmap of the rows that have a value follows, and values are only those rows'
//!         raw: 8 bytes each; constant: 8 bytes; same: u8 column; quotient: u8 column, u8 column; none: nothing;
//!         whole: as in `whole`
//! ```

use super::{NONE, QUOTIENT, SAME};
use crate::{CodecError, Result, packing::Reader, whole};

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const WHOLE: u8 = 3;
const SPARSE: u8 = 0x80;

/// The current code of a kind without values of its own, else the code as it is; and whether the column is
/// sparse.
pub fn kind(kind: u8) -> (u8, bool) {
    match kind {
        2 => (SAME, false),
        4 => (QUOTIENT, false),
        5 => (NONE, false),
        kind => (kind & !SPARSE, kind & SPARSE != 0),
    }
}

pub fn read_values(kind: u8, count: usize, reader: &mut Reader<'_>, out: &mut Vec<f64>) -> Result<()> {
    match kind {
        RAW => {
            let bytes = reader.take(8 * count)?;
            out.extend(
                bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes"))),
            );
        }
        CONSTANT => {
            let value = reader.float()?;
            out.resize(out.len() + count, value);
        }
        WHOLE if count > 0 => {
            out.reserve(count);
            whole::read(count, reader, |value| out.push(value))?;
        }
        _ => return Err(CodecError::Invalid("kind of column")),
    }
    Ok(())
}

//! The buffers of a record batch: bounds-checked, and decompressed if necessary.

use std::{borrow::Cow, io::Read};

use arrow_ipc::{FieldNode, RecordBatch};
use lz4_flex::frame::FrameDecoder;

use super::{ReadError, Result};
use crate::Compression;

/// The length of a buffer that is not compressed.
const STORED: i64 = -1;

/// The remaining limit on a request's decompressed buffers.
#[derive(Debug)]
pub struct Inflate {
    bytes_max: usize,
    left: usize,
}

impl Inflate {
    pub fn new(bytes_max: usize) -> Self {
        Inflate { bytes_max, left: bytes_max }
    }

    /// Decompresses a buffer.
    fn buffer<'s>(&mut self, codec: Compression, bytes: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        if codec == Compression::None || bytes.is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        let (length, packed) = bytes
            .split_first_chunk::<8>()
            .ok_or_else(|| ReadError::malformed("A compressed buffer has no length"))?;
        let length = i64::from_le_bytes(*length);
        if length == STORED {
            return Ok(Cow::Borrowed(packed));
        }
        let length = usize::try_from(length)
            .map_err(|_| ReadError::malformed("A compressed buffer has a negative length"))?;
        self.left = self.left.checked_sub(length).ok_or_else(|| {
            let max = self.bytes_max;
            ReadError::TooLarge(format!("The buffers have more than {max} bytes once they are inflated"))
        })?;
        let inflated = match codec {
            Compression::Lz4 => lz4(packed, length),
            _ => zstd::bulk::decompress(packed, length).ok(),
        };
        let inflated = inflated.filter(|inflated| inflated.len() == length);
        inflated.map(Cow::Owned).ok_or_else(|| {
            let text = format!("A buffer does not inflate to its declared {length} bytes");
            ReadError::Malformed(text)
        })
    }
}

/// `None` if the frame is invalid. Memory grows with the output, not with the declared length.
fn lz4(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut inflated = Vec::new();
    FrameDecoder::new(packed).take(length as u64 + 1).read_to_end(&mut inflated).ok()?;
    Some(inflated)
}

/// The sum of the declared decompressed sizes of a batch's buffers.
pub fn inflated_bytes(batch: &RecordBatch<'_>, body: &[u8]) -> usize {
    if batch.compression().is_none() {
        return 0;
    }
    let length = |buffer: &arrow_ipc::Buffer| {
        let start = usize::try_from(buffer.offset()).ok()?;
        let length = body.get(start..)?.first_chunk::<8>()?;
        usize::try_from(i64::from_le_bytes(*length)).ok()
    };
    batch.buffers().into_iter().flatten().filter_map(length).fold(0, usize::saturating_add)
}

/// The declared number of rows of a batch.
pub fn row_count(batch: &RecordBatch<'_>) -> Result<usize> {
    usize::try_from(batch.length()).map_err(|_| ReadError::malformed("A record batch has a negative length"))
}

/// The buffers of a batch, in column order.
pub struct Buffers<'s, 'b> {
    body: &'s [u8],
    inflate: &'b mut Inflate,
    nodes: flatbuffers::VectorIter<'b, FieldNode>,
    places: flatbuffers::VectorIter<'b, arrow_ipc::Buffer>,
    variadic: Option<flatbuffers::VectorIter<'b, i64>>,
    codec: Compression,
    rows: usize,
}

impl<'s, 'b> Buffers<'s, 'b> {
    pub fn of(
        batch: &RecordBatch<'b>,
        rows: usize,
        body: &'s [u8],
        inflate: &'b mut Inflate,
    ) -> Result<Self> {
        let missing = || ReadError::malformed("A record batch has no list of its buffers");
        let declared = batch.compression().map(|compression| compression.codec());
        let codec =
            Compression::ALL.into_iter().find(|codec| codec.codec() == declared).ok_or_else(|| {
                ReadError::malformed("A record batch has an unsupported compression: use lz4 or zstd")
            })?;
        Ok(Buffers {
            body,
            inflate,
            nodes: batch.nodes().ok_or_else(missing)?.iter(),
            places: batch.buffers().ok_or_else(missing)?.iter(),
            variadic: batch.variadicBufferCounts().map(|counts| counts.iter()),
            codec,
            rows,
        })
    }

    /// Begins the next column; returns its null bitmap.
    pub fn column(&mut self, name: &str) -> Result<Nulls<'s>> {
        let node = self.nodes.next();
        let node = node.ok_or_else(|| ReadError::Malformed(format!("Column '{name}' has no node")))?;
        if usize::try_from(node.length()).ok() != Some(self.rows) {
            return Err(ReadError::Malformed(format!(
                "Column '{name}' has {} rows, and its record batch {}",
                node.length(),
                self.rows
            )));
        }
        let bits = self.next(name)?;
        if bits.is_empty() {
            return match node.null_count() {
                0 => Ok(Nulls(None)),
                count => Err(ReadError::Malformed(format!(
                    "Column '{name}' has {count} nulls, and no bitmap of them"
                ))),
            };
        }
        if bits.len() < self.rows.div_ceil(8) {
            return Err(too_short(name));
        }
        Ok(Nulls(Some(bits)))
    }

    /// The next buffer.
    pub fn next(&mut self, name: &str) -> Result<Cow<'s, [u8]>> {
        let buffer = self.places.next();
        let buffer =
            buffer.ok_or_else(|| ReadError::Malformed(format!("A buffer of column '{name}' is missing")))?;
        let range = || {
            let start = usize::try_from(buffer.offset()).ok()?;
            let end = start.checked_add(usize::try_from(buffer.length()).ok()?)?;
            self.body.get(start..end)
        };
        let bytes = range().ok_or_else(|| {
            ReadError::Malformed(format!(
                "A buffer of column '{name}' lies outside of its message: {} bytes from {} on, of {}",
                buffer.length(),
                buffer.offset(),
                self.body.len()
            ))
        })?;
        self.inflate.buffer(self.codec, bytes)
    }

    /// The next buffer, with `width` bytes for each of `count` items.
    pub fn fixed(&mut self, name: &str, count: usize, width: usize) -> Result<Cow<'s, [u8]>> {
        let buffer = self.next(name)?;
        let bytes = count.checked_mul(width).filter(|bytes| *bytes <= buffer.len());
        let bytes = bytes.ok_or_else(|| too_short(name))?;
        Ok(match buffer {
            Cow::Borrowed(buffer) => Cow::Borrowed(&buffer[..bytes]),
            Cow::Owned(mut buffer) => {
                buffer.truncate(bytes);
                Cow::Owned(buffer)
            }
        })
    }

    /// The number of data buffers of the next view column.
    pub fn variadic_count(&mut self, name: &str) -> Result<usize> {
        let count = self.variadic.as_mut().and_then(Iterator::next);
        let count = count.and_then(|count| usize::try_from(count).ok());
        // Bounded by the number of buffers in the message, whatever it declares.
        count.filter(|count| *count <= self.places.len()).ok_or_else(|| {
            ReadError::Malformed(format!("Column '{name}' does not say how many buffers its texts have"))
        })
    }
}

pub fn too_short(name: &str) -> ReadError {
    ReadError::Malformed(format!("A buffer of column '{name}' is shorter than its rows"))
}

/// The null bitmap of a column.
#[derive(Debug)]
pub struct Nulls<'s>(Option<Cow<'s, [u8]>>);

impl Nulls<'_> {
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.0.as_ref().is_some_and(|bits| bits[row / 8] >> (row % 8) & 1 == 0)
    }

    /// The first null among the first `rows` rows.
    pub fn first(&self, rows: usize) -> Option<usize> {
        let bits = self.0.as_ref()?;
        let whole = bits[..rows / 8].iter().position(|byte| *byte != 0xff).unwrap_or(rows / 8);
        (whole * 8..rows).find(|row| self.is_null(*row))
    }
}

//! Compressed message bodies (`kombu_compression`): kombu's `gzip`, which is zlib, and `bz2`.
//!
//! Compression is detected by magic bytes, which no JSON begins with; the headers are ignored.

use std::{
    borrow::Cow,
    io::{self, Read, Write as _},
};

use bzip2::{read::MultiBzDecoder, write::BzEncoder};
use flate2::{
    read::{MultiGzDecoder, ZlibDecoder},
    write::ZlibEncoder,
};

use super::envelope::MESSAGE_BYTES_MAX;

/// The header in which kombu names the compression.
pub const HEADER: &str = "compression";

/// Magic bytes.
const BEGINNINGS: [(&[u8], Format); 7] = [
    (b"x\x9c", Format::Known(Compression::Zlib)),
    (b"x\x01", Format::Known(Compression::Zlib)),
    (b"x\xda", Format::Known(Compression::Zlib)),
    (b"\x1f\x8b", Format::Gzip),
    (b"BZh", Format::Known(Compression::Bzip2)),
    (b"\xfd7zXZ\0", Format::Unknown("xz")),
    (b"\x28\xb5\x2f\xfd", Format::Unknown("zstd")),
];

#[derive(Clone, Copy)]
enum Format {
    Known(Compression),
    /// Read only: kombu has no name for it.
    Gzip,
    Unknown(&'static str),
}

/// Compression of published messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Zlib,
    Bzip2,
}

impl Compression {
    /// Of a body; `None` if not compressed, or in a format that kombu has no name for.
    pub fn of(body: &[u8]) -> Option<Self> {
        match detect(body) {
            Some(Format::Known(compression)) => Some(compression),
            _ => None,
        }
    }

    /// kombu's name for it in [`HEADER`].
    pub fn content_type(self) -> &'static str {
        match self {
            Compression::Zlib => "application/x-gzip",
            Compression::Bzip2 => "application/x-bz2",
        }
    }

    pub fn compress(self, body: &[u8]) -> Vec<u8> {
        let written = match self {
            Compression::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body).and_then(|()| encoder.finish())
            }
            Compression::Bzip2 => {
                let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::best());
                encoder.write_all(body).and_then(|()| encoder.finish())
            }
        };
        written.expect("memory takes all")
    }
}

fn detect(body: &[u8]) -> Option<Format> {
    BEGINNINGS.iter().find(|(beginning, _)| body.starts_with(beginning)).map(|(_, found)| *found)
}

/// Why a compressed body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    #[error("compressed, and more than {MESSAGE_BYTES_MAX} bytes without that")]
    TooLarge,
    #[error("compressed with {0}, which is not understood")]
    Unknown(&'static str),
    #[error("compressed and damaged: {0}")]
    Damaged(String),
}

/// The decompressed body, or the body itself if it is not compressed.
pub fn decompressed(body: &[u8]) -> Result<Cow<'_, [u8]>, CompressionError> {
    let plain = match detect(body) {
        None => return Ok(Cow::Borrowed(body)),
        Some(Format::Unknown(name)) => return Err(CompressionError::Unknown(name)),
        Some(Format::Known(Compression::Zlib)) => limited(ZlibDecoder::new(body)),
        Some(Format::Known(Compression::Bzip2)) => limited(MultiBzDecoder::new(body)),
        Some(Format::Gzip) => limited(MultiGzDecoder::new(body)),
    };
    let plain = plain.map_err(|error| CompressionError::Damaged(error.to_string()))?;
    if plain.len() > MESSAGE_BYTES_MAX { Err(CompressionError::TooLarge) } else { Ok(Cow::Owned(plain)) }
}

/// Reads at most one byte more than the limit.
fn limited(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_python_has_compressed_is_read() {
        // zlib.compress(b"{}") and bz2.compress(b"{}")
        let zlib = b"x\x9c\xab\xae\x05\x00\x01u\x00\xf9";
        assert_eq!(&*decompressed(zlib).unwrap(), b"{}");
        assert_eq!(Compression::of(zlib), Some(Compression::Zlib));
        // gzip.compress(b"{}", mtime=0), whose members may follow one another.
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0";
        assert_eq!(&*decompressed(&gzip.repeat(2)).unwrap(), b"{}{}");
        // So may the streams of bzip2.
        assert_eq!(&*decompressed(&Compression::Bzip2.compress(b"{}").repeat(2)).unwrap(), b"{}{}");
    }

    #[test]
    fn what_is_too_large_or_damaged_is_told_in_little_memory() {
        let bomb = Compression::Zlib.compress(&vec![b' '; 4 * MESSAGE_BYTES_MAX]);
        assert_eq!(decompressed(&bomb), Err(CompressionError::TooLarge));
        assert!(matches!(decompressed(&bomb[..100]), Err(CompressionError::Damaged(_))));
        assert!(matches!(decompressed(b"BZh91AY"), Err(CompressionError::Damaged(_))));
        assert_eq!(decompressed(b"\xfd7zXZ\0\0"), Err(CompressionError::Unknown("xz")));
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(body: Vec<u8>) {
            for compression in [Compression::Zlib, Compression::Bzip2] {
                let compressed = compression.compress(&body);
                prop_assert_eq!(&*decompressed(&compressed).unwrap(), &body[..]);
                prop_assert_eq!(Compression::of(&compressed), Some(compression));
            }
        }
    }
}

//! Arrow IPC streams (`application/vnd.apache.arrow.stream`): reads measures, writes series and lists.
//!
//! [`read`] parses untrusted streams. [`write`] encodes series, and [`write::Table`]s of anything else, piece
//! by piece. Pure functions of bytes: access checks and the meaning of names are the API's.

pub mod read;
pub mod write;

use arrow_ipc::CompressionType;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// The compression of a stream's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    /// LZ4 frames.
    Lz4,
    Zstd,
}

impl Compression {
    pub(crate) const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Parses the name used in requests.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Compression::None),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// In the header of a record batch; `None` if its buffers are not compressed.
    pub(crate) fn codec(self) -> Option<CompressionType> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        }
    }
}

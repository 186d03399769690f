//! Arrow IPC streams (`application/vnd.apache.arrow.stream`): measures read from them, and series and lists written as them.
//!
//! [`read`] parses untrusted streams; [`write`] makes tables of series, and [`write::Table`]s
//! of anything else, piece by piece. Pure functions of bytes: who may do what, and what the names mean, is the API's.

pub mod read;
pub mod write;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// How the buffers of a stream are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    /// Frames of LZ4.
    Lz4,
    Zstd,
}

impl Compression {
    /// By the name that a request has for it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Compression::None),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }
}

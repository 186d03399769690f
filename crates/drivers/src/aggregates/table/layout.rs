//! The parts of a table.
//!
//! ```text
//! header   0 magic "gnuditab" | 8 format version u32 | 12 CRC32C of bytes 0..12 u32
//! entries  see `entry`
//! index    for every page: first key 40 bytes | offset u64
//! filter   see `filter`
//! footer   0 magic "gnudiend" | 8 end of the entries u64 | 16 index bytes u64 | 24 filter bytes u64
//!          32 CRC32C of the index u32 | 36 CRC32C of the filter u32 | 40 marks of deletions and losses u64
//!          48 CRC32C of bytes 0..48 u32 | zeros up to 64
//! ```

use crate::{
    aggregates::key::KEY_BYTES,
    segments::frame::{u32_at, u64_at},
};

pub const FORMAT_VERSION: u32 = 1;
pub const HEADER_BYTES: usize = 16;
pub const FOOTER_BYTES: usize = 64;
/// Key and offset of a page.
pub const INDEX_ENTRY_BYTES: usize = KEY_BYTES + 8;
const HEADER_MAGIC: &[u8; 8] = b"gnuditab";
const DEVELOPMENT_MAGIC: &[u8; 8] = b"gnudirun";
const FOOTER_MAGIC: &[u8; 8] = b"gnudiend";

/// The first bytes of a table.
pub fn header() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(HEADER_MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
    bytes
}

/// The format version, 0 for that of development versions; `None` if the header is damaged. The entries can be read
/// without it.
pub fn version_of(header: &[u8]) -> Option<u32> {
    if header.starts_with(DEVELOPMENT_MAGIC) {
        return Some(0);
    }
    let right = header.len() == HEADER_BYTES
        && header.starts_with(HEADER_MAGIC)
        && u32_at(header, 12) == crc_fast::crc32_iscsi(&header[..12]);
    right.then(|| u32_at(header, 8))
}

/// The last bytes of a table.
pub struct Footer {
    pub entries_end: u64,
    pub index_bytes: u64,
    pub filter_bytes: u64,
    pub index_checksum: u32,
    pub filter_checksum: u32,
    /// Number of deletion and loss marks.
    pub marks: u64,
}

impl Footer {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(FOOTER_MAGIC);
        for number in [self.entries_end, self.index_bytes, self.filter_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.index_checksum.to_le_bytes());
        bytes.extend_from_slice(&self.filter_checksum.to_le_bytes());
        bytes.extend_from_slice(&self.marks.to_le_bytes());
        bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
        bytes.resize(FOOTER_BYTES, 0);
        bytes
    }

    /// `None` if it is damaged, or does not fit a table of `length` bytes.
    pub fn parse(bytes: &[u8], length: u64) -> Option<Self> {
        let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().ok()?;
        let footer = Self {
            entries_end: u64_at(bytes, 8),
            index_bytes: u64_at(bytes, 16),
            filter_bytes: u64_at(bytes, 24),
            index_checksum: u32_at(bytes, 32),
            filter_checksum: u32_at(bytes, 36),
            marks: u64_at(bytes, 40),
        };
        let parts = [footer.entries_end, footer.index_bytes, footer.filter_bytes, FOOTER_BYTES as u64];
        let sum = parts.into_iter().try_fold(0u64, u64::checked_add);
        let right = bytes.starts_with(FOOTER_MAGIC)
            && u32_at(bytes, 48) == crc_fast::crc32_iscsi(&bytes[..48])
            && footer.entries_end >= HEADER_BYTES as u64
            && sum == Some(length);
        right.then_some(footer)
    }

    /// Sets the checksums of a table's header, index, filter and footer.
    #[cfg(any(test, fuzzing))]
    pub fn set_checksums(table: &mut [u8]) {
        let header = crc_fast::crc32_iscsi(&table[..12]);
        table[12..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
        let at = table.len() - FOOTER_BYTES;
        let number = |field: usize| u64_at(&table[at..], field);
        let checksum = |start: u64, length: u64| {
            let bytes = table.get(start as usize..start.saturating_add(length) as usize);
            crc_fast::crc32_iscsi(bytes.unwrap_or_default())
        };
        let (start, index_bytes) = (number(8), number(16));
        let index = checksum(start, index_bytes);
        let filter = checksum(start.saturating_add(index_bytes), number(24));
        table[at + 32..at + 36].copy_from_slice(&index.to_le_bytes());
        table[at + 36..at + 40].copy_from_slice(&filter.to_le_bytes());
        let footer = crc_fast::crc32_iscsi(&table[at..at + 48]);
        table[at + 48..at + 52].copy_from_slice(&footer.to_le_bytes());
    }
}

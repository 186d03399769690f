//! The file of a run: its name, header and footer.
//!
//! ```text
//! header   0 magic "gnudirun" | 8 format version u32 | 12 low u32 | 16 high u32 | 20 CRC32C of bytes 0..20 u32 | zeros up to 64
//! entries  see `entry`
//! index    for every page of about 32 KiB: first key 40 bytes | offset u64
//! filter   see `filter`
//! footer   0 magic "gnudiend" | 8 end of the entries u64 | 16 index bytes u64 | 24 filter bytes u64
//!          32 CRC32C of the index u32 | 36 CRC32C of the filter u32 | 40 marks of deletions and losses u64
//!          48 CRC32C of bytes 0..48 u32 | zeros up to 64
//! ```

use std::path::Path;

use super::order::Order;
use crate::{
    OpenError,
    aggregates::key::KEY_BYTES,
    quarantine::Quarantine,
    segments::frame::{u32_at, u64_at},
};

/// Format versions differ in the order of the entries.
pub const FORMAT_VERSION: u32 = Order::NEW.format();
pub const HEADER_BYTES: usize = 64;
pub const FOOTER_BYTES: usize = 64;
/// Key and offset of a page.
pub const INDEX_ENTRY_BYTES: usize = KEY_BYTES + 8;
const HEADER_MAGIC: &[u8; 8] = b"gnudirun";
const FOOTER_MAGIC: &[u8; 8] = b"gnudiend";

/// The numbers of the log's segments that a run covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    pub low: u32,
    pub high: u32,
}

impl Range {
    pub fn contains(self, other: Range) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

/// `00000001-00000004.run`
pub fn file_name(range: Range) -> String {
    format!("{:08x}-{:08x}.run", range.low, range.high)
}

/// The inverse of [`file_name`]; `None` for other files.
pub fn range_of(name: &str) -> Option<Range> {
    let (low, high) = name.strip_suffix(".run")?.split_once('-')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let range = Range { low: number(low)?, high: number(high)? };
    (file_name(range) == name).then_some(range)
}

/// The first bytes of a file.
pub fn file_header(range: Range, order: Order) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(HEADER_MAGIC);
    bytes.extend_from_slice(&order.format().to_le_bytes());
    bytes.extend_from_slice(&range.low.to_le_bytes());
    bytes.extend_from_slice(&range.high.to_le_bytes());
    bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

/// The last bytes of a file.
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

    /// `None` if it is damaged, or does not fit a file of `length` bytes.
    pub fn parse(bytes: &[u8; FOOTER_BYTES], length: u64) -> Option<Self> {
        let footer = Self {
            entries_end: u64_at(bytes, 8),
            index_bytes: u64_at(bytes, 16),
            filter_bytes: u64_at(bytes, 24),
            index_checksum: u32_at(bytes, 32),
            filter_checksum: u32_at(bytes, 36),
            marks: u64_at(bytes, 40),
        };
        let right = bytes.starts_with(FOOTER_MAGIC)
            && u32_at(bytes, 48) == crc_fast::crc32_iscsi(&bytes[..48])
            && footer.entries_end + footer.index_bytes + footer.filter_bytes + FOOTER_BYTES as u64 == length;
        right.then_some(footer)
    }
}

/// The format version; refuses a newer one. A damaged header is only reported (`None`): its range is in the
/// file name, and the entries can be read without it.
pub fn format_of(bytes: &[u8], path: &Path, quarantine: &Quarantine) -> Result<Option<u32>, OpenError> {
    let right = bytes.len() == HEADER_BYTES
        && bytes.starts_with(HEADER_MAGIC)
        && u32_at(bytes, 20) == crc_fast::crc32_iscsi(&bytes[..20]);
    if !right {
        quarantine.report("header of a run", path, 0, bytes);
        return Ok(None);
    }
    match u32_at(bytes, 8) {
        found if found > FORMAT_VERSION => {
            Err(OpenError::TooNew { path: path.to_owned(), found, known: FORMAT_VERSION })
        }
        found => Ok(Some(found)),
    }
}

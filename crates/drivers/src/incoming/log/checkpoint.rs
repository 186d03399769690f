//! The checkpoint file: each sack's trimmed position, replaced atomically.
//!
//! ```text
//! 0 magic "gnuditrm" | 8 format version u32 | 12 sack count u32 | positions u64 each | CRC32C of all before u32
//! ```
//!
//! Losing the file loses no measures: all records in the log are applied again, which is idempotent.

use std::path::Path;

use crate::{
    OpenError,
    disk::{Disk, read_if_there, replace_file},
    incoming::Position,
    quarantine::Quarantine,
};

const MAGIC: &[u8; 8] = b"gnuditrm";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
pub const FILE_NAME: &str = "trimmed";

pub fn write(disk: &dyn Disk, dir: &Path, positions: &[Position]) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + positions.len() * 8 + 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(positions.len() as u32).to_le_bytes());
    for position in positions {
        bytes.extend_from_slice(&position.0.to_le_bytes());
    }
    bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
    replace_file(disk, &dir.join(FILE_NAME), &bytes)
}

/// A position for each sack; `None` if the file is missing, or damaged, which is reported.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    quarantine: &Quarantine,
) -> Result<Option<Vec<Position>>, OpenError> {
    let path = dir.join(FILE_NAME);
    let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
    let Some(body) = check(&bytes) else {
        quarantine.report("list of trimmed positions", &path, 0, &bytes);
        return Ok(None);
    };
    let found = u32::from_le_bytes(body[8..12].try_into().expect("four bytes"));
    if found > FORMAT_VERSION {
        return Err(OpenError::TooNew { path, found, known: FORMAT_VERSION });
    }
    let positions = body[HEADER_BYTES..].chunks_exact(8);
    Ok(Some(
        positions.map(|bytes| Position(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))).collect(),
    ))
}

/// The bytes without the checksum, if checksum and magic are valid.
fn check(bytes: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    let right = body.len() >= HEADER_BYTES
        && body.starts_with(MAGIC)
        && crc_fast::crc32_iscsi(body).to_le_bytes() == *checksum;
    right.then_some(body)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::*;
    use crate::disk::LocalDisk;

    /// Only a file with a valid checksum names a version.
    #[test]
    fn a_newer_version_is_refused_and_rubbish_is_damage() {
        let root = tempfile::tempdir().unwrap();
        let quarantine = Quarantine::new(Arc::new(LocalDisk), root.path().join("quarantine"));
        let found = || read(&LocalDisk, root.path(), &quarantine);
        let path = root.path().join(FILE_NAME);
        write(&LocalDisk, root.path(), &[Position(5), Position(7)]).unwrap();
        assert_eq!(found().unwrap(), Some(vec![Position(5), Position(7)]));
        let mut newer = fs::read(&path).unwrap();
        newer[8] = 2;
        fs::write(&path, &newer).unwrap();
        assert_eq!(found().unwrap(), None);
        let body = newer.len() - 4;
        let checksum = crc_fast::crc32_iscsi(&newer[..body]).to_le_bytes();
        newer[body..].copy_from_slice(&checksum);
        fs::write(&path, &newer).unwrap();
        let refused = found().unwrap_err();
        assert!(matches!(refused, OpenError::TooNew { found: 2, known: 1, .. }), "{refused}");
        for rubbish in [Vec::new(), MAGIC.to_vec(), vec![0xff; 40]] {
            fs::write(&path, rubbish).unwrap();
            assert_eq!(found().unwrap(), None);
        }
    }
}

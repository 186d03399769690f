//! Records, in a file beside the aggregates, which log of measures they were computed from.
//!
//! A head ignores records at positions that it has applied. So if a log was lost, or replaced by an older
//! copy, the new log must not begin below those positions: its records would be taken for old ones,
//! acknowledged and dropped. The log has an identity, and a small file beside the aggregates holds the
//! identity of the log they follow and its progress. It names each segment before any of its records become
//! visible, so no head has applied a position beyond that segment.
//!
//! ```text
//! 0 magic "gnudifol" | 8 format version u32 | 12 the log's identity, 16 bytes | 28 segment u32 | 32 position u64
//! 40 CRC32C of all before u32
//! ```

use std::{
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    OpenError,
    disk::{Disk, is_no_space, read_id, read_if_there, replace_file},
    incoming::Position,
    quarantine::Quarantine,
    segments::{Location, SegmentLog},
};

const MAGIC: &[u8; 8] = b"gnudifol";
const FORMAT_VERSION: u32 = 1;
const BYTES: usize = 44;
/// The file in the aggregates' folder.
const FILE_NAME: &str = "followed-log";
/// The file in the log's folder.
pub(super) const IDENTITY: &str = "identity";

/// The record at the aggregates, kept up to date with the log.
pub struct Following {
    /// The aggregates' folder.
    place: PathBuf,
    /// Identity of the current log; created with its first segment, as soon as there is space.
    identity: Mutex<Option<Uuid>>,
    written: Mutex<Option<Followed>>,
}

impl Following {
    /// Reads the record in `place`, and the identity of the log in `dir`.
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        place: &Path,
        quarantine: &Quarantine,
    ) -> Result<Self, OpenError> {
        disk.create_dir(place).map_err(OpenError::io(place))?;
        let written = Mutex::new(Followed::read(disk, place, quarantine)?);
        Ok(Self { place: place.to_owned(), identity: Mutex::new(identity(disk, dir)?), written })
    }

    /// The newest segment whose records a head may have applied; 0 for none.
    pub fn segment(&self) -> u32 {
        self.written.lock().map_or(0, |written| written.segment)
    }

    /// Compares the log found in `dir`, which is trimmed up to `trimmed`, with the followed one, and follows it from now on.
    pub fn begin(&self, disk: &dyn Disk, dir: &Path, log: &SegmentLog, trimmed: Position) -> io::Result<()> {
        let identity = *self.identity.lock();
        if let Some(followed) = *self.written.lock()
            && let Some(loss) = followed.loss(dir, &self.place, identity, log.found_end(), trimmed)
        {
            tracing::warn!("{loss}");
        }
        match self.keep_up(disk, dir, log.active(), trimmed) {
            // The log is readable; nothing is written to it until there is space.
            Err(error) if is_no_space(&error) => {
                tracing::warn!("no space for {} in {}", FILE_NAME, self.place.display());
                Ok(())
            }
            kept_up => kept_up,
        }
    }

    /// Records that the log in `dir` has reached `segment` and is trimmed up to `position`, if that is new.
    pub fn keep_up(&self, disk: &dyn Disk, dir: &Path, segment: u32, position: Position) -> io::Result<()> {
        let mut identity = self.identity.lock();
        let log = match *identity {
            Some(log) => log,
            None => *identity.insert(identify(disk, dir)?),
        };
        let mut written = self.written.lock();
        let before = written.unwrap_or(Followed { log, segment: 0, position: Position(0) });
        // Neither ever decreases, even if another log replaced the previous one: heads keep what they have
        // applied.
        let followed =
            Followed { log, segment: segment.max(before.segment), position: position.max(before.position) };
        if *written != Some(followed) {
            followed.write(disk, &self.place)?;
            *written = Some(followed);
        }
        Ok(())
    }
}

/// A log's identity and progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub log: Uuid,
    /// The newest segment.
    pub segment: u32,
    /// The newest trimmed record.
    pub position: Position,
}

impl Followed {
    /// `None` if `dir` has no such file, or a damaged one, which is reported.
    pub fn read(disk: &dyn Disk, dir: &Path, quarantine: &Quarantine) -> Result<Option<Self>, OpenError> {
        let path = dir.join(FILE_NAME);
        let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let version = is_whole(&bytes).then(|| u32_at(8));
        // It may have another length.
        if let Some(found) = version.filter(|found| *found > FORMAT_VERSION) {
            return Err(OpenError::TooNew { path, found, known: FORMAT_VERSION });
        }
        if version.is_none() || bytes.len() != BYTES {
            quarantine.report("name of the log that is followed", &path, 0, &bytes);
            return Ok(None);
        }
        Ok(Some(Self {
            log: Uuid::from_slice(&bytes[12..28]).expect("sixteen bytes"),
            segment: u32_at(28),
            position: Position(u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"))),
        }))
    }

    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(self.log.as_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.position.0.to_le_bytes());
        bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
        replace_file(disk, &dir.join(FILE_NAME), &bytes)
    }

    /// Which measures are lost if the log in `dir`, with identity `found`, its end at `end` and trimmed up to `trimmed`, is not
    /// the followed one, or if it or the aggregates in `aggregates` are an older copy. `None` if nothing is known to be lost.
    fn loss(
        &self,
        dir: &Path,
        aggregates: &Path,
        found: Option<Uuid>,
        end: Location,
        trimmed: Position,
    ) -> Option<String> {
        let dir = dir.display();
        let wanted =
            Location::unpack(self.position.0.max(Location { segment: self.segment, offset: 0 }.pack()));
        if found != Some(self.log) {
            let found =
                found.map_or_else(|| "a new log".to_owned(), |found| format!("another log ({found})"));
            Some(format!(
                "{dir}: found {found} instead of the one that the aggregates follow ({}): measures that were accepted and not yet processed are lost, from position {} to {}; the log continues after segment {:x}",
                self.log,
                place(Location::unpack(self.position.0)),
                place(Location { segment: self.segment, offset: u32::MAX }),
                self.segment
            ))
        } else if end < wanted {
            Some(format!(
                "{dir}: the log is an older copy, which ends at position {}, where the aggregates follow it up to {}: measures accepted in between are lost unless they were processed; it continues after segment {:x}",
                place(end),
                place(wanted),
                self.segment
            ))
        } else if trimmed > self.position {
            Some(format!(
                "{}: the aggregates are an older copy than the log of measures {dir}: what was processed from position {} to {} is not in them and no longer in the log; restore both from the same backup",
                aggregates.display(),
                place(Location::unpack(self.position.0)),
                place(Location::unpack(trimmed.0))
            ))
        } else {
            None
        }
    }
}

/// Whether magic and checksum, which all versions have, are valid.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return false };
    let has_version = body.len() >= MAGIC.len() + 4 && body.starts_with(MAGIC);
    has_version && crc_fast::crc32_iscsi(body).to_le_bytes() == *checksum
}

/// `3:8192`: the segment's number, as in its file name, and the offset.
pub(super) fn place(at: Location) -> String {
    format!("{:x}:{}", at.segment, at.offset)
}

/// The identity of the log in `dir`; `None` if it has none.
pub(super) fn identity(disk: &dyn Disk, dir: &Path) -> Result<Option<Uuid>, OpenError> {
    read_id(disk, &dir.join(IDENTITY), "identity of a log")
}

/// Creates an identity for the log in `dir`.
pub(super) fn identify(disk: &dyn Disk, dir: &Path) -> io::Result<Uuid> {
    let id = Uuid::new_v4();
    replace_file(disk, &dir.join(IDENTITY), format!("{id}\n").as_bytes())?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use gnudi_model::{MetricId, Sack, SackCount, SackId};

    use super::*;
    use crate::incoming::{
        Append as _, Batch, Consume as _,
        log::{LocalIncoming, LocalIncomingOptions},
    };

    const SACK: Sack = Sack { count: SackCount(std::num::NonZeroU16::MIN), id: SackId(0) };

    fn open(root: &Path) -> Arc<LocalIncoming> {
        let options = LocalIncomingOptions {
            sack_count: SACK.count,
            segment_bytes: 1 << 16,
            followed_in: Some(root.join("aggregates")),
            ..LocalIncomingOptions::default()
        };
        LocalIncoming::open(&root.join("incoming"), &options).unwrap()
    }

    /// The position of a new record.
    async fn append(log: &LocalIncoming) -> Position {
        let mut batch = Batch::default();
        batch.push(MetricId(Uuid::from_u128(1)), 1, |out| out.resize(30_000, 1));
        log.append(batch).await.unwrap();
        log.positions(&[SACK]).await.unwrap()[0].newest
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn positions_go_on_behind_a_log_that_is_lost() {
        // Each way to lose a log, and whether it is noticed.
        for (way, is_noticed) in
            [("removed", true), ("emptied", true), ("an older copy", true), ("nothing", false)]
        {
            let root = tempfile::tempdir().unwrap();
            let (dir, older) = (root.path().join("incoming"), root.path().join("older"));
            let log = open(root.path());
            append(&log).await;
            drop(log);
            copy(&dir, &older);
            let log = open(root.path());
            let mut newest = Position(0);
            // Over several segments, none of them trimmed.
            for _ in 0..7 {
                newest = append(&log).await;
            }
            drop(log);
            if way != "nothing" {
                fs::remove_dir_all(&dir).unwrap();
            }
            match way {
                "emptied" => fs::create_dir(&dir).unwrap(),
                "an older copy" => copy(&older, &dir),
                _ => {}
            }
            let disk = crate::disk::LocalDisk;
            let quarantine = Quarantine::new(Arc::new(disk), root.path().join("quarantine"));
            let place = root.path().join("aggregates");
            let followed = Followed::read(&disk, &place, &quarantine).unwrap().unwrap();
            assert_eq!(followed.segment, Location::unpack(newest.0).segment);
            let log = open(root.path());
            let found = Followed::read(&disk, &place, &quarantine).unwrap().unwrap();
            assert_eq!(found.log != followed.log, is_noticed && way != "an older copy", "{way}");
            let next = append(&log).await;
            assert!(next > newest, "{way}: {next:?} is not behind {newest:?}");
        }
    }

    /// The aggregates learn of a trim before the log: so a log that is trimmed further has processed more than they have.
    #[tokio::test]
    async fn a_trim_is_recorded_at_the_aggregates_first() {
        let root = tempfile::tempdir().unwrap();
        let (disk, place) = (crate::disk::LocalDisk, root.path().join("aggregates"));
        let quarantine = Quarantine::new(Arc::new(disk), root.path().join("quarantine"));
        let followed = || Followed::read(&disk, &place, &quarantine).unwrap().unwrap();
        let log = open(root.path());
        let newest = append(&log).await;
        log.acknowledge(SACK, newest).await.unwrap();
        // The log cannot record it.
        let trimmed = root.path().join("incoming").join("trimmed");
        fs::create_dir(&trimmed).unwrap();
        log.trim(&[(SACK, newest)]).await.unwrap_err();
        assert_eq!(followed().position, newest);
        fs::remove_dir(&trimmed).unwrap();
        log.trim(&[(SACK, newest)]).await.unwrap();
        drop(log);
        // A store that begins to follow a log begins at the trimmed position.
        fs::remove_file(place.join(FILE_NAME)).unwrap();
        drop(open(root.path()));
        assert_eq!(followed().position, newest);
    }

    #[test]
    fn an_older_copy_of_the_aggregates_is_noticed() {
        let position = |offset| Position(Location { segment: 3, offset }.pack());
        let followed = Followed { log: Uuid::from_u128(7), segment: 3, position: position(100) };
        let end = Location { segment: 4, offset: 64 };
        let (dir, place) = (Path::new("incoming"), Path::new("aggregates"));
        let loss = |trimmed| followed.loss(dir, place, Some(followed.log), end, trimmed);
        assert_eq!([position(99), position(100)].map(loss), [None, None]);
        let noticed = loss(position(101)).unwrap();
        assert!(noticed.starts_with("aggregates: the aggregates are an older copy"), "{noticed}");
        assert!(noticed.contains("from position 3:100 to 3:101"), "{noticed}");
    }

    /// Only a file with a valid checksum names a version.
    #[test]
    fn a_newer_version_is_refused_and_rubbish_is_damage() {
        let root = tempfile::tempdir().unwrap();
        let disk = crate::disk::LocalDisk;
        let quarantine = Quarantine::new(Arc::new(disk), root.path().join("quarantine"));
        let path = root.path().join(FILE_NAME);
        let followed = Followed { log: Uuid::from_u128(7), segment: 3, position: Position(9) };
        followed.write(&disk, root.path()).unwrap();
        assert_eq!(Followed::read(&disk, root.path(), &quarantine).unwrap(), Some(followed));
        let mut newer = fs::read(&path).unwrap();
        newer[8] = 2;
        fs::write(&path, &newer).unwrap();
        assert_eq!(Followed::read(&disk, root.path(), &quarantine).unwrap(), None);
        for more in [0, 8] {
            let mut bytes = newer[..BYTES - 4].to_vec();
            bytes.resize(bytes.len() + more, 1);
            bytes.extend_from_slice(&crc_fast::crc32_iscsi(&bytes).to_le_bytes());
            fs::write(&path, bytes).unwrap();
            let refused = Followed::read(&disk, root.path(), &quarantine).unwrap_err();
            assert!(matches!(refused, OpenError::TooNew { found: 2, known: 1, .. }), "{refused}");
        }
        for rubbish in [Vec::new(), MAGIC.to_vec(), vec![0xff; BYTES]] {
            fs::write(&path, rubbish).unwrap();
            assert_eq!(Followed::read(&disk, root.path(), &quarantine).unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_log_without_identity_is_adopted() {
        let root = tempfile::tempdir().unwrap();
        let newest = append(&open(root.path())).await;
        fs::remove_file(root.path().join("incoming").join(IDENTITY)).unwrap();
        fs::remove_file(root.path().join("aggregates").join(FILE_NAME)).unwrap();
        let log = open(root.path());
        assert_eq!(log.positions(&[SACK]).await.unwrap()[0].newest, newest);
        assert!(root.path().join("incoming").join(IDENTITY).exists());
        assert!(root.path().join("aggregates").join(FILE_NAME).exists());
    }
}

//! Tests of files used again, of lack of files, and of copies.

use super::*;
use crate::disk::tests::Recorder;

fn open(dir: &Path) -> (SegmentLog, usize) {
    open_on(Arc::new(LocalDisk), dir)
}

fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> (SegmentLog, usize) {
    let options = SegmentOptions {
        segment_bytes: 1 << 16,
        spares_max: 1,
        sync_full: true,
        tear: Tear::KeepWhole,
        reserve: Reserve::default(),
    };
    let quarantine = Quarantine::new(Arc::clone(&disk), dir.join("quarantine"));
    let mut frames = 0;
    let known = OwnerState { owner_tag: 7, ..OwnerState::default() };
    let log = SegmentLog::open(disk, dir, options, &quarantine, known, &mut |_| frames += 1).unwrap();
    (log, frames)
}

/// A backup may be opened where it is, and others have the same files.
#[test]
fn a_file_with_another_name_is_not_used_again() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    log.mark().unwrap();
    log.roll(Claim::New).unwrap();
    let (first, other) = (root.path().join(file_name(1)), root.path().join("other"));
    std::fs::hard_link(&first, &other).unwrap();
    let before = std::fs::read(&other).unwrap();
    assert_eq!(log.release(&[1]).unwrap(), [first]);
    log.roll(Claim::New).unwrap();
    assert!(std::fs::read(&other).unwrap() == before, "it was overwritten");
    // The other way round: a file without other names is used again.
    assert!(log.release(&[2]).unwrap().is_empty());
}

/// Connections may take all files that the process may have open, for a while.
#[test]
fn a_log_goes_on_once_files_can_be_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(Recorder::default());
    let (mut log, _) = open_on(disk.clone(), root.path());
    disk.files_refused.store(1, Ordering::Relaxed);
    assert!(matches!(log.roll(Claim::New), Err(WriteError::Shortage(_))));
    log.mark().unwrap();
    assert_eq!(log.active(), 1, "smaller frames have room");
    // The file has its name already.
    disk.dirs_refused.store(2, Ordering::Relaxed);
    log.roll(Claim::New).unwrap();
    log.mark().unwrap();
    log.sync().unwrap();
    assert_eq!(log.active(), 2);
    assert!(log.release(&[1]).unwrap().is_empty());
    disk.files_refused.store(1, Ordering::Relaxed);
    assert!(matches!(log.roll(Claim::New), Err(WriteError::Shortage(_))));
    let spare = with_suffix(&root.path().join(file_name(1)), SPARE_SUFFIX);
    assert!(spare.exists(), "a file for reuse stays");
    log.roll(Claim::New).unwrap();
    assert!(!spare.exists(), "it is used");
    log.mark().unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(root.path()).1, 2, "both marks are there");
}

#[test]
fn a_copy_counts_on_behind_the_original() {
    let root = tempfile::tempdir().unwrap();
    let (original, copy) = (root.path().join("original"), root.path().join("copy"));
    let (mut log, _) = open(&original);
    log.mark().unwrap();
    log.sync().unwrap();
    std::fs::create_dir(&copy).unwrap();
    for number in numbers(&original).unwrap() {
        std::fs::copy(original.join(file_name(number)), copy.join(file_name(number))).unwrap();
    }
    // The original continues.
    for _ in 0..3 {
        log.roll(Claim::New).unwrap();
        log.mark().unwrap();
    }
    let newest = log.write(&mut [Frame::with_capacity(0)]).unwrap()[0];
    continue_behind(&original, &copy).unwrap();
    let (mut copied, frames) = open(&copy);
    assert_eq!((copied.owner_tag(), frames), (7, 1), "what was copied is there");
    let next = copied.write(&mut [Frame::with_capacity(0)]).unwrap()[0];
    assert!(next > newest, "{next:?} {newest:?}");
    assert!(copied.found_end() > newest);
}

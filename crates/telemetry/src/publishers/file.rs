//! `file:///path`: one line per sample and event, as Python prints a dictionary, or as JSON with the option `json`.
//!
//! With `max_bytes` and `backup_count` the file is rotated before it exceeds that size: to `path.1`, `path.1` to
//! `path.2`, and so on. A receipt means that the operating system has the lines; they are not synced to disk.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    OpenError, Opened, PublishError, Publisher, PublisherTasks, PublisherUrl, Receipt,
    figures::PublisherCounts, peer_health::PeerHealth,
};
use crate::{
    event::Event,
    sample::Sample,
    wire::{event_record_json, event_record_repr, sample_record_json, sample_record_repr},
};

/// Pause between attempts, for example while the disk is full.
const PAUSE: Duration = Duration::from_secs(1);

pub struct FilePublisher {
    jobs: mpsc::Sender<Job>,
    is_json: bool,
}

struct Job {
    lines: Vec<String>,
    done: oneshot::Sender<()>,
}

impl FilePublisher {
    /// Opens the file immediately, so that a file that cannot be written is reported at the start.
    pub fn open(url: &PublisherUrl, counts: PublisherCounts, tasks: &PublisherTasks) -> Opened {
        if url.path.is_empty() {
            return Err(OpenError("names no file; write file:///path".to_owned()));
        }
        let limits = (url.query.first_integer("max_bytes")?, url.query.first_integer("backup_count")?);
        let (bytes_max, backups) = match limits {
            (Some(bytes), Some(backups)) => (bytes.max(0) as u64, backups.max(0) as usize),
            _ => (0, 0),
        };
        let path = PathBuf::from(&url.path);
        let file = append(&path).map_err(|error| OpenError(format!("{}: {error}", path.display())))?;
        let mut log = Log { path, file, written: 0, bytes_max, backups };
        let (jobs, received) = mpsc::channel::<Job>();
        let health = PeerHealth::new(url);
        let write = move || {
            for job in received {
                let count = job.lines.len() as u64;
                for line in job.lines {
                    while let Err(error) = log.write(&line) {
                        health.failed(&error);
                        counts.retries.inc();
                        std::thread::sleep(PAUSE);
                    }
                }
                health.recovered();
                counts.published.inc_by(count);
                // The receiver is gone when the agent ends.
                let _ = job.done.send(());
            }
        };
        tasks
            .spawn_thread("what publishes to file://", "file-publisher", write)
            .map_err(|error| OpenError(format!("no thread for it: {error}")))?;
        Ok(Arc::new(FilePublisher { jobs, is_json: url.query.has("json") }))
    }

    fn write(&self, lines: Vec<String>) -> Receipt {
        let (done, written) = oneshot::channel();
        // If the thread has ended, the job is dropped, and the receipt fails.
        self.jobs.send(Job { lines, done }).ok();
        let ended = |_| PublishError("the thread that writes the file has ended".to_owned());
        Receipt::of(async move { written.await.map_err(ended) })
    }
}

impl Publisher for FilePublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let line = if self.is_json { sample_record_json } else { sample_record_repr };
        self.write(samples.iter().map(line).collect())
    }

    fn events(&self, events: &[Event]) -> Receipt {
        let line = if self.is_json { event_record_json } else { event_record_repr };
        self.write(events.iter().map(line).collect())
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

struct Log {
    path: PathBuf,
    file: File,
    /// The number of bytes of the current line that are already in the file.
    written: usize,
    /// 0: no rotation.
    bytes_max: u64,
    backups: usize,
}

impl Log {
    /// Writes a whole line. After an error, call it again with the same line: it continues where it stopped.
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        if self.written == 0 && self.has_to_rotate(line)? {
            self.rotate()?;
        }
        write_rest(&mut self.file, format!("{line}\n").as_bytes(), &mut self.written)?;
        self.written = 0;
        Ok(())
    }

    fn has_to_rotate(&self, line: &str) -> std::io::Result<bool> {
        // A path that names nothing does not stop it: the file that is open was renamed or removed.
        if self.bytes_max == 0 || (self.path.exists() && !self.path.is_file()) {
            return Ok(false);
        }
        // With the newline; in characters, as Python counts.
        let length = line.chars().count() as u64 + 1;
        Ok(self.file.metadata()?.len() + length >= self.bytes_max)
    }

    fn rotate(&mut self) -> std::io::Result<()> {
        let backup = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        // If the file is gone, the last attempt may have renamed all and then failed to begin another: once is enough.
        let backups = if self.path.exists() { self.backups } else { 0 };
        for number in (0..backups).rev() {
            let from = if number == 0 { self.path.clone() } else { backup(number) };
            if from.exists() {
                std::fs::rename(from, backup(number + 1))?;
            }
        }
        self.file = append(&self.path)?;
        Ok(())
    }
}

/// Writes `bytes` from index `written` on, and advances `written`, also if an error stops it.
fn write_rest(file: &mut impl Write, bytes: &[u8], written: &mut usize) -> std::io::Result<()> {
    while *written < bytes.len() {
        match file.write(&bytes[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => *written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishers::tests::sample;

    /// A file on a disk with so much space.
    struct Disk {
        space: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let fitting = bytes.len().min(self.space);
            if fitting == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.space -= fitting;
            self.bytes.extend_from_slice(&bytes[..fitting]);
            Ok(fitting)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_a_full_disk_has_cut_is_completed() {
        let mut disk = Disk { space: 2, bytes: Vec::new() };
        let mut written = 0;
        assert!(write_rest(&mut disk, b"line\n", &mut written).is_err());
        disk.space = 100;
        write_rest(&mut disk, b"line\n", &mut written).unwrap();
        assert_eq!((disk.bytes.as_slice(), written), (&b"line\n"[..], 5));
    }

    /// A process with too many files open can rename the file, but not begin another.
    #[test]
    fn a_rotation_that_failed_half_way_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "before\n").unwrap();
        let file = append(&path).unwrap();
        let mut log = Log { path: path.clone(), file, written: 0, bytes_max: 10, backups: 2 };
        std::fs::rename(&path, folder.path().join("out.1")).unwrap();
        log.write("after").unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("out.1"), read("out")), ("before\n".into(), "after\n".into()));
        assert!(!folder.path().join("out.2").exists());
    }

    #[tokio::test]
    async fn files_are_renamed_before_they_grow_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let url = format!("file://{}?json&max_bytes=800&backup_count=2", path.display());
        let url = PublisherUrl::parse(&url).unwrap();
        let (tasks, _) = PublisherTasks::watched();
        let publisher = FilePublisher::open(&url, PublisherCounts::default(), &tasks).unwrap();
        for volume in 0..7 {
            publisher.samples(&[sample("m", f64::from(volume))]).await.unwrap();
        }
        let lines = |name: &str| {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(text.len() < 800);
            text.lines().count()
        };
        assert_eq!((lines("out"), lines("out.1"), lines("out.2")), (1, 2, 2));
        assert!(!folder.path().join("out.3").exists());
    }
}

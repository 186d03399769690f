//! The output file: created, or continued after its last complete checkpoint line.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use gnudi_drivers::disk::{LocalDisk, sync_name};
use uuid::Uuid;

use super::{
    ExportError,
    earlier::{Earlier, Effect},
    line::{FORMAT_VERSION, Head, Line},
};

/// A file being written, by one process at a time.
pub struct Output {
    writer: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    /// Opens or creates the file. Everything after the last line with journal positions is truncated: writing it was
    /// interrupted.
    pub fn open(path: &Path, store: Uuid) -> Result<(Self, Earlier), ExportError> {
        let failed = |error: io::Error| ExportError::file(path, error);
        let mut file = open_locked(path, "another process writes it")?;
        let (earlier, end) = read_earlier(&file, path, store)?;
        file.set_len(end).map_err(failed)?;
        file.seek(SeekFrom::Start(end)).map_err(failed)?;
        let mut output = Self { writer: BufWriter::new(file), path: path.to_owned() };
        if end == 0 {
            let head = Some(Head { version: FORMAT_VERSION, store });
            output.write(&Line { head, ..Line::default() })?;
        }
        Ok((output, earlier))
    }

    pub fn write(&mut self, line: &Line) -> Result<(), ExportError> {
        let written = serde_json::to_writer(&mut self.writer, line).map_err(io::Error::from);
        written
            .and_then(|()| self.writer.write_all(b"\n"))
            .map_err(|error| ExportError::file(&self.path, error))
    }

    /// Syncs the file.
    pub fn finish(mut self) -> Result<(), ExportError> {
        let finished = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        finished.map_err(|error| ExportError::file(&self.path, error))
    }
}

/// Opens or creates a file, locked until it is dropped; `in_use` is the reason if another process has locked it.
pub(super) fn open_locked(path: &Path, in_use: &str) -> Result<File, ExportError> {
    open_durable(path, in_use, &|path| sync_name(&LocalDisk, path))
}

/// The same; `sync` makes its name durable. So it does that of an existing file: its creator may have crashed before
/// doing so.
fn open_durable(
    path: &Path,
    in_use: &str,
    sync: &dyn Fn(&Path) -> io::Result<()>,
) -> Result<File, ExportError> {
    let failed = |error| ExportError::file(path, error);
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ExportError::invalid(path, in_use)),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    sync(path).map_err(failed)?;
    Ok(file)
}

/// Reads the file, and the end of its last line with journal positions.
fn read_earlier(file: &File, path: &Path, store: Uuid) -> Result<(Earlier, u64), ExportError> {
    let (mut earlier, mut whole_end) = (Earlier::default(), 0);
    // Since the last such line.
    let mut effects = Vec::new();
    let mut lines = Lines::new(file, path);
    while let Some((mut line, end)) = lines.next()? {
        match &line.head {
            Some(head) if head.store != store => {
                return Err(ExportError::invalid(path, "it has the measures of another store"));
            }
            Some(_) => whole_end = end,
            None => {}
        }
        let positions = line.journal.take();
        effects.extend(Effect::of(lines.number(), line));
        if let Some(positions) = positions {
            // That run may have read only some of the journals.
            earlier.positions.extend(positions);
            effects.drain(..).for_each(|effect| earlier.apply(effect));
            whole_end = end;
        }
    }
    Ok((earlier, whole_end))
}

/// The complete lines of a file, each with its end. The first must be the header.
pub struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    line: Vec<u8>,
    end: u64,
    number: u64,
}

impl<'a> Lines<'a> {
    pub fn new(file: &'a File, path: &'a Path) -> Self {
        Self { reader: BufReader::with_capacity(1 << 20, file), path, line: Vec::new(), end: 0, number: 0 }
    }

    /// Continues after line `number`, which ends at `end`.
    pub fn skip(&mut self, number: u64, end: u64) -> Result<(), ExportError> {
        (self.number, self.end) = (number, end);
        self.reader.seek(SeekFrom::Start(end)).map_err(|error| ExportError::file(self.path, error))?;
        Ok(())
    }

    /// The number of the last line read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn next(&mut self) -> Result<Option<(Line, u64)>, ExportError> {
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line);
        read.map_err(|error| ExportError::file(self.path, error))?;
        let Some(text) = self.line.strip_suffix(b"\n") else { return Ok(None) };
        self.end += self.line.len() as u64;
        self.number += 1;
        let invalid = |reason: String| ExportError::invalid(self.path, reason);
        let line: Line = serde_json::from_slice(text)
            .map_err(|error| invalid(format!("line {} is none of `gnudi export`: {error}", self.number)))?;
        match &line.head {
            Some(head) if head.version > FORMAT_VERSION => Err(invalid(format!(
                "it has format version {}, but this program knows versions up to {FORMAT_VERSION} only",
                head.version
            ))),
            None if self.number == 1 => Err(invalid("it is no file of `gnudi export`".to_owned())),
            _ => Ok(Some((line, self.end))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{line::Positions, post::NEW_METRIC};

    const STORE: Uuid = Uuid::from_u128(5);

    fn positions(offset: u32) -> Positions {
        Positions::from([("/j".to_owned(), format!("00000001.log:{offset}"))])
    }

    #[test]
    fn a_file_that_was_cut_is_gone_on_with_at_every_byte() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let (mut output, earlier) = Output::open(&path, STORE).unwrap();
        assert!(earlier.positions.is_empty());
        output
            .write(&Line { metric: Some(Uuid::from_u128(1)), ..Line::request("POST", NEW_METRIC, None) })
            .unwrap();
        output.write(&Line { journal: Some(positions(1)), ..Line::default() }).unwrap();
        output
            .write(&Line { metric: Some(Uuid::from_u128(2)), ..Line::request("POST", NEW_METRIC, None) })
            .unwrap();
        output.write(&Line { journal: Some(positions(2)), ..Line::request("POST", "/c", None) }).unwrap();
        output.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (output, earlier) = Output::open(&path, STORE).unwrap();
            output.finish().unwrap();
            let (expected_end, offset, metrics) = match cut {
                cut if cut < ends[2] => (ends[0], Positions::new(), 0),
                cut if cut < ends[4] => (ends[2], positions(1), 1),
                _ => (ends[4], positions(2), 2),
            };
            assert_eq!(std::fs::read(&path).unwrap(), whole[..expected_end], "{cut}");
            assert_eq!((earlier.positions, earlier.metrics.ids().count()), (offset, metrics), "{cut}");
        }
    }

    #[test]
    fn a_journal_that_a_run_does_not_read_keeps_its_position() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let (mut output, _) = Output::open(&path, STORE).unwrap();
        let other = ("/k".to_owned(), "00000001.log:7".to_owned());
        for journal in [Positions::from([other.clone()]), positions(1), positions(2)] {
            output.write(&Line { journal: Some(journal), ..Line::default() }).unwrap();
        }
        output.finish().unwrap();
        let (_, earlier) = Output::open(&path, STORE).unwrap();
        let mut expected = positions(2);
        expected.extend([other]);
        assert_eq!(earlier.positions, expected);
    }

    #[test]
    fn other_files_are_refused_and_stay_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Output::open(&path, STORE).err().unwrap().to_string();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            error
        };
        assert!(refused("hello\n").contains("line 1 is none"));
        assert!(refused("{\"method\":\"GET\"}\n").contains("no file of `gnudi export`"));
        let newer = format!("{{\"head\":{{\"version\":2,\"store\":\"{STORE}\"}}}}\n");
        assert!(refused(&newer).contains("format version 2"));
        let other = format!("{{\"head\":{{\"version\":1,\"store\":\"{}\"}}}}\n", Uuid::from_u128(6));
        assert!(refused(&other).contains("another store"));
    }

    #[test]
    fn the_name_of_a_file_is_durable_before_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        for _ in ["new", "known"] {
            let failing = |_: &Path| Err(io::Error::other("no sync"));
            let error = open_durable(&path, "in use", &failing).unwrap_err().to_string();
            assert!(error.contains("no sync"), "{error}");
            open_durable(&path, "in use", &|synced| sync_name(&LocalDisk, synced)).unwrap();
        }
    }

    #[test]
    fn a_file_has_one_writer() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let (_first, _) = Output::open(&path, STORE).unwrap();
        assert!(Output::open(&path, STORE).err().unwrap().to_string().contains("another process"));
    }
}

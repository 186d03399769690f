//! A log file that can be rotated, for example by logrotate: if it was moved, the next line starts a new one.
//! Unbuffered.
//!
//! If it cannot be written or created, lines go to standard error.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl LogFile {
    /// Creates the file, or appends to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        Ok(LogFile { path: path.to_owned(), file: Arc::new(Mutex::new(file)) })
    }

    /// Whether its path now refers to another file, or to none.
    fn is_moved(&self, file: &File) -> io::Result<bool> {
        let Ok(named) = fs::metadata(&self.path) else { return Ok(true) };
        let own = file.metadata()?;
        Ok((named.dev(), named.ino()) != (own.dev(), own.ino()))
    }

    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_moved(&file)? {
            *file = open(&self.path)?;
        }
        file.write_all(line)
    }
}

/// The mode follows the umask, as with Python.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// One write per line.
impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.write_line(line).is_err() {
            return io::stderr().write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = &'a LogFile;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_file_is_begun_anew_and_a_present_one_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("log"), directory.path().join("log.1"));
        fs::write(&path, "before\n").unwrap();
        let log = LogFile::open(&path).unwrap();
        let write = |line: &str| (&log).write_all(line.as_bytes()).unwrap();
        write("one\n");
        fs::rename(&path, &moved).unwrap();
        write("two\n");
        write("three\n");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved), read(&path)), ("before\none\n".into(), "two\nthree\n".into()));
        fs::remove_file(&path).unwrap();
        write("four\n");
        assert_eq!(read(&path), "four\n");
        assert!(LogFile::open(&directory.path().join("none/log")).is_err());
    }
}

//! Prints messages of a command about its work, on standard output and standard error.
//!
//! `println!` and `eprintln!` panic if they cannot write, because the disk is full or nobody reads the pipe any more. The
//! functions here ignore that, so that the work goes on: the exit status has its result. Texts that are themselves the result
//! of a command are printed by `gnudi_endpoint::output`.

use std::{
    fmt::{Arguments, Display},
    io::{self, Write},
};

/// A line on standard output.
pub fn say(line: impl Display) {
    put(io::stdout().lock(), format_args!("{line}\n"));
}

/// A text on standard output, without a newline at its end.
pub fn say_part(text: impl Display) {
    put(io::stdout().lock(), format_args!("{text}"));
}

/// A line on standard error.
pub fn note(line: impl Display) {
    put(io::stderr().lock(), format_args!("{line}\n"));
}

/// A text on standard error, without a newline at its end.
pub fn note_part(text: impl Display) {
    put(io::stderr().lock(), format_args!("{text}"));
}

fn put(mut to: impl Write, text: Arguments<'_>) {
    let _ = to.write_fmt(text).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for some bytes.
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.written.len() + bytes.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_left_out() {
        let mut disk = Disk { written: Vec::new(), room: 5 };
        for word in ["one", "three", "xy"] {
            put(&mut disk, format_args!("{word}"));
        }
        assert_eq!(disk.written, b"onexy");
    }
}

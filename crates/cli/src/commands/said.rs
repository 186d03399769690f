//! Prints what a command says about its work, on standard output and standard error.
//!
//! `println!` and `eprintln!` panic if a text cannot be written, to a full disk or a pipe that nobody reads any more.
//! Here it is left out, and the work goes on: the exit status says how it ended. Texts that are the result of a command
//! are printed by `gnudi_endpoint::output`.

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

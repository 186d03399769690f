//! `gnudi passwd`: sets a user's password for `auth_mode = basic`, or deletes the user from the file.
//!
//! The password is read from the terminal without echo, or as one line from standard input; never from the command
//! line, which other users can see.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_access::auth::passwords::{Hash, PasswordFile, SALT_BYTES, check_name};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use uuid::Uuid;

use super::messages::{note, note_part};
use crate::args::PasswdArgs;

/// Maximum bytes of a password.
const PASSWORD_BYTES_MAX: usize = 1024;

const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;
const BACKSPACE: u8 = 8;
const KILL_LINE: u8 = 21;
const DELETE: u8 = 127;

pub fn run(args: &PasswdArgs) -> Result<()> {
    check_name(&args.user)?;
    if args.delete {
        let mut file = PasswordFile::open(&args.file)?;
        file.remove(&args.user)?;
        file.save()?;
        return Ok(());
    }
    let password = read_password(&args.user)?;
    ensure!(!password.is_empty(), "the password is empty");
    ensure!(password.len() <= PASSWORD_BYTES_MAX, "the password has more than {PASSWORD_BYTES_MAX} bytes");
    let hash = Hash::of(&password, &salt());
    // Opened only now, so that the file is not locked while somebody types.
    let mut file = PasswordFile::open(&args.file)?;
    file.set(&args.user, &hash);
    file.save()?;
    Ok(())
}

/// A random salt, from the random bytes of two UUIDs.
fn salt() -> [u8; SALT_BYTES] {
    let mut salt = [0; SALT_BYTES];
    for half in salt.chunks_exact_mut(SALT_BYTES / 2) {
        // The first six and the last seven bytes hold no version or variant bits.
        let random = Uuid::new_v4().into_bytes();
        half[..6].copy_from_slice(&random[..6]);
        half[6..].copy_from_slice(&random[9..11]);
    }
    salt
}

fn read_password(user: &str) -> Result<Vec<u8>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut line = Vec::new();
        // One more than allowed, to detect a line that is too long.
        let limit = PASSWORD_BYTES_MAX as u64 + 2;
        stdin.lock().take(limit).read_until(b'\n', &mut line).context("reading the password")?;
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        }
        return Ok(line);
    }
    let password = ask(&stdin, &format!("New password of {user}: "))?;
    if ask(&stdin, "Once more: ")? != password {
        bail!("the two are not the same: nothing is changed");
    }
    Ok(password)
}

/// Prompts for a line on the terminal, without echo.
fn ask(stdin: &Stdin, question: &str) -> Result<Vec<u8>> {
    note_part(question);
    let unseen = Unseen::start(stdin).context("hiding what is typed")?;
    let line = type_line(stdin.lock().bytes());
    drop(unseen);
    note("");
    line
}

/// The line typed.
fn type_line(keys: impl Iterator<Item = io::Result<u8>>) -> Result<Vec<u8>> {
    let mut line: Vec<u8> = Vec::new();
    for key in keys {
        match key? {
            b'\r' | b'\n' => return Ok(line),
            INTERRUPT | END_OF_INPUT => break,
            KILL_LINE => line.clear(),
            // The whole character, which may be several bytes of UTF-8.
            BACKSPACE | DELETE => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            key => line.push(key),
        }
    }
    bail!("interrupted: nothing is changed")
}

/// A terminal without echo in raw mode; restored on drop. Ctrl-C arrives as a key, since a signal would end the program
/// without restoring the terminal.
struct Unseen<'a> {
    terminal: &'a Stdin,
    before: Termios,
}

impl<'a> Unseen<'a> {
    fn start(terminal: &'a Stdin) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Unseen { terminal, before })
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Option<Vec<u8>> {
        type_line(keys.iter().map(|key| Ok(*key))).ok()
    }

    #[test]
    fn a_line_is_typed_as_on_a_terminal() {
        assert_eq!(typed(b"secret\rrest"), Some(b"secret".to_vec()));
        assert_eq!(typed(b"secrex\x7ft\n"), Some(b"secret".to_vec()));
        assert_eq!(typed("né\x7fo\n".as_bytes()), Some(b"no".to_vec()));
        assert_eq!(typed(b"\x08abc\x15x\n"), Some(b"x".to_vec()));
        for interrupted in [&b"secret"[..], b"secret\x03\n", b"\x04"] {
            assert_eq!(typed(interrupted), None);
        }
    }

    #[test]
    fn no_two_salts_are_the_same() {
        assert_ne!(salt(), salt());
    }
}

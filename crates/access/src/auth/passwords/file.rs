//! The password file: one `user:hash` per line, in the format of `htpasswd`. Empty lines and lines that begin
//! with `#` are comments.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::{Path, PathBuf},
};

use super::hash::Hash;

/// The maximum length of a user's name.
const NAME_CHARACTERS_MAX: usize = 255;

/// The file's mode: only its owner may read it.
const MODE: u32 = 0o600;

/// Why a password file is refused.
#[derive(Debug, thiserror::Error)]
pub enum PasswordsError {
    #[error("{path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("{path}, line {line}: {problem}")]
    Line { path: String, line: usize, problem: &'static str },
    #[error("{path}: there is no user {user}")]
    NoSuchUser { path: String, user: String },
    #[error("{0}")]
    Name(&'static str),
}

/// Reads the hashes by user.
pub(super) fn read(path: &Path) -> Result<HashMap<String, Hash>, PasswordsError> {
    parse(path, &read_text(path)?)
}

fn read_text(path: &Path) -> Result<String, PasswordsError> {
    fs::read_to_string(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> PasswordsError {
    PasswordsError::Unreadable { path: path.display().to_string(), error }
}

fn parse(path: &Path, text: &str) -> Result<HashMap<String, Hash>, PasswordsError> {
    let mut hashes = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let refuse =
            |problem| PasswordsError::Line { path: path.display().to_string(), line: index + 1, problem };
        let line = line.trim();
        if is_remark(line) {
            continue;
        }
        let (user, hash) =
            line.split_once(':').ok_or_else(|| refuse("there is no colon after the user's name"))?;
        if user.is_empty() {
            return Err(refuse("the user's name is empty"));
        }
        if hashes.insert(user.to_owned(), Hash::parse(hash).map_err(refuse)?).is_some() {
            return Err(refuse("the user occurs twice"));
        }
    }
    Ok(hashes)
}

fn is_remark(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Whether a line is the user's entry.
fn is_of(line: &str, user: &str) -> bool {
    !is_remark(line) && line.trim().split_once(':').is_some_and(|(name, _)| name == user)
}

/// Refuses names that do not fit the file's format or HTTP basic authentication.
pub fn check_name(user: &str) -> Result<(), PasswordsError> {
    let refuse = |problem| Err(PasswordsError::Name(problem));
    if user.is_empty() {
        return refuse("the user's name is empty");
    }
    if user.chars().count() > NAME_CHARACTERS_MAX {
        return refuse("the user's name has more than 255 characters");
    }
    if user.contains(|character: char| character == ':' || character.is_control()) {
        return refuse("a user's name has no colons and no control characters");
    }
    if user.starts_with('#') || user.trim() != user {
        return refuse("a user's name begins and ends with no space, and does not begin with `#`");
    }
    Ok(())
}

/// A password file open for changes; locked until dropped.
pub struct PasswordFile {
    path: PathBuf,
    text: String,
    _lock: File,
}

impl PasswordFile {
    /// Opens or creates a file. A file that the server would refuse is refused.
    pub fn open(path: &Path) -> Result<Self, PasswordsError> {
        // Resolve symlinks, so that the target is replaced and the link stays.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(unreadable(path, error)),
        };
        let lock = File::open(directory(&path)).and_then(|directory| directory.lock().map(|()| directory));
        let lock = lock.map_err(|error| unreadable(&path, error))?;
        let text = match read_text(&path) {
            Err(PasswordsError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                String::new()
            }
            text => text?,
        };
        parse(&path, &text)?;
        Ok(PasswordFile { path, text, _lock: lock })
    }

    /// Sets a user's hash: replaces the old one, or appends an entry.
    pub fn set(&mut self, user: &str, hash: &str) {
        let entry = format!("{user}:{hash}");
        let mut is_there = false;
        let mut lines = Vec::new();
        for line in self.text.lines() {
            let is_mine = is_of(line, user);
            is_there |= is_mine;
            lines.push(if is_mine { entry.as_str() } else { line });
        }
        if !is_there {
            lines.push(&entry);
        }
        self.text = lines.join("\n") + "\n";
    }

    /// Removes a user.
    ///
    /// # Errors
    /// If the user does not exist.
    pub fn remove(&mut self, user: &str) -> Result<(), PasswordsError> {
        let kept: Vec<&str> = self.text.lines().filter(|line| !is_of(line, user)).collect();
        if kept.len() == self.text.lines().count() {
            let path = self.path.display().to_string();
            return Err(PasswordsError::NoSuchUser { path, user: user.to_owned() });
        }
        self.text = kept.iter().flat_map(|line| [line, "\n"]).collect();
        Ok(())
    }

    /// Replaces the file atomically, with mode 0600 and the same owner.
    pub fn save(self) -> Result<(), PasswordsError> {
        let directory = directory(&self.path);
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        // The directory is locked, so the name is free.
        let temporary = directory.join(format!(".{name}.new"));
        let written = || -> io::Result<()> {
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(MODE).open(&temporary)?;
            if let Ok(old) = fs::metadata(&self.path) {
                let new = file.metadata()?;
                if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                    fchown(&file, Some(old.uid()), Some(old.gid()))?;
                }
            }
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            File::open(directory)?.sync_all()
        };
        written().map_err(|error| {
            // Ignore errors: the file may not exist, and a leftover is overwritten next time.
            let _ = fs::remove_file(&temporary);
            unreadable(&self.path, error)
        })
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HASH: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    fn refusal(text: &str) -> (usize, &'static str) {
        match parse(Path::new("f"), text) {
            Err(PasswordsError::Line { line, problem, .. }) => (line, problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refusal("\nadmin").0, 2);
        assert_eq!(refusal(&format!(":{HASH}")).1, "the user's name is empty");
        assert_eq!(refusal("admin:secret").0, 1);
        assert_eq!(refusal("admin:$2y$05$short").0, 1);
        let line = format!("admin:{HASH}");
        assert_eq!(refusal(&format!("{line}\n{line}")), (2, "the user occurs twice"));
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passwords");
        let change = |change: &dyn Fn(&mut PasswordFile)| {
            let mut file = PasswordFile::open(&path).unwrap();
            change(&mut file);
            file.save().unwrap();
            fs::read_to_string(&path).unwrap()
        };
        assert_eq!(change(&|file| file.set("jd", HASH)), format!("jd:{HASH}\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = HASH.replace("m=256", "m=512");
        fs::write(&path, format!("# who\n\n jd:{HASH}\n# jd:x\nada:{HASH}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let expected = format!("# who\n\njd:{other}\n# jd:x\nada:{HASH}\n");
        assert_eq!(change(&|file| file.set("jd", &other)), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let expected = format!("# who\n\n# jd:x\nada:{HASH}\n");
        assert_eq!(change(&|file| file.remove("jd").unwrap()), expected);
        let error = PasswordFile::open(&path).unwrap().remove("jd").unwrap_err();
        assert!(matches!(error, PasswordsError::NoSuchUser { .. }), "{error}");
        assert_eq!(change(&|file| file.remove("ada").unwrap()), "# who\n\n# jd:x\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_link_stays_a_link_and_a_bad_file_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        fs::write(&real, "# who\n").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut file = PasswordFile::open(&link).unwrap();
        file.set("jd", HASH);
        file.save().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), format!("# who\njd:{HASH}\n"));
        fs::write(&real, "jd:secret\n").unwrap();
        assert!(PasswordFile::open(&link).is_err());
    }

    #[test]
    fn names_fit_in_a_line_and_in_a_header() {
        for name in ["admin", "J. Danjou", "jd@example.net", "ñ"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a:b", "#a", " a", "a ", "a\nb", "a\0", &"x".repeat(256)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}

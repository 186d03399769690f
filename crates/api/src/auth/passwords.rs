//! A file of users and the bcrypt hashes of their passwords, as `htpasswd -B` writes it.
//!
//! A hash takes tens of milliseconds on purpose, so credentials that were right once are remembered, by a keyed hash of
//! their own. The file is read at the start: a change of it takes a restart.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
};

use parking_lot::RwLock;
use tokio::sync::Semaphore;

/// How many passwords are checked against their hash at once, so that guesses leave processors for others.
const CHECKS_MAX: usize = 1;

/// How many credentials are remembered; beyond that all are forgotten, and checked again.
const REMEMBERED_MAX: usize = 100_000;

/// Why a file of passwords is refused.
#[derive(Debug, thiserror::Error)]
pub enum PasswordsError {
    #[error("{path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    #[error("{path}, line {line}: {problem}")]
    Line { path: String, line: usize, problem: &'static str },
}

/// Who may call, with which password.
#[derive(Debug)]
pub struct Passwords {
    hashes: HashMap<String, Arc<str>>,
    /// The program's own collectors call with this password, as any user; it is never written anywhere.
    own: String,
    known: RwLock<HashSet<u128>>,
    keys: [RandomState; 2],
    checks: Semaphore,
}

impl Passwords {
    /// Reads lines of `user:hash`; empty lines and those that begin with `#` are passed over. `own` is a secret of this
    /// process.
    pub fn load(path: &Path, own: String) -> Result<Self, PasswordsError> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PasswordsError::Unreadable { path: shown(), error })?;
        Self::parse(&text, own).map_err(|(line, problem)| PasswordsError::Line {
            path: shown(),
            line,
            problem,
        })
    }

    fn parse(text: &str, own: String) -> Result<Self, (usize, &'static str)> {
        let mut hashes = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let refuse = |problem| Err((index + 1, problem));
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((user, hash)) = line.split_once(':') else {
                return refuse("there is no colon behind the user's name");
            };
            if user.is_empty() {
                return refuse("the user's name is empty");
            }
            if !["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|start| hash.starts_with(start))
                || hash.parse::<bcrypt::HashParts>().is_err()
            {
                return refuse("the password's hash is not bcrypt's: make it with `htpasswd -B`");
            }
            if hashes.insert(user.to_owned(), hash.into()).is_some() {
                return refuse("the user is there twice");
            }
        }
        Ok(Passwords {
            hashes,
            own,
            known: RwLock::default(),
            keys: [RandomState::new(), RandomState::new()],
            checks: Semaphore::new(CHECKS_MAX),
        })
    }

    /// Whether the password is the user's.
    pub async fn accept(&self, user: &str, password: &[u8]) -> bool {
        let credentials = self.fingerprint(user, password);
        if self.known.read().contains(&credentials) {
            return true;
        }
        if self.is_right(user, password).await {
            let mut known = self.known.write();
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(credentials);
            return true;
        }
        false
    }

    async fn is_right(&self, user: &str, password: &[u8]) -> bool {
        if self.fingerprint("", password) == self.fingerprint("", self.own.as_bytes()) {
            return true;
        }
        // A user who isn't there takes as long as one who is.
        let Some(hash) = self.hashes.get(user).or(self.hashes.values().next()) else { return false };
        let (hash, password) = (hash.clone(), password.to_vec());
        let _permit = self.checks.acquire().await.expect("the semaphore is never closed");
        let checked = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash)).await;
        self.hashes.contains_key(user) && matches!(checked, Ok(Ok(true)))
    }

    /// A number that nobody outside of this process can find credentials for.
    fn fingerprint(&self, user: &str, password: &[u8]) -> u128 {
        let [high, low] = [0, 1].map(|key: usize| u128::from(self.keys[key].hash_one((user, password))));
        high << 64 | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    #[tokio::test]
    async fn a_user_needs_the_own_password() {
        let text = format!("# users\nadmin:{}\n\njd:{}\n", hash("secret"), hash(""));
        let passwords = Passwords::parse(&text, "own".to_owned()).unwrap();
        // Twice: at first by the hash, then from memory.
        for _ in 0..2 {
            assert!(passwords.accept("admin", b"secret").await);
            assert!(passwords.accept("jd", b"").await);
            assert!(passwords.accept("anybody", b"own").await);
            assert!(!passwords.accept("admin", b"").await);
            assert!(!passwords.accept("jd", b"secret").await);
            assert!(!passwords.accept("nobody", b"secret").await);
        }
        let nobody = Passwords::parse("", "own".to_owned()).unwrap();
        assert!(!nobody.accept("admin", b"").await);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |text: &str| Passwords::parse(text, String::new()).unwrap_err();
        assert_eq!(refusal("\nadmin").0, 2);
        assert_eq!(refusal(":x").1, "the user's name is empty");
        assert_eq!(refusal("admin:secret").0, 1);
        assert_eq!(refusal("admin:$2y$05$short").0, 1);
        let line = format!("admin:{}", hash("x"));
        assert_eq!(refusal(&format!("{line}\n{line}")), (2, "the user is there twice"));
    }
}

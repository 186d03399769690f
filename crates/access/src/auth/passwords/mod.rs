//! Users and passwords, from a file that is reloaded when it changes.
//!
//! A check takes tens of milliseconds on purpose. Valid credentials are therefore cached, as a keyed hash,
//! until the file changes.

mod file;
mod hash;
mod queue;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use gnudi_server::Followed;
use parking_lot::RwLock;

use self::queue::{CheckOrigin, CheckQueue};
pub use self::{
    file::{PasswordFile, PasswordsError, check_name},
    hash::{Hash, SALT_BYTES},
    queue::Busy,
};
use super::{ProcessSecret, network};

/// How many credentials are cached; when the cache is full it is cleared.
const REMEMBERED_MAX: usize = 100_000;

/// Verifies users' passwords.
#[derive(Debug)]
pub struct Passwords {
    path: PathBuf,
    followed: Followed,
    users: RwLock<Arc<Users>>,
    own: ProcessSecret,
    checks: CheckQueue,
    /// Hashes addresses and names for the queue.
    keys: RandomState,
}

/// The content of the file, and a cache of credentials that it accepts.
#[derive(Debug)]
struct Users {
    hashes: HashMap<String, Arc<Hash>>,
    /// Hashes to check passwords of unknown users against, so that they take as long as those of known users.
    decoys: Vec<Arc<Hash>>,
    known: RwLock<HashSet<u128>>,
    keys: [RandomState; 2],
}

impl Passwords {
    /// Loads the file.
    pub fn load(path: &Path, own: ProcessSecret) -> Result<Self, PasswordsError> {
        let followed = Followed::new(&[path]);
        let users = Users::new(file::read(path)?);
        Ok(Passwords {
            path: path.to_owned(),
            followed,
            users: RwLock::new(Arc::new(users)),
            own,
            checks: CheckQueue::default(),
            keys: RandomState::new(),
        })
    }

    /// Reloads the file; on an error the current users stay.
    fn reload(&self) -> Result<(), PasswordsError> {
        let users = Users::new(file::read(&self.path)?);
        *self.users.write() = Arc::new(users);
        tracing::info!(file = %self.path.display(), "the passwords were reloaded");
        Ok(())
    }

    /// Reloads the file on SIGHUP and when it changes; never returns.
    pub(super) async fn follow(&self) -> io::Result<()> {
        self.followed.follow("the passwords", || self.reload()).await
    }

    /// Whether the password is the user's. `peer` is the client's address, if known.
    pub async fn accept(&self, user: &str, password: &[u8], peer: Option<IpAddr>) -> Result<bool, Busy> {
        let users = self.users.read().clone();
        let credentials = users.fingerprint(user, password);
        if users.known.read().contains(&credentials) || self.own.is(password) {
            return Ok(true);
        }
        let address = network(peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let origin = CheckOrigin { address: self.keys.hash_one(address), name: self.keys.hash_one(user) };
        let turn = self.checks.enter(origin, Instant::now())?.await.map_err(|_| Busy)?;
        // Of several concurrent requests with the same credentials only the first computes the hash.
        if users.known.read().contains(&credentials) {
            return Ok(true);
        }
        let (hash, is_there) = users.hash(user);
        let (password, checks) = (password.to_vec(), self.checks.clone());
        let checked = tokio::task::spawn_blocking(move || {
            // The check holds its turn until it ends, even if the caller has disconnected.
            let is_right = hash.is_of(&password) && is_there;
            if !is_right {
                checks.failed(origin, Instant::now());
            }
            drop(turn);
            is_right
        });
        let is_right = checked.await.unwrap_or(false);
        if is_right {
            users.remember(credentials);
        }
        Ok(is_right)
    }
}

impl Users {
    fn new(hashes: HashMap<String, Hash>) -> Self {
        let hashes: HashMap<String, Arc<Hash>> =
            hashes.into_iter().map(|(user, hash)| (user, Arc::new(hash))).collect();
        let mut decoys: Vec<Arc<Hash>> = hashes.values().cloned().collect();
        if decoys.is_empty() {
            let nobodys = Hash::of(b"", &[0; SALT_BYTES]);
            decoys.push(Arc::new(Hash::parse(&nobodys).expect("it was just made")));
        }
        let keys = [RandomState::new(), RandomState::new()];
        Users { hashes, decoys, known: RwLock::default(), keys }
    }

    /// The user's hash, or a decoy for an unknown user. A name always gets the same decoy, so that neither
    /// the time of a check nor its variation reveals whether the user exists.
    fn hash(&self, user: &str) -> (Arc<Hash>, bool) {
        let decoy = self.fingerprint(user, b"") % self.decoys.len() as u128;
        match self.hashes.get(user) {
            Some(hash) => (hash.clone(), true),
            None => (self.decoys[decoy as usize].clone(), false),
        }
    }

    fn remember(&self, credentials: u128) {
        let mut known = self.known.write();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(credentials);
    }

    /// A keyed hash, from which nobody outside this process can derive credentials.
    fn fingerprint(&self, user: &str, password: &[u8]) -> u128 {
        let [high, low] = [0, 1].map(|key: usize| u128::from(self.keys[key].hash_one((user, password))));
        high << 64 | low
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{queue::SHARE_MAX, *};

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    fn passwords(text: &str) -> (Passwords, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        (Passwords::load(file.path(), ProcessSecret::new("own".to_owned())).unwrap(), file)
    }

    async fn accepts(passwords: &Passwords, user: &str, password: &str) -> bool {
        passwords.accept(user, password.as_bytes(), None).await.expect("few wait")
    }

    #[tokio::test]
    async fn a_user_needs_the_own_password() {
        let argon2 = Hash::of(b"secret too", &[1; SALT_BYTES]);
        let text = format!("# users\nadmin:{}\n\njd:{}\nada:{argon2}\n", hash("secret"), hash(""));
        let (passwords, _file) = passwords(&text);
        // Twice: first by the hash, then from the cache.
        for _ in 0..2 {
            assert!(accepts(&passwords, "admin", "secret").await);
            assert!(accepts(&passwords, "jd", "").await);
            assert!(accepts(&passwords, "ada", "secret too").await);
            assert!(accepts(&passwords, "anybody", "own").await);
            assert!(!accepts(&passwords, "admin", "").await);
            assert!(!accepts(&passwords, "jd", "secret").await);
            assert!(!accepts(&passwords, "ada", "secret").await);
            for known in ["secret", "", "secret too"] {
                assert!(!accepts(&passwords, "nobody", known).await);
            }
        }
    }

    #[tokio::test]
    async fn nobody_is_right_where_there_are_no_users() {
        let (passwords, _file) = passwords("");
        assert!(!accepts(&passwords, "admin", "").await);
    }

    #[tokio::test]
    async fn what_the_file_says_last_counts_also_for_those_who_were_right() {
        let (passwords, file) = passwords(&format!("admin:{}\njd:{}\n", hash("old"), hash("jd")));
        assert!(accepts(&passwords, "admin", "old").await && accepts(&passwords, "jd", "jd").await);
        fs::write(file.path(), "admin:nonsense\n").unwrap();
        assert!(passwords.reload().is_err());
        assert!(accepts(&passwords, "admin", "old").await, "a file of no use changes nothing");
        fs::write(file.path(), format!("admin:{}\n", hash("new"))).unwrap();
        passwords.reload().unwrap();
        assert!(accepts(&passwords, "admin", "new").await);
        assert!(!accepts(&passwords, "admin", "old").await && !accepts(&passwords, "jd", "jd").await);
    }

    #[tokio::test]
    async fn guesses_wait_in_a_short_queue_and_others_do_not_wait_behind_them() {
        let (passwords, _file) = passwords(&format!("admin:{}\njd:{}\n", hash("secret"), hash("jd")));
        assert!(accepts(&passwords, "admin", "secret").await);
        let running = CheckOrigin { address: 0, name: 0 };
        let held = passwords.checks.enter(running, Instant::now()).unwrap().await.unwrap();
        let guesser = Some("192.0.2.1".parse().unwrap());
        let mut guesses: Vec<_> =
            (0..=SHARE_MAX).map(|_| Box::pin(passwords.accept("admin", b"guess", guesser))).collect();
        let mut turned_away = 0;
        for guess in &mut guesses {
            if let Some(answer) = futures_util::FutureExt::now_or_never(guess.as_mut()) {
                assert_eq!(answer, Err(Busy));
                turned_away += 1;
            }
        }
        assert_eq!(turned_away, 1);
        assert!(accepts(&passwords, "admin", "secret").await, "who was right before does not wait");
        let mut other = Box::pin(passwords.accept("jd", b"jd", Some("192.0.2.2".parse().unwrap())));
        assert_eq!(futures_util::FutureExt::now_or_never(other.as_mut()), None, "there is a place");
        drop(guesses);
        drop(held);
        assert_eq!(other.await, Ok(true));
        assert!(!accepts(&passwords, "admin", "guess").await);
    }
}

//! Password hashes: argon2id, which is written, and bcrypt, which is only read (`htpasswd -B` writes it).

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};

/// Memory (KiB), passes and lanes of new hashes: the minimum of OWASP's password storage cheat sheet, so that
/// a check is affordable on a shared server.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The highest costs accepted in a file: 1 GiB of memory, and seconds of CPU time.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const WORK_KIB_MAX: u64 = 8 << 20;
const BCRYPT_COST_MAX: u32 = 16;

/// Bytes of random salt.
pub const SALT_BYTES: usize = 16;

const NO_HASH: &str = "this is not a password hash of argon2id or bcrypt: `gnudi passwd` creates one";
const TOO_COSTLY: &str = "the password's hash would take too much memory or time to check";

/// A password hash. Debug output shows its kind only.
pub enum Hash {
    Argon2id(Box<PasswordHash>),
    Bcrypt(String),
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Hash::Argon2id(_) => "Argon2id",
            Hash::Bcrypt(_) => "Bcrypt",
        })
    }
}

impl Hash {
    /// Hashes a password. `salt` must be random.
    pub fn of(password: &[u8], salt: &[u8; SALT_BYTES]) -> String {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("they are within argon2's limits");
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash = hasher.hash_password_with_salt(password, salt);
        hash.expect("no header and no terminal has a password of 4 GiB").to_string()
    }

    /// Parses `$argon2id$v=19$m=...` or `$2y$...`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|start| text.starts_with(start)) {
            let parts: bcrypt::HashParts = text.parse().map_err(|_| NO_HASH)?;
            if parts.get_cost() > BCRYPT_COST_MAX {
                return Err(TOO_COSTLY);
            }
            return Ok(Hash::Bcrypt(text.to_owned()));
        }
        let hash = PasswordHash::new(text).map_err(|_| NO_HASH)?;
        if hash.algorithm != argon2::ARGON2ID_IDENT || hash.salt.is_none() || hash.hash.is_none() {
            return Err(NO_HASH);
        }
        let params = Params::try_from(&hash).map_err(|_| NO_HASH)?;
        let (memory, passes) = (params.m_cost(), params.t_cost());
        if memory > MEMORY_KIB_MAX || u64::from(memory) * u64::from(passes) > WORK_KIB_MAX {
            return Err(TOO_COSTLY);
        }
        Ok(Hash::Argon2id(Box::new(hash)))
    }

    /// Verifies a password. Slow on purpose; takes the same time for a wrong one.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Hash::Argon2id(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_password_is_of_no_other() {
        let text = Hash::of(b"secret", &[7; SALT_BYTES]);
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        assert_ne!(text, Hash::of(b"secret", &[8; SALT_BYTES]));
        let hash = Hash::parse(&text).unwrap();
        assert!(hash.is_of(b"secret"));
        for wrong in ["", "Secret", "secret ", "secre"] {
            assert!(!hash.is_of(wrong.as_bytes()), "{wrong}");
        }
        let hash = Hash::parse(&bcrypt::hash("secret", 4).unwrap()).unwrap();
        assert!(hash.is_of(b"secret") && !hash.is_of(b"secret "));
    }

    /// A test vector of the reference implementation (github.com/P-H-C/phc-winner-argon2, src/test.c).
    #[test]
    fn hashes_of_other_programs_are_read() {
        let text = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let hash = Hash::parse(text).unwrap();
        assert!(hash.is_of(b"password") && !hash.is_of(b"Password"));
    }

    #[test]
    fn what_is_no_hash_or_costs_too_much_is_refused() {
        for text in [
            "",
            "secret",
            "$2y$05$short",
            "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHRzYWx0",
            "$argon2i$v=19$m=64,t=2,p=1$c2FsdHNhbHRzYWx0$qFwBjJxX4CYXy4EUQXt8Pr1PGhmWrWqzaKFbFUmgRDY",
            "$argon2id$v=19$m=1,t=2,p=1$c2FsdHNhbHRzYWx0$qFwBjJxX4CYXy4EUQXt8Pr1PGhmWrWqzaKFbFUmgRDY",
        ] {
            assert_eq!(Hash::parse(text).unwrap_err(), NO_HASH, "{text}");
        }
        for text in [
            "$argon2id$v=19$m=1048577,t=1,p=1$c2FsdHNhbHRzYWx0$qFwBjJxX4CYXy4EUQXt8Pr1PGhmWrWqzaKFbFUmgRDY",
            "$argon2id$v=19$m=64,t=4000000,p=1$c2FsdHNhbHRzYWx0$qFwBjJxX4CYXy4EUQXt8Pr1PGhmWrWqzaKFbFUmgRDY",
            "$2b$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        ] {
            assert_eq!(Hash::parse(text).unwrap_err(), TOO_COSTLY, "{text}");
        }
    }
}

//! The secret of this process: its own collectors call its API with it, as whomever they post for, whatever the mode. It is
//! never written anywhere.

use std::hint::black_box;

use hyper::HeaderMap;

use super::{basic, named};
use crate::policy::Caller;

/// A secret that nobody else knows.
#[derive(Clone)]
pub struct Own(String);

impl std::fmt::Debug for Own {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Own")
    }
}

impl Own {
    pub fn new(secret: String) -> Self {
        Own(secret)
    }

    /// Whether these bytes are the secret; how long that takes does not depend on how much of them is right.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let difference =
            password.iter().zip(secret).fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
        password.len() == secret.len() && !secret.is_empty() && difference == 0
    }

    /// The caller whom one of this process' own collectors names, with this password, by HTTP's basic scheme.
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let (user, password) = basic::credentials(headers)?;
        self.is(&password).then(|| named(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_it() {
        let own = Own::new("secret".to_owned());
        assert!(own.is(b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "secreT"] {
            assert!(!own.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(!Own::new(String::new()).is(b""));
        assert!(!format!("{own:?}").contains("secret"));
    }
}

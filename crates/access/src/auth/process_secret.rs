//! A secret of this process. Its own collectors use it to call the API as any user, in every authentication
//! mode. It is never written anywhere.

use std::hint::black_box;

use hyper::HeaderMap;

use super::{basic, named};
use crate::policy::Caller;

/// A secret that only this process knows.
#[derive(Clone)]
pub struct ProcessSecret(String);

impl std::fmt::Debug for ProcessSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ProcessSecret")
    }
}

impl ProcessSecret {
    pub fn new(secret: String) -> Self {
        ProcessSecret(secret)
    }

    /// Compares in constant time.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let difference =
            password.iter().zip(secret).fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
        password.len() == secret.len() && !secret.is_empty() && difference == 0
    }

    /// The caller named by one of this process' own collectors, by basic authentication with this secret.
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
        let own = ProcessSecret::new("secret".to_owned());
        assert!(own.is(b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "secreT"] {
            assert!(!own.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(!ProcessSecret::new(String::new()).is(b""));
        assert!(!format!("{own:?}").contains("secret"));
    }
}

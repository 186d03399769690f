//! The identity behind a token, as Keystone reports it.

use std::sync::Arc;

use crate::AccessRule;

/// A valid token's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user_id: String,
    pub user_name: String,
    pub user_domain_id: String,
    pub user_domain_name: String,
    /// `None` for a token that is not scoped to a project.
    pub project_id: Option<String>,
    pub project_name: Option<String>,
    pub project_domain_id: Option<String>,
    pub project_domain_name: Option<String>,
    /// Names, as Keystone writes them.
    pub roles: Arc<[String]>,
    /// Of a domain-scoped token.
    pub domain_id: Option<String>,
    /// Of a system-scoped token: `all`.
    pub system_scope: Option<String>,
    /// The only requests that an application credential may make; `None`: any.
    pub access_rules: Option<Vec<AccessRule>>,
    /// Expiry, in seconds since the epoch.
    pub expires_at: i64,
}

impl Identity {
    pub fn has_role(&self, name: &str) -> bool {
        self.roles.iter().any(|role| role == name)
    }
}

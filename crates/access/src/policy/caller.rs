//! An authenticated caller.

use std::sync::Arc;

/// Attributes of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Compared with creators: `user_id:project_id` of a token, or a name.
    pub user: String,
    /// This and the next two are from the token; callers by name have none of them.
    pub user_id: Option<String>,
    /// The project that the token is scoped to.
    pub project_id: Option<String>,
    /// The domain that the token is scoped to, if it is not scoped to a project.
    pub domain_id: Option<String>,
    /// Role names, as Keystone writes them. Without a token, `admin` has the role `admin`.
    pub roles: Arc<[String]>,
}

impl Caller {
    /// Whether the caller has a token. Listings then show only its project's items. Callers by name have no
    /// project; listings show them all items, as in Gnocchi.
    pub fn has_token(&self) -> bool {
        self.user_id.is_some()
    }

    /// Whether the caller has the role; ignores case.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|own| same_role(own, role))
    }

    /// The key for quotas: the project, or the user without one.
    pub fn project(&self) -> &str {
        self.project_id.as_deref().unwrap_or(&self.user)
    }

    /// Whether the caller's attribute equals the text. An attribute that the caller lacks equals nothing, not
    /// even `None`: a token without a project owns nothing.
    pub(super) fn has(&self, field: &[String], text: &str) -> bool {
        let [name] = field else { return false };
        let own = match name.as_str() {
            "user" => Some(self.user.as_str()),
            "user_id" => self.user_id.as_deref(),
            "project_id" => self.project_id.as_deref(),
            "domain_id" => self.domain_id.as_deref(),
            "system" if !self.has_token() => Some("all"),
            "roles" => return self.roles.iter().any(|role| role == text),
            _ => None,
        };
        own == Some(text)
    }
}

fn same_role(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    one.to_lowercase() == other.to_lowercase()
}

//! Who calls, as authentication found out.

use std::sync::Arc;

/// What is known of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What things' creators are compared with: `user_id:project_id` of a token, or a name.
    pub user: String,
    /// Of the caller's token, as are the next two; callers by name have none of them.
    pub user_id: Option<String>,
    /// The project that the token is scoped to.
    pub project_id: Option<String>,
    /// The domain that the token is scoped to, where that is no project.
    pub domain_id: Option<String>,
    /// Names, as Keystone writes them; of callers by name, `admin` has the role of that name.
    pub roles: Arc<[String]>,
}

impl Caller {
    /// Whether the caller has a token: then lists show what belongs to its project. Callers by name have no projects, and
    /// lists show them everybody's things, as Gnocchi's do.
    pub fn has_token(&self) -> bool {
        self.user_id.is_some()
    }

    /// Whether the caller has the role, whatever its case.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|own| same_role(own, role))
    }

    /// Whom limits are counted for: the project, or the user where there is none.
    pub fn project(&self) -> &str {
        self.project_id.as_deref().unwrap_or(&self.user)
    }

    /// Whether a value under this name is the text. A name that the caller's kind has not has no value, not even none: a
    /// token without project owns nothing.
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

//! How Keystone is reached, and as whom: what `[keystone_authtoken]` and `[service_credentials]` say.

use std::{fmt, time::Duration};

use gnudi_http::{ClientIdentity, Trust};

/// A user, project or domain by its id, or by its name within a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainRef {
    Id(String),
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRef {
    Id(String),
    Name { name: String, domain: DomainRef },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectRef {
    Id(String),
    Name { name: String, domain: DomainRef },
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Project(ProjectRef),
    /// The cloud as a whole: `system_scope = all`.
    System,
}

/// With what a token is asked for. Secrets are never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password {
        user: UserRef,
        password: String,
        /// `None`: what the user has of their own.
        scope: Option<Scope>,
    },
    /// Scoped by itself.
    ApplicationCredential { id: String, secret: String },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Password { user, scope, .. } => formatter
                .debug_struct("Password")
                .field("user", user)
                .field("scope", scope)
                .finish_non_exhaustive(),
            Credentials::ApplicationCredential { id, .. } => {
                formatter.debug_struct("ApplicationCredential").field("id", id).finish_non_exhaustive()
            }
        }
    }
}

/// Which of a service's endpoints is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

/// How Keystone is reached.
#[derive(Clone, Debug)]
pub struct KeystoneOptions {
    /// With or without `/v3` at the end.
    pub auth_url: String,
    pub credentials: Credentials,
    /// Of endpoints in the catalogue; `None` takes the first of any.
    pub region_name: Option<String>,
    pub interface: Interface,
    pub trust: Trust,
    /// As whom to answer servers at https:// that ask for a certificate.
    pub identity: Option<ClientIdentity>,
    /// Of a request to Keystone.
    pub timeout: Duration,
}

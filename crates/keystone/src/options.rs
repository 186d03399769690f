//! Options of Keystone sessions: `[keystone_authtoken]` and `[service_credentials]`.

use std::time::Duration;

use gnudi_http::{ClientIdentity, Trust};
use gnudi_model::Secret;

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

/// The scope of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Project(ProjectRef),
    Domain(DomainRef),
    /// The cloud as a whole: `system_scope = all`.
    System,
    /// What the trust with this id delegates to the user.
    Trust(String),
}

/// Credentials of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    Password {
        user: UserRef,
        password: Secret,
        /// `None`: unscoped.
        scope: Option<Scope>,
    },
    /// Another token, for one in a scope and for the catalogue.
    Token { token: Secret, scope: Option<Scope> },
    /// An application credential has its own scope.
    ApplicationCredential { id: String, secret: Secret },
    /// The same by its name, of which its user has one.
    NamedApplicationCredential { name: String, user: UserRef, secret: Secret },
}

/// Which of a service's endpoints to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

impl Interface {
    const ALL: [Interface; 3] = [Interface::Public, Interface::Internal, Interface::Admin];

    /// Its name in a catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Public => "public",
            Interface::Internal => "internal",
            Interface::Admin => "admin",
        }
    }

    /// By the name in a catalogue, or in one of version 2, `internalURL`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_suffix("URL").unwrap_or(name);
        Interface::ALL.into_iter().find(|interface| interface.name() == name)
    }
}

/// How to reach Keystone.
#[derive(Clone, Debug)]
pub struct KeystoneOptions {
    /// With or without `/v3` at the end.
    pub auth_url: String,
    pub credentials: Credentials,
    /// Region of endpoints in the catalogue; `None`: the first of any.
    pub region_name: Option<String>,
    pub interface: Interface,
    pub trust: Trust,
    /// Client certificate for https:// servers that ask for one.
    pub identity: Option<ClientIdentity>,
    /// Timeout of a request to Keystone.
    pub timeout: Duration,
}

//! Converts `[service_credentials]` and `[gnocchi]` to credentials for services and the store.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use gnudi_keystone::{Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Session, UserRef};
use gnudi_telemetry::publishers::gnocchi::{GnocchiLimits, GnocchiOptions, StoreAccess};

use crate::{
    args::TrustArgs,
    commands::collectors::Sink,
    config::Config,
    keystone::{identity, scope},
};

/// Default timeout of a request to Keystone.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The credentials in `section`; `None` if it names no Keystone.
pub fn keystone(config: &Config, section: &str) -> Result<Option<KeystoneOptions>> {
    let Some(auth_url) = config.text(section, "auth_url") else { return Ok(None) };
    Ok(Some(KeystoneOptions {
        auth_url: auth_url.to_owned(),
        credentials: credentials(config, section)?,
        region_name: config.text(section, "region_name").map(str::to_owned),
        interface: match config.text(section, "interface") {
            Some("internal" | "internalURL") => Interface::Internal,
            Some("admin" | "adminURL") => Interface::Admin,
            _ => Interface::Public,
        },
        trust: trust(config, section),
        identity: identity(config, section)?,
        timeout: config.text(section, "timeout").map_or(TIMEOUT, |_| config.seconds(section, "timeout")),
    }))
}

fn trust(config: &Config, section: &str) -> gnudi_client::Trust {
    TrustArgs {
        cacert: config.text(section, "cafile").map(PathBuf::from),
        insecure: config.bool(section, "insecure"),
    }
    .trust()
}

fn credentials(config: &Config, section: &str) -> Result<Credentials> {
    let text = |name: &str| config.text(section, name).map(str::to_owned);
    let needed =
        |name: &str| text(name).with_context(|| format!("{}: is needed", config.place(section, name)));
    if text("auth_type").as_deref() == Some("v3applicationcredential") {
        return Ok(Credentials::ApplicationCredential {
            id: needed("application_credential_id")?,
            secret: needed("application_credential_secret")?,
        });
    }
    let domain = |id: &str, name: &str| {
        let id = text(id).or_else(|| text("default_domain_id"));
        let name = text(name).or_else(|| text("default_domain_name"));
        id.map(DomainRef::Id)
            .or(name.map(DomainRef::Name))
            .unwrap_or_else(|| DomainRef::Id("default".to_owned()))
    };
    let user = match text("user_id") {
        Some(id) => UserRef::Id(id),
        None => {
            UserRef::Name { name: needed("username")?, domain: domain("user_domain_id", "user_domain_name") }
        }
    };
    let project = match (text("project_id"), text("project_name")) {
        (Some(id), _) => Some(ProjectRef::Id(id)),
        (None, Some(name)) => {
            Some(ProjectRef::Name { name, domain: domain("project_domain_id", "project_domain_name") })
        }
        (None, None) => None,
    };
    Ok(Credentials::Password { user, password: needed("password")?, scope: scope(config, section, project)? })
}

/// The store's address and credentials in `[gnocchi]`; by default `own`, the server in this process.
pub fn gnocchi(config: &Config, own: Option<&Sink>) -> Result<GnocchiOptions> {
    let section = config.text("gnocchi", "auth_section").unwrap_or("gnocchi");
    let text = |name: &str| config.text(section, name).map(str::to_owned);
    let session = |section| -> Result<Option<Session>> {
        keystone(config, section)?.map(Session::new).transpose().map_err(anyhow::Error::from)
    };
    let mut options = GnocchiOptions {
        access: StoreAccess::Basic { user: String::new(), password: String::new() },
        endpoint: text("endpoint"),
        trust: trust(config, section),
        identity: session("service_credentials")?,
        config_dirs: config.directories().to_vec(),
        create_resource_types: true,
        limits: GnocchiLimits::default(),
    };
    // [service_credentials] is about the polled services.
    let is_silent = ["auth_type", "auth_section", "auth_url", "endpoint"]
        .iter()
        .all(|name| !config.is_set("gnocchi", name));
    options.access = match (text("auth_type").as_deref(), own.filter(|_| is_silent)) {
        (_, Some(own)) => {
            options.endpoint = Some(own.endpoint.clone());
            options.trust = own.trust.clone();
            StoreAccess::Basic { user: "admin".to_owned(), password: own.password.clone() }
        }
        (Some("gnocchi-basic"), _) => StoreAccess::Basic {
            user: text("user").unwrap_or_else(|| "admin".to_owned()),
            password: text("password").unwrap_or_default(),
        },
        (Some("gnocchi-noauth"), _) => StoreAccess::Noauth {
            user_id: text("user_id").unwrap_or_default(),
            project_id: text("project_id").unwrap_or_default(),
            roles: text("roles").unwrap_or_else(|| "admin".to_owned()),
        },
        _ => match session(section)? {
            Some(session) => StoreAccess::Keystone(session),
            None => bail!(
                "{}: neither gnocchi-basic nor gnocchi-noauth, and [service_credentials] auth_url is not set: the store's \
                 address and credentials are unknown; set auth_url and the rest in [service_credentials], or in \
                 [gnocchi] auth_type = gnocchi-basic, endpoint, user and password",
                config.place("gnocchi", "auth_type")
            ),
        },
    };
    Ok(options)
}

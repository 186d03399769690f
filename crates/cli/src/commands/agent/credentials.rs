//! Converts `[service_credentials]` and `[gnocchi]` to credentials for services and the store.

use std::time::Duration;

use anyhow::{Result, bail};
use gnudi_keystone::{Interface, KeystoneOptions, Session};
use gnudi_model::Secret;
use gnudi_telemetry::{
    polling::cloud::Cloud,
    publishers::gnocchi::{GnocchiLimits, GnocchiOptions, StoreAccess},
};

use crate::{
    commands::collectors::Sink,
    config::Config,
    keystone::{credentials, identity, login, trust},
};

/// Default timeout of a request to Keystone.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The id of the domain of users and projects for which none is configured.
const DEFAULT_DOMAIN: &str = "default";

/// Concurrent requests for the filtered project.
const FILTER_REQUESTS_MAX: usize = 1;

/// The credentials in `section`; `None` if it names no Keystone.
pub fn keystone(config: &Config, section: &str) -> Result<Option<KeystoneOptions>> {
    let Some(auth_url) = config.text(section, "auth_url") else { return Ok(None) };
    let credentials = credentials(config, section, Some(DEFAULT_DOMAIN))?;
    let timeout = config.text(section, "timeout").map_or(TIMEOUT, |_| config.seconds(section, "timeout"));
    login(config, section, auth_url, credentials, Interface::default(), timeout).map(Some)
}

/// The cloud of `[service_credentials]`; `None` without them. `requests_max`: concurrent requests to its services.
pub fn cloud(config: &Config, requests_max: usize) -> Result<Option<Cloud>> {
    let keystone = keystone(config, "service_credentials")?;
    Ok(keystone.map(|keystone| Cloud::new(keystone, requests_max)).transpose()?)
}

/// The store's address and credentials in `[gnocchi]`; by default `own`, the server in this process.
pub fn gnocchi(config: &Config, own: Option<&Sink>) -> Result<GnocchiOptions> {
    let section = config.text("gnocchi", "auth_section").unwrap_or("gnocchi");
    let text = |name: &str| config.string(section, name);
    let (identity, cloud) = (identity(config, section)?, cloud(config, FILTER_REQUESTS_MAX)?);
    // [service_credentials] is about the polled services.
    let is_silent = ["auth_type", "auth_section", "auth_url", "endpoint"]
        .iter()
        .all(|name| !config.is_set("gnocchi", name));
    let own = own.filter(|_| is_silent);
    let access = match (text("auth_type").as_deref(), own) {
        (_, Some(own)) => {
            StoreAccess::Basic { user: "admin".to_owned(), password: Secret::new(own.password.as_str()) }
        }
        (Some("gnocchi-basic"), _) => StoreAccess::Basic {
            user: text("user").unwrap_or_else(|| "admin".to_owned()),
            password: text("password").map(Secret::new).unwrap_or_default(),
        },
        (Some("gnocchi-noauth"), _) => StoreAccess::Noauth {
            user_id: text("user_id").unwrap_or_default(),
            project_id: text("project_id").unwrap_or_default(),
            roles: text("roles").unwrap_or_else(|| "admin".to_owned()),
        },
        _ => match keystone(config, section)?.map(Session::new).transpose()? {
            Some(session) => StoreAccess::Keystone(session),
            None => bail!(
                "{}: neither gnocchi-basic nor gnocchi-noauth, and [service_credentials] auth_url is not set: the store's \
                 address and credentials are unknown; set auth_url and the rest in [service_credentials], or in \
                 [gnocchi] auth_type = gnocchi-basic, endpoint, user and password",
                config.place("gnocchi", "auth_type")
            ),
        },
    };
    Ok(GnocchiOptions {
        access,
        endpoint: own.map_or_else(|| text("endpoint"), |own| Some(own.endpoint.clone())),
        trust: own.map_or_else(|| trust(config, section), |own| own.trust.clone()),
        identity,
        cloud,
        config_dirs: config.directories().to_vec(),
        create_resource_types: true,
        limits: GnocchiLimits::default(),
    })
}

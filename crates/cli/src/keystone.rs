//! Converts `[keystone_authtoken]` to the options of `gnudi_keystone` and `gnudi_access`. Sends no request.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use gnudi_access::{KeystoneAuth, KeystoneAuthOptions, Own};
use gnudi_http::ClientIdentity;
use gnudi_keystone::{
    Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, Session, UserRef, Validator,
    ValidatorOptions,
};

use crate::config::Config;

const SECTION: &str = "keystone_authtoken";

/// Upper bound of the cache lifetime, since a revoked token is accepted that long.
const CACHE_SECONDS_MAX: i64 = 300;

/// Authentication by Keystone tokens. `own` is the secret of this process's own collectors.
pub fn auth(config: &Config, own: Own) -> Result<KeystoneAuth> {
    let options = options(config)?;
    let www_authenticate_uri = text(config, "www_authenticate_uri").unwrap_or(options.auth_url.as_str());
    let auth_options = KeystoneAuthOptions {
        www_authenticate_uri: www_authenticate_uri.to_owned(),
        service_token_roles: config.list(SECTION, "service_token_roles"),
        service_token_roles_required: config.bool(SECTION, "service_token_roles_required"),
        service_type: text(config, "service_type").map(str::to_owned),
    };
    let session = Session::new(options).with_context(|| format!("[{SECTION}]"))?;
    let validator = Validator::new(
        session,
        ValidatorOptions { cache_time: cache_time(config), tokens_max: config.size(SECTION, "tokens_max") },
    );
    Ok(KeystoneAuth::new(validator, auth_options, own))
}

fn options(config: &Config) -> Result<KeystoneOptions> {
    let timeout = Duration::from_secs(config.size(SECTION, "http_connect_timeout") as u64);
    Ok(KeystoneOptions {
        auth_url: needed(config, "auth_url", "auth_mode = keystone")?,
        credentials: credentials(config)?,
        region_name: text(config, "region_name").map(str::to_owned),
        interface: match text(config, "interface") {
            Some("public" | "publicURL") => Interface::Public,
            Some("admin" | "adminURL") => Interface::Admin,
            _ => Interface::Internal,
        },
        trust: gnudi_http::Trust::asked(
            text(config, "cafile").map(Into::into),
            config.bool(SECTION, "insecure"),
        ),
        identity: identity(config, SECTION)?,
        timeout,
    })
}

/// The client certificate: `certfile` and `keyfile` of a section.
pub fn identity(config: &Config, section: &str) -> Result<Option<ClientIdentity>> {
    let path = |name| config.text(section, name).map(PathBuf::from);
    match (path("certfile"), path("keyfile")) {
        (Some(certificate), key) => Ok(Some(ClientIdentity { certificate, key })),
        (None, Some(_)) => bail!("{}: keyfile needs it", config.place(section, "certfile")),
        (None, None) => Ok(None),
    }
}

/// The scope of a section's login: `system_scope`, or its project.
pub fn scope(config: &Config, section: &str, project: Option<ProjectRef>) -> Result<Option<Scope>> {
    match (config.text(section, "system_scope"), project) {
        (None, project) => Ok(project.map(Scope::Project)),
        (Some(_), None) => Ok(Some(Scope::System)),
        (Some(_), Some(_)) => {
            bail!(
                "{}: a token is for the system or for a project, not both",
                config.place(section, "system_scope")
            )
        }
    }
}

fn credentials(config: &Config) -> Result<Credentials> {
    if text(config, "auth_type") == Some("v3applicationcredential") {
        let needed = |name| needed(config, name, "auth_type = v3applicationcredential");
        return Ok(Credentials::ApplicationCredential {
            id: needed("application_credential_id")?,
            secret: needed("application_credential_secret")?,
        });
    }
    let user = match (text(config, "user_id"), text(config, "username")) {
        (Some(id), _) => UserRef::Id(id.to_owned()),
        (None, Some(name)) => UserRef::Name { name: name.to_owned(), domain: domain(config, "user")? },
        (None, None) => {
            bail!("{}: auth_type = password needs it, or user_id", config.place(SECTION, "username"))
        }
    };
    let project = match (text(config, "project_id"), text(config, "project_name")) {
        (Some(id), _) => Some(ProjectRef::Id(id.to_owned())),
        (None, Some(name)) => {
            Some(ProjectRef::Name { name: name.to_owned(), domain: domain(config, "project")? })
        }
        (None, None) => None,
    };
    let Some(scope) = scope(config, SECTION, project)? else {
        bail!(
            "{}: auth_type = password needs it, or project_id, or system_scope: who has no scope may not validate tokens",
            config.place(SECTION, "project_name")
        );
    };
    let password = needed(config, "password", "auth_type = password")?;
    Ok(Credentials::Password { user, password, scope: Some(scope) })
}

/// The domain of a user or project given by name.
fn domain(config: &Config, whose: &str) -> Result<DomainRef> {
    for prefix in [whose, "default"] {
        if let Some(id) = text(config, &format!("{prefix}_domain_id")) {
            return Ok(DomainRef::Id(id.to_owned()));
        }
        if let Some(name) = text(config, &format!("{prefix}_domain_name")) {
            return Ok(DomainRef::Name(name.to_owned()));
        }
    }
    bail!(
        "{}: needed where the {whose} is named by its name; {whose}_domain_id would do as well",
        config.place(SECTION, &format!("{whose}_domain_name"))
    )
}

fn cache_time(config: &Config) -> Duration {
    let seconds = config.int(SECTION, "token_cache_time").expect("has a default");
    if seconds > CACHE_SECONDS_MAX {
        tracing::warn!(
            "{} = {seconds}: tokens are cached for {CACHE_SECONDS_MAX} seconds at most",
            config.place(SECTION, "token_cache_time")
        );
    }
    Duration::from_secs(seconds.clamp(0, CACHE_SECONDS_MAX) as u64)
}

fn text<'a>(config: &'a Config, name: &str) -> Option<&'a str> {
    config.text(SECTION, name)
}

fn needed(config: &Config, name: &str, by: &str) -> Result<String> {
    match text(config, name) {
        Some(value) => Ok(value.to_owned()),
        None => bail!("{}: {by} needs it", config.place(SECTION, name)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn load(text: &str) -> Config {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "[keystone_authtoken]\n{text}").unwrap();
        Config::load_file(Some(file.path())).unwrap()
    }

    const PASSWORD: &str = "auth_url = http://h:5000\nusername = gnocchi\nuser_domain_name = Default\npassword = hunter22\n\
                            project_name = service\nproject_domain_id = default\n";

    #[test]
    fn a_user_logs_in_by_names_or_ids() {
        let Credentials::Password { user, password, scope } = credentials(&load(PASSWORD)).unwrap() else {
            panic!("a password was configured");
        };
        let domain = DomainRef::Name("Default".to_owned());
        assert_eq!(user, UserRef::Name { name: "gnocchi".to_owned(), domain });
        let domain = DomainRef::Id("default".to_owned());
        assert_eq!(scope, Some(Scope::Project(ProjectRef::Name { name: "service".to_owned(), domain })));
        assert_eq!(password, "hunter22");
        let ids = load("auth_url = http://h\nuser_id = u\nproject_id = p\npassword = hunter22\n");
        let Credentials::Password { user, scope, .. } = credentials(&ids).unwrap() else {
            panic!("a password was configured");
        };
        let project = Scope::Project(ProjectRef::Id("p".to_owned()));
        assert_eq!((user, scope), (UserRef::Id("u".to_owned()), Some(project)));
        let of_system = "auth_url = http://h\nuser_id = u\npassword = hunter22\nsystem_scope = all\n";
        let Credentials::Password { scope, .. } = credentials(&load(of_system)).unwrap() else {
            panic!("a password was configured");
        };
        assert_eq!(scope, Some(Scope::System));
        let error = credentials(&load(&format!("{of_system}project_id = p\n"))).unwrap_err().to_string();
        assert!(error.contains("not both"), "{error}");
        let default = load(
            "auth_url = http://h\nusername = u\nproject_name = p\npassword = hunter22\ndefault_domain_id = default\n",
        );
        assert!(credentials(&default).is_ok());
    }

    #[test]
    fn interfaces_have_two_names() {
        let interface = |text: &str| options(&load(&format!("{PASSWORD}{text}"))).unwrap().interface;
        assert_eq!(interface(""), Interface::Internal);
        for (name, expected) in [
            ("public", Interface::Public),
            ("publicURL", Interface::Public),
            ("internalURL", Interface::Internal),
            ("admin", Interface::Admin),
            ("adminURL", Interface::Admin),
        ] {
            assert_eq!(interface(&format!("interface = {name}\n")), expected, "{name}");
        }
    }

    #[test]
    fn an_application_credential_has_an_id_and_a_secret() {
        let text =
            "auth_type = v3applicationcredential\nauth_url = http://h\napplication_credential_id = a\n";
        let error = credentials(&load(text)).unwrap_err().to_string();
        assert!(error.contains("application_credential_secret: auth_type"), "{error}");
        let found = credentials(&load(&format!("{text}application_credential_secret = s\n"))).unwrap();
        assert_eq!(found, Credentials::ApplicationCredential { id: "a".to_owned(), secret: "s".to_owned() });
    }

    #[test]
    fn what_is_missing_is_named() {
        for missing in
            ["auth_url", "username", "user_domain_name", "password", "project_name", "project_domain_id"]
        {
            let option = format!("{missing} ");
            let text: String =
                PASSWORD.split_inclusive('\n').filter(|line| !line.starts_with(&option)).collect();
            let error = options(&load(&text)).unwrap_err().to_string();
            let named = missing.replace("project_domain_id", "project_domain_name");
            assert!(error.contains(&format!("[keystone_authtoken] {named}: ")), "{error}");
            assert!(!error.contains("hunter22"), "{error}");
        }
        let text = format!("{PASSWORD}cafile = /nonexistent.pem\n");
        let error = format!("{:#}", auth(&load(&text), Own::new("own".to_owned())).unwrap_err());
        assert!(error.contains("/nonexistent.pem"), "{error}");
    }

    #[test]
    fn tokens_are_cached_for_300_seconds_at_most() {
        for (seconds, expected) in [("-1", 0), ("0", 0), ("60", 60), ("300", 300), ("86400", 300)] {
            let config = load(&format!("token_cache_time = {seconds}\n"));
            assert_eq!(cache_time(&config), Duration::from_secs(expected), "{seconds}");
        }
    }
}

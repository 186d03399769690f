//! Converts `[keystone_authtoken]` to the options of `gnudi_keystone` and `gnudi_access`. Sends no request.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use gnudi_access::{KeystoneAuth, KeystoneAuthOptions, ProcessSecret};
use gnudi_http::{ClientIdentity, Trust};
use gnudi_keystone::{
    Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, Session, UserRef, Validator,
    ValidatorOptions,
};
use gnudi_model::Secret;

use crate::config::Config;

const SECTION: &str = "keystone_authtoken";

/// Upper bound of the cache lifetime, since a revoked token is accepted that long.
const CACHE_SECONDS_MAX: i64 = 300;

/// Authentication by Keystone tokens. `own` is the secret of this process's own collectors.
pub fn auth(config: &Config, own: ProcessSecret) -> Result<KeystoneAuth> {
    let options = options(config)?;
    let www_authenticate_uri = config.string(SECTION, "www_authenticate_uri");
    let auth_options = KeystoneAuthOptions {
        www_authenticate_uri: www_authenticate_uri.unwrap_or_else(|| options.auth_url.clone()),
        service_token_roles: config.list(SECTION, "service_token_roles"),
        service_token_roles_required: config.bool(SECTION, "service_token_roles_required"),
        service_type: config.string(SECTION, "service_type"),
    };
    let session = Session::new(options).with_context(|| format!("[{SECTION}]"))?;
    let validator = Validator::new(
        session,
        ValidatorOptions { cache_time: cache_time(config), tokens_max: config.size(SECTION, "tokens_max") },
    );
    Ok(KeystoneAuth::new(validator, auth_options, own))
}

fn options(config: &Config) -> Result<KeystoneOptions> {
    let auth_url = config
        .text(SECTION, "auth_url")
        .with_context(|| format!("{}: auth_mode = keystone needs it", config.place(SECTION, "auth_url")))?;
    let credentials = credentials(config, SECTION, None)?;
    if matches!(credentials, Credentials::Password { scope: None, .. }) {
        bail!(
            "{}: auth_type = password needs it, or project_id, or system_scope: who has no scope may not validate tokens",
            config.place(SECTION, "project_name")
        );
    }
    let timeout = config.seconds(SECTION, "http_connect_timeout");
    login(config, SECTION, auth_url, credentials, Interface::Internal, timeout)
}

/// How to log in with the options of a section. `interface`: the one for which the section names none.
pub fn login(
    config: &Config,
    section: &str,
    auth_url: &str,
    credentials: Credentials,
    interface: Interface,
    timeout: Duration,
) -> Result<KeystoneOptions> {
    Ok(KeystoneOptions {
        auth_url: auth_url.to_owned(),
        credentials,
        region_name: config.string(section, "region_name"),
        interface: config.text(section, "interface").and_then(Interface::named).unwrap_or(interface),
        trust: trust(config, section),
        identity: identity(config, section)?,
        timeout,
    })
}

/// The trusted certificates: `cafile` and `insecure` of a section.
pub fn trust(config: &Config, section: &str) -> Trust {
    Trust::asked(config.path(section, "cafile"), config.bool(section, "insecure"))
}

/// The client certificate: `certfile` and `keyfile` of a section.
pub fn identity(config: &Config, section: &str) -> Result<Option<ClientIdentity>> {
    match (config.path(section, "certfile"), config.path(section, "keyfile")) {
        (Some(certificate), key) => Ok(Some(ClientIdentity { certificate, key })),
        (None, Some(_)) => bail!("{}: keyfile needs it", config.place(section, "certfile")),
        (None, None) => Ok(None),
    }
}

/// The login of a section. `default_domain`: the id of the domain of a user or project for which none is configured; without
/// it that is an error.
pub fn credentials(config: &Config, section: &str, default_domain: Option<&str>) -> Result<Credentials> {
    let text = |name: &str| config.string(section, name);
    let needed = |name: &str, by: &str| {
        text(name).with_context(|| format!("{}: {by} needs it", config.place(section, name)))
    };
    if text("auth_type").as_deref() == Some("v3applicationcredential") {
        return Ok(Credentials::ApplicationCredential {
            id: needed("application_credential_id", "auth_type = v3applicationcredential")?,
            secret: needed("application_credential_secret", "auth_type = v3applicationcredential")
                .map(Secret::new)?,
        });
    }
    let domain = |whose: &str| {
        let default = || default_domain.map(|id| DomainRef::Id(id.to_owned()));
        domain(config, section, whose).or_else(default).with_context(|| {
            format!(
                "{}: needed where the {whose} is named by its name; {whose}_domain_id would do as well",
                config.place(section, &format!("{whose}_domain_name"))
            )
        })
    };
    let user = match (text("user_id"), text("username")) {
        (Some(id), _) => UserRef::Id(id),
        (None, Some(name)) => UserRef::Name { name, domain: domain("user")? },
        (None, None) => {
            bail!("{}: auth_type = password needs it, or user_id", config.place(section, "username"))
        }
    };
    let project = match (text("project_id"), text("project_name")) {
        (Some(id), _) => Some(ProjectRef::Id(id)),
        (None, Some(name)) => Some(ProjectRef::Name { name, domain: domain("project")? }),
        (None, None) => None,
    };
    let scope = scope(config, section, project)?;
    let password = Secret::new(needed("password", "auth_type = password")?);
    Ok(Credentials::Password { user, password, scope })
}

/// The scope of a section's login: `system_scope`, or its project.
fn scope(config: &Config, section: &str, project: Option<ProjectRef>) -> Result<Option<Scope>> {
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

/// The domain of a user or project given by name. As for keystoneauth, the default domain's id counts before its own
/// domain's name.
fn domain(config: &Config, section: &str, whose: &str) -> Option<DomainRef> {
    let first = |kind: &str| {
        let names = [whose, "default"].map(|of| format!("{of}_domain_{kind}"));
        names.iter().find_map(|name| config.string(section, name))
    };
    first("id").map(DomainRef::Id).or_else(|| first("name").map(DomainRef::Name))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    fn load(text: &str) -> Config {
        Config::of_text(Project::Gnocchi, &format!("[keystone_authtoken]\n{text}")).unwrap()
    }

    const PASSWORD: &str = "auth_url = http://h:5000\nusername = gnocchi\nuser_domain_name = Default\npassword = hunter22\n\
                            project_name = service\nproject_domain_id = default\n";

    #[test]
    fn a_user_logs_in_by_names_or_ids() {
        let login = |text: &str, default_domain| match credentials(&load(text), SECTION, default_domain) {
            Ok(Credentials::Password { user, password, scope }) => (user, password, scope),
            other => panic!("a password was configured: {other:?}"),
        };
        let (user, password, scope) = login(PASSWORD, None);
        let domain = DomainRef::Name("Default".to_owned());
        assert_eq!(user, UserRef::Name { name: "gnocchi".to_owned(), domain });
        let domain = DomainRef::Id("default".to_owned());
        assert_eq!(scope, Some(Scope::Project(ProjectRef::Name { name: "service".to_owned(), domain })));
        assert_eq!(password.reveal(), "hunter22");
        let ids = "auth_url = http://h\nuser_id = u\nproject_id = p\npassword = hunter22\n";
        let (user, _, scope) = login(ids, None);
        let project = Scope::Project(ProjectRef::Id("p".to_owned()));
        assert_eq!((user, scope), (UserRef::Id("u".to_owned()), Some(project)));
        let of_system = "auth_url = http://h\nuser_id = u\npassword = hunter22\nsystem_scope = all\n";
        assert_eq!(login(of_system, None).2, Some(Scope::System));
        let both = load(&format!("{of_system}project_id = p\n"));
        let error = credentials(&both, SECTION, None).unwrap_err().to_string();
        assert!(error.contains("not both"), "{error}");
        let names = "auth_url = http://h\nusername = u\nproject_name = p\npassword = hunter22\n";
        assert!(credentials(&load(names), SECTION, None).is_err());
        for (more, fallback, expected) in [
            ("default_domain_id = d\nuser_domain_name = n\n", None, DomainRef::Id("d".to_owned())),
            ("default_domain_name = d\nproject_domain_id = i\n", None, DomainRef::Name("d".to_owned())),
            ("project_domain_id = i\n", Some("default"), DomainRef::Id("default".to_owned())),
        ] {
            let (user, ..) = login(&format!("{names}{more}"), fallback);
            assert_eq!(user, UserRef::Name { name: "u".to_owned(), domain: expected }, "{more}");
        }
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
        let error = credentials(&load(text), SECTION, None).unwrap_err().to_string();
        assert!(error.contains("application_credential_secret: auth_type"), "{error}");
        let whole = load(&format!("{text}application_credential_secret = s\n"));
        let found = credentials(&whole, SECTION, None).unwrap();
        assert_eq!(found, Credentials::ApplicationCredential { id: "a".to_owned(), secret: "s".into() });
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
        let error = format!("{:#}", auth(&load(&text), ProcessSecret::new("own".to_owned())).unwrap_err());
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

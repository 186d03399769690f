//! Options of the server and the credentials, and their environment variables, over which options take precedence.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gnudi_client::{AssertedIdentity, Client, ClientIdentity, ClientOptions, Trust};
use gnudi_keystone::{
    Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, Session, UserRef,
};
use gnudi_model::{Secret, python};
use tokio::runtime::Builder;

/// The default server.
pub const ENDPOINT: &str = "http://127.0.0.1:8041";

/// The default user of basic authentication.
const USER: &str = "admin";

/// The default timeout of a request.
const TIMEOUT_SECONDS: f64 = 60.0;

/// The type of the server's service in Keystone's catalogue.
const SERVICE_TYPE: &str = "metric";

/// Headings of the options in `--help`, set per option: those of a struct also apply to the command's later options.
const SERVER: &str = "Server";
const KEYSTONE: &str = "Keystone (each is also a variable, such as OS_AUTH_URL)";

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = python::float_of_text(text).filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds from 0.001 to 86400".to_owned())
}

/// The server, and the credentials.
#[derive(Clone, Debug, Default, Args)]
pub struct ServerArgs {
    /// The server's URL [default: `GNOCCHI_ENDPOINT`; with Keystone its catalogue; else `http://127.0.0.1:8041`].
    #[arg(long, help_heading = SERVER, value_name = "URL", aliases = ["os-endpoint-override", "os-metric-endpoint-override"])]
    pub endpoint: Option<String>,
    /// User for basic authentication [default: `GNOCCHI_USER`, else admin].
    #[arg(long, help_heading = SERVER, value_name = "NAME")]
    pub user: Option<String>,
    /// The user's password. Command lines are visible to other users: prefer `GNOCCHI_PASSWORD` or `GNUDI_PASSWORD`.
    #[arg(long, help_heading = SERVER, value_name = "PASSWORD", hide_short_help = true)]
    pub password: Option<String>,
    /// Trust the certificates in this file (PEM) instead of the system's, for https URLs [default: `OS_CACERT`].
    #[arg(long, help_heading = SERVER, value_name = "FILE", alias = "os-cacert", hide_short_help = true)]
    pub cacert: Option<PathBuf>,
    /// Certificate (PEM) for https servers that ask for one [default: `OS_CERT`].
    #[arg(long, help_heading = SERVER, value_name = "FILE", hide_short_help = true)]
    pub os_cert: Option<PathBuf>,
    /// The certificate's key, if it is in another file [default: `OS_KEY`].
    #[arg(long, help_heading = SERVER, value_name = "FILE", hide_short_help = true)]
    pub os_key: Option<PathBuf>,
    /// Do not verify the server's certificate, for https URLs, whatever is trusted otherwise.
    #[arg(long, help_heading = SERVER, hide_short_help = true)]
    pub insecure: bool,
    /// Timeout of a request [default: 60].
    #[arg(long, help_heading = SERVER, value_name = "SECONDS", hide_short_help = true, value_parser = seconds)]
    pub timeout: Option<f64>,
    #[command(flatten)]
    pub keystone: KeystoneArgs,
}

/// Options of `OpenStack`'s clients. Each has an environment variable: `--os-auth-url` is `OS_AUTH_URL`.
#[derive(Clone, Debug, Default, Args)]
pub struct KeystoneArgs {
    /// password, v3applicationcredential, token, gnocchi-basic or gnocchi-noauth [default: implied by the other
    /// options].
    #[arg(long, help_heading = KEYSTONE, value_name = "TYPE", aliases = ["auth-type", "os-auth-plugin"], hide_short_help = true)]
    os_auth_type: Option<String>,
    /// Keystone's URL.
    #[arg(long, help_heading = KEYSTONE, value_name = "URL", hide_short_help = true)]
    os_auth_url: Option<String>,
    /// User name.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", alias = "os-user-name", hide_short_help = true)]
    os_username: Option<String>,
    /// User id.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_user_id: Option<String>,
    /// The user's password.
    #[arg(long, help_heading = KEYSTONE, value_name = "PASSWORD", hide_short_help = true)]
    os_password: Option<String>,
    /// Domain of the user.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_user_domain_name: Option<String>,
    /// Domain id of the user.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_user_domain_id: Option<String>,
    /// Project of the token.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", alias = "os-tenant-name", hide_short_help = true)]
    os_project_name: Option<String>,
    /// Project id.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", alias = "os-tenant-id", hide_short_help = true)]
    os_project_id: Option<String>,
    /// Domain of the project.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_project_domain_name: Option<String>,
    /// Domain id of the project.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_project_domain_id: Option<String>,
    /// Domain of the token, instead of a project.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_domain_name: Option<String>,
    /// Domain id.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_domain_id: Option<String>,
    /// Scope of the token instead of a project: all, the cloud as a whole.
    #[arg(long, help_heading = KEYSTONE, value_name = "SCOPE", hide_short_help = true)]
    os_system_scope: Option<String>,
    /// Scope of the token instead of a project: what this trust delegates.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_trust_id: Option<String>,
    /// Default domain of user and project.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_default_domain_name: Option<String>,
    /// Default domain id.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_default_domain_id: Option<String>,
    /// Id of an application credential, instead of a user.
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    os_application_credential_id: Option<String>,
    /// Name of an application credential of the user.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_application_credential_name: Option<String>,
    /// Secret of the application credential.
    #[arg(long, help_heading = KEYSTONE, value_name = "SECRET", hide_short_help = true)]
    os_application_credential_secret: Option<String>,
    /// A token to use as it is.
    #[arg(long, help_heading = KEYSTONE, value_name = "TOKEN", alias = "token", hide_short_help = true)]
    os_token: Option<String>,
    /// Region of the server in the catalogue.
    #[arg(long, help_heading = KEYSTONE, value_name = "NAME", hide_short_help = true)]
    os_region_name: Option<String>,
    /// Endpoint in the catalogue: public, internal or admin.
    #[arg(long, help_heading = KEYSTONE, value_name = "INTERFACE", alias = "os-metric-interface", hide_short_help = true)]
    os_interface: Option<String>,
    /// With gnocchi-noauth: the user id to send [default: `GNOCCHI_USER_ID`].
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    user_id: Option<String>,
    /// With gnocchi-noauth: the project id [default: `GNOCCHI_PROJECT_ID`].
    #[arg(long, help_heading = KEYSTONE, value_name = "ID", hide_short_help = true)]
    project_id: Option<String>,
    /// With gnocchi-noauth: the roles [default: `GNOCCHI_ROLES`, else admin].
    #[arg(long, help_heading = KEYSTONE, value_name = "NAMES", hide_short_help = true)]
    roles: Option<String>,
}

/// How requests are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Caller {
    Basic {
        user: String,
        password: Secret,
    },
    /// A token of Keystone, sent as it is.
    Token(Secret),
    /// An identity that the server trusts without credentials.
    Asserted(AssertedIdentity),
    Keystone(Login),
}

/// A login at Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Login {
    auth_url: String,
    credentials: Credentials,
    region_name: Option<String>,
    interface: Interface,
}

impl Login {
    fn session(self, trust: Trust, identity: Option<ClientIdentity>, timeout: Duration) -> Result<Session> {
        let Login { auth_url, credentials, region_name, interface } = self;
        let options =
            KeystoneOptions { auth_url, credentials, region_name, interface, trust, identity, timeout };
        Ok(Session::new(options)?)
    }
}

/// Looks up environment variables.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The option, else the first non-empty variable.
fn first(option: Option<&String>, names: &[&str], variables: Variables<'_>) -> Option<String> {
    option
        .filter(|text| !text.is_empty())
        .cloned()
        .or_else(|| names.iter().find_map(|name| variables(name).filter(|text| !text.is_empty())))
}

/// The same for a file.
fn file(option: Option<&PathBuf>, name: &str, variables: Variables<'_>) -> Option<PathBuf> {
    option.cloned().or_else(|| first(None, &[name], variables).map(PathBuf::from))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A server, and the client options for it.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its base URL as given.
    pub endpoint: String,
    /// Credentials, trusted certificates, timeout.
    pub options: ClientOptions,
}

impl ServerArgs {
    /// A logged-in client. No request is sent to the server yet.
    ///
    /// # Errors
    /// As [`ServerArgs::resolve`], or if the URL or a certificate is invalid.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_within(self.timeout()).await
    }

    /// The same with another timeout.
    pub async fn connect_within(&self, timeout: Duration) -> Result<Client> {
        let Server { endpoint, options } = self.resolve(timeout).await?;
        Ok(Client::new(&endpoint, &options)?)
    }

    /// The request timeout.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout.unwrap_or(TIMEOUT_SECONDS))
    }

    /// The server given by an option or in the environment.
    pub fn named(&self) -> Option<String> {
        self.named_among(&variable)
    }

    fn named_among(&self, variables: Variables<'_>) -> Option<String> {
        let mut names = ["OS_METRIC_ENDPOINT_OVERRIDE", "OS_ENDPOINT_OVERRIDE", "GNOCCHI_ENDPOINT"];
        // As with Gnocchi's client, which takes the first two with Keystone only.
        if self.kind(variables).starts_with("gnocchi-") {
            names.rotate_right(1);
        }
        first(self.endpoint.as_ref(), &names, variables)
    }

    /// As [`ServerArgs::resolve`], for a program without a runtime.
    pub fn resolve_blocking(&self) -> Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build().context("starting threads")?;
        runtime.block_on(self.resolve(self.timeout()))
    }

    /// The server and the credentials, after the login at Keystone if there is one.
    ///
    /// # Errors
    /// If options or variables are missing or invalid, or the login at Keystone fails.
    pub async fn resolve(&self, timeout: Duration) -> Result<Server> {
        let trust = self.trust(&variable);
        let certificate = self.certificate(&variable);
        let anonymous = ClientOptions {
            user: None,
            trust: trust.clone(),
            certificate: certificate.clone(),
            timeout,
            ..ClientOptions::default()
        };
        let options = match self.caller(&variable)? {
            Caller::Basic { user, password } => ClientOptions { user: Some(user), password, ..anonymous },
            Caller::Token(token) => ClientOptions { token: Some(token), ..anonymous },
            Caller::Asserted(identity) => ClientOptions { asserted: Some(identity), ..anonymous },
            Caller::Keystone(login) => {
                let session = login.session(trust, certificate, timeout)?;
                let token = Secret::new(&*session.token().await?);
                let options = ClientOptions { token: Some(token), ..anonymous };
                let endpoint = match self.named() {
                    Some(endpoint) => endpoint,
                    None => session
                        .endpoint(SERVICE_TYPE)
                        .await?
                        .context("Keystone's catalogue has no service of type metric: name the server with --endpoint")?
                        .to_string(),
                };
                return Ok(Server { endpoint, options });
            }
        };
        Ok(Server { endpoint: self.named().unwrap_or_else(|| ENDPOINT.to_owned()), options })
    }

    fn trust(&self, variables: Variables<'_>) -> Trust {
        Trust::asked(file(self.cacert.as_ref(), "OS_CACERT", variables), self.insecure)
    }

    /// As for keystoneauth, a key without a certificate does not count.
    fn certificate(&self, variables: Variables<'_>) -> Option<ClientIdentity> {
        let certificate = file(self.os_cert.as_ref(), "OS_CERT", variables)?;
        Some(ClientIdentity { certificate, key: file(self.os_key.as_ref(), "OS_KEY", variables) })
    }

    /// The login method, which the other options may imply.
    fn kind(&self, variables: Variables<'_>) -> String {
        let keystone = &self.keystone;
        let of = |option: &Option<String>, name: &str| first(option.as_ref(), &[name], variables);
        match first(keystone.os_auth_type.as_ref(), &["OS_AUTH_TYPE", "OS_AUTH_PLUGIN"], variables) {
            _ if self.user.is_some() => "gnocchi-basic".to_owned(),
            Some(kind) => kind,
            None if keystone.os_token.as_ref().is_some_and(|token| !token.is_empty()) => "token".to_owned(),
            // As in Gnocchi's client, an OpenStack password implies a login with it, also beside OS_TOKEN.
            None if of(&keystone.os_password, "OS_PASSWORD").is_some() => "password".to_owned(),
            None if of(&keystone.os_token, "OS_TOKEN").is_some() => "token".to_owned(),
            None => "gnocchi-basic".to_owned(),
        }
    }

    fn caller(&self, variables: Variables<'_>) -> Result<Caller> {
        let keystone = &self.keystone;
        let of = |option: &Option<String>, name: &str| first(option.as_ref(), &[name], variables);
        let kind = self.kind(variables);
        match kind.as_str() {
            "gnocchi-basic" => Ok(Caller::Basic {
                user: of(&self.user, "GNOCCHI_USER").unwrap_or_else(|| USER.to_owned()),
                password: first(self.password.as_ref(), &["GNOCCHI_PASSWORD", "GNUDI_PASSWORD"], variables)
                    .map(Secret::new)
                    .unwrap_or_default(),
            }),
            "gnocchi-noauth" => Ok(Caller::Asserted(AssertedIdentity {
                user_id: of(&keystone.user_id, "GNOCCHI_USER_ID").context("--user-id is needed")?,
                project_id: of(&keystone.project_id, "GNOCCHI_PROJECT_ID")
                    .context("--project-id is needed")?,
                roles: of(&keystone.roles, "GNOCCHI_ROLES").unwrap_or_else(|| "admin".to_owned()),
            })),
            "token" | "v3token" | "admin_token" => {
                let token = of(&keystone.os_token, "OS_TOKEN")
                    .context("OS_AUTH_TYPE is token, and there is no OS_TOKEN")?;
                let has_catalog = kind != "admin_token"
                    && of(&keystone.os_auth_url, "OS_AUTH_URL").is_some()
                    && self.named_among(variables).is_none();
                // The catalogue comes with a new token; a server that is named takes this one.
                if has_catalog {
                    Ok(Caller::Keystone(keystone.login(&kind, variables)?))
                } else {
                    Ok(Caller::Token(Secret::new(token)))
                }
            }
            "password" | "v3password" | "v3applicationcredential" => {
                Ok(Caller::Keystone(keystone.login(&kind, variables)?))
            }
            other => bail!(
                "OS_AUTH_TYPE {other}: gnudi knows password, v3applicationcredential, token, gnocchi-basic and gnocchi-noauth"
            ),
        }
    }
}

impl KeystoneArgs {
    fn login(&self, kind: &str, variables: Variables<'_>) -> Result<Login> {
        let of = |option: &Option<String>, name: &str| first(option.as_ref(), &[name], variables);
        let needed = |option: &Option<String>, name: &str| {
            of(option, name).with_context(|| format!("{name} is needed to log in at Keystone"))
        };
        let auth_url = needed(&self.os_auth_url, "OS_AUTH_URL")?;
        let credentials = match kind {
            "v3applicationcredential" => {
                let secret = &self.os_application_credential_secret;
                let secret = needed(secret, "OS_APPLICATION_CREDENTIAL_SECRET").map(Secret::new)?;
                let id = of(&self.os_application_credential_id, "OS_APPLICATION_CREDENTIAL_ID");
                match (id, of(&self.os_application_credential_name, "OS_APPLICATION_CREDENTIAL_NAME")) {
                    (Some(id), _) => Credentials::ApplicationCredential { id, secret },
                    (None, Some(name)) => {
                        let user = self.user(variables)?;
                        Credentials::NamedApplicationCredential { name, user, secret }
                    }
                    (None, None) => bail!(
                        "OS_APPLICATION_CREDENTIAL_ID, or _NAME and a user, is needed to log in at Keystone"
                    ),
                }
            }
            "token" | "v3token" => Credentials::Token {
                token: Secret::new(needed(&self.os_token, "OS_TOKEN")?),
                scope: self.scope(variables)?,
            },
            _ => Credentials::Password {
                user: self.user(variables)?,
                password: Secret::new(needed(&self.os_password, "OS_PASSWORD")?),
                scope: self.scope(variables)?,
            },
        };
        let names = ["OS_METRIC_INTERFACE", "OS_INTERFACE"];
        let interface = first(self.os_interface.as_ref(), &names, variables);
        Ok(Login {
            auth_url,
            credentials,
            region_name: of(&self.os_region_name, "OS_REGION_NAME"),
            interface: match interface {
                None => Interface::default(),
                Some(name) => Interface::named(&name).with_context(|| {
                    format!("OS_INTERFACE {name}: public, internal and admin are the interfaces")
                })?,
            },
        })
    }

    fn user(&self, variables: Variables<'_>) -> Result<UserRef> {
        let of = |option: &Option<String>, name: &str| first(option.as_ref(), &[name], variables);
        Ok(match of(&self.os_user_id, "OS_USER_ID") {
            Some(id) => UserRef::Id(id),
            None => UserRef::Name {
                name: first(self.os_username.as_ref(), &["OS_USERNAME", "OS_USER_NAME"], variables)
                    .context("OS_USERNAME is needed to log in at Keystone")?,
                domain: self.domain(
                    of(&self.os_user_domain_id, "OS_USER_DOMAIN_ID"),
                    of(&self.os_user_domain_name, "OS_USER_DOMAIN_NAME"),
                    variables,
                ),
            },
        })
    }

    /// The project of the token, its domain, the cloud as a whole, or what a trust delegates.
    fn scope(&self, variables: Variables<'_>) -> Result<Option<Scope>> {
        let named = |option: &Option<String>, names: &[&str]| first(option.as_ref(), names, variables);
        let project = match named(&self.os_project_id, &["OS_PROJECT_ID", "OS_TENANT_ID"]) {
            Some(id) => Some(ProjectRef::Id(id)),
            None => named(&self.os_project_name, &["OS_PROJECT_NAME", "OS_TENANT_NAME"]).map(|name| {
                let domain = self.domain(
                    named(&self.os_project_domain_id, &["OS_PROJECT_DOMAIN_ID"]),
                    named(&self.os_project_domain_name, &["OS_PROJECT_DOMAIN_NAME"]),
                    variables,
                );
                ProjectRef::Name { name, domain }
            }),
        };
        let domain = named(&self.os_domain_id, &["OS_DOMAIN_ID"]).map(DomainRef::Id);
        let domain = domain.or_else(|| named(&self.os_domain_name, &["OS_DOMAIN_NAME"]).map(DomainRef::Name));
        let system = named(&self.os_system_scope, &["OS_SYSTEM_SCOPE"]).filter(|scope| scope == "all");
        let scope =
            project.map(Scope::Project).or(domain.map(Scope::Domain)).or(system.map(|_| Scope::System));
        match (named(&self.os_trust_id, &["OS_TRUST_ID"]), scope) {
            (Some(trust), None) => Ok(Some(Scope::Trust(trust))),
            (None, scope) => Ok(scope),
            (Some(_), Some(_)) => {
                bail!("OS_TRUST_ID beside a project, a domain or OS_SYSTEM_SCOPE: a token has one scope")
            }
        }
    }

    /// The domain with this id or name, else the default one. As for keystoneauth, the default one's id counts before the
    /// name.
    fn domain(&self, id: Option<String>, name: Option<String>, variables: Variables<'_>) -> DomainRef {
        let of = |option: &Option<String>, name: &str| first(option.as_ref(), &[name], variables);
        let id = id.or_else(|| of(&self.os_default_domain_id, "OS_DEFAULT_DOMAIN_ID"));
        let name = name.or_else(|| of(&self.os_default_domain_name, "OS_DEFAULT_DOMAIN_NAME"));
        let named = id.map(DomainRef::Id).or(name.map(DomainRef::Name));
        named.unwrap_or_else(|| DomainRef::Id("default".to_owned()))
    }
}

#[cfg(test)]
mod tests;

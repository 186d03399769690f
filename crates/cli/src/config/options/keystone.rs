//! `[keystone_authtoken]`: how callers' tokens are validated, by the names of keystonemiddleware and keystoneauth.

use super::{Kind, POSITIVE, Spec, idle, option, secret};

const SECTION: &str = "keystone_authtoken";

const fn text(name: &'static str, help: &'static str) -> Spec {
    option(SECTION, name, Kind::Text, "", help)
}

const fn no_use(name: &'static str, default: &'static str, why: &'static str) -> Spec {
    idle(SECTION, name, default, why)
}

const fn hidden_no_use(name: &'static str, why: &'static str) -> Spec {
    Spec { is_secret: true, ..no_use(name, "", why) }
}

const MEMCACHE: &str = "tokens are remembered within the process";
const SCOPE: &str = "gnudi logs in to a project";
const CLIENT_CERTIFICATE: &str = "gnudi shows Keystone no certificate";

pub const OPTIONS: &[Spec] = &[
    option(
        SECTION,
        "auth_type",
        Kind::Choice(&["password", "v3password", "v3applicationcredential"]),
        "password",
        "How gnudi itself logs in, for which its user needs the role admin or service.",
    ),
    option(
        SECTION,
        "auth_section",
        Kind::Choice(&[SECTION]),
        SECTION,
        "Where the options of the login stand: in this section.",
    ),
    option(
        SECTION,
        "auth_url",
        Kind::Url(&["http", "https"]),
        "",
        "Where Keystone is, with or without /v3; auth_mode keystone needs it.",
    ),
    option(
        SECTION,
        "www_authenticate_uri",
        Kind::Url(&["http", "https"]),
        "",
        "Where clients are told to get a token. Unset: auth_url.",
    ),
    text("username", "gnudi's user, by name ..."),
    text("user_domain_name", "... within the domain of this name ..."),
    text("user_domain_id", "... or of this id."),
    text("user_id", "gnudi's user, by id."),
    secret(SECTION, "password", Kind::Text, "The user's password."),
    text("project_name", "Project that gnudi logs in to, by name ..."),
    text("project_domain_name", "... within the domain of this name ..."),
    text("project_domain_id", "... or of this id."),
    text("project_id", "Project that gnudi logs in to, by id."),
    text("default_domain_name", "Domain of the user and of the project where no other is named ..."),
    text("default_domain_id", "... or its id."),
    text(
        "application_credential_id",
        "Id of an application credential, for auth_type v3applicationcredential.",
    ),
    secret(SECTION, "application_credential_secret", Kind::Text, "Its secret."),
    text("region_name", "Region of Keystone in the catalogue. Unset: any."),
    option(
        SECTION,
        "interface",
        Kind::Choice(&["public", "internal", "admin"]),
        "internal",
        "Which of Keystone's endpoints in the catalogue is asked; where there is none, auth_url.",
    ),
    text("cafile", "File of certificates, in PEM, that vouch for Keystone. Unset: the system's."),
    option(SECTION, "insecure", Kind::Bool, "false", "Do not check Keystone's certificate."),
    option(
        SECTION,
        "http_connect_timeout",
        POSITIVE,
        "10",
        "Seconds that a request to Keystone may take; where it takes longer, callers whose token is not remembered get 503.",
    ),
    option(
        SECTION,
        "token_cache_time",
        Kind::Int { min: -1, max: i64::MAX },
        "300",
        "Seconds for which a valid token is not asked about again, 300 at most: so long may one be taken after it was revoked. \
         0 and -1: not at all.",
    ),
    option(
        SECTION,
        "tokens_max",
        POSITIVE,
        "100000",
        "gnudi: most tokens that are remembered at the same time.",
    ),
    option(
        SECTION,
        "service_token_roles",
        Kind::List,
        "service",
        "Roles one of which makes the token in X-Service-Token that of a service, whose users' tokens may have ended lately.",
    ),
    option(
        SECTION,
        "service_token_roles_required",
        Kind::Bool,
        "true",
        "Whether a token in X-Service-Token without such a role is refused.",
    ),
    option(
        SECTION,
        "service_type",
        Kind::Text,
        "metric",
        "Type of this service in access rules of application credentials.",
    ),
    no_use("auth_version", "", "Keystone has version 3 only"),
    no_use("auth_uri", "", "its name is www_authenticate_uri"),
    no_use("delay_auth_decision", "false", "who brings no valid token gets 401"),
    no_use("http_request_max_retries", "3", "a request is repeated once, within http_connect_timeout"),
    no_use("include_service_catalog", "true", "nobody reads the caller's catalogue here"),
    no_use("enforce_token_bind", "permissive", "Keystone binds no tokens"),
    no_use("certfile", "", CLIENT_CERTIFICATE),
    no_use("keyfile", "", CLIENT_CERTIFICATE),
    no_use("system_scope", "", SCOPE),
    no_use("domain_id", "", SCOPE),
    no_use("domain_name", "", SCOPE),
    no_use("trust_id", "", SCOPE),
    no_use("cache", "", MEMCACHE),
    no_use("memcached_servers", "", MEMCACHE),
    no_use("memcache_security_strategy", "None", MEMCACHE),
    hidden_no_use("memcache_secret_key", MEMCACHE),
    no_use("memcache_tls_enabled", "false", MEMCACHE),
    no_use("memcache_tls_cafile", "", MEMCACHE),
    no_use("memcache_tls_certfile", "", MEMCACHE),
    no_use("memcache_tls_keyfile", "", MEMCACHE),
    no_use("memcache_tls_allowed_ciphers", "", MEMCACHE),
    no_use("memcache_pool_dead_retry", "300", MEMCACHE),
    no_use("memcache_pool_maxsize", "10", MEMCACHE),
    no_use("memcache_pool_socket_timeout", "3", MEMCACHE),
    no_use("memcache_pool_unused_timeout", "60", MEMCACHE),
    no_use("memcache_pool_conn_get_timeout", "10", MEMCACHE),
    no_use("memcache_use_advanced_pool", "true", MEMCACHE),
    no_use("memcache_sasl_enabled", "false", MEMCACHE),
    no_use("memcache_username", "", MEMCACHE),
    hidden_no_use("memcache_password", MEMCACHE),
];

//! `[keystone_authtoken]`: validation of callers' tokens, with the names of keystonemiddleware and keystoneauth.

use super::{Kind, POSITIVE, Spec};

const SECTION: &str = "keystone_authtoken";
const MEMCACHE: &str = "tokens are cached in the process";
const SCOPE: &str = "gnudi logs in to a project, or to the system";

pub const OPTIONS: &[Spec] = &options! {
    [keystone_authtoken]
    option auth_type(Kind::Choice(&["password", "v3password", "v3applicationcredential"]), "password",
        "How gnudi itself logs in; its user needs the role admin or service.")
        { formerly: &[("", "auth_plugin")] };
    option auth_section(Kind::Choice(&[SECTION]), SECTION,
        "Section of the login options: this one.");
    option auth_url(Kind::Url(&["http", "https"]), "",
        "Keystone's URL, with or without /v3; required by auth_mode keystone.");
    option www_authenticate_uri(Kind::Url(&["http", "https"]), "",
        "URL of Keystone for clients, in responses with 401. Unset: auth_url.");
    text username("", "gnudi's user, by name ...") { formerly: &[("", "user_name")] };
    text user_domain_name("", "... within the domain of this name ...");
    text user_domain_id("", "... or of this id.");
    text user_id("", "gnudi's user, by id.");
    secret password(Kind::Text, "The user's password.");
    text project_name("", "Project that gnudi logs in to, by name ...") { formerly: &[("", "tenant_name")] };
    text project_domain_name("", "... within the domain of this name ...");
    text project_domain_id("", "... or of this id.");
    text project_id("", "Project that gnudi logs in to, by id.") { formerly: &[("", "tenant_id")] };
    text default_domain_name("", "Domain of the user and of the project if no other is given ...");
    text default_domain_id("", "... or its id.");
    text application_credential_id("", "Id of an application credential, for auth_type v3applicationcredential.");
    secret application_credential_secret(Kind::Text, "Its secret.");
    text region_name("", "Region of Keystone in the catalogue. Unset: any.");
    option interface(Kind::Choice(&["public", "internal", "admin", "publicURL", "internalURL", "adminURL"]),
        "internal", "Which of Keystone's endpoints in the catalogue is used; if there is none, auth_url.");
    text cafile("", "File of trusted certificates for Keystone (PEM). Unset: the system's.");
    option insecure(Kind::Bool, "false", "Do not verify Keystone's certificate.");
    text certfile("", "File of gnudi's client certificate (PEM).");
    text keyfile("", "Its key. Unset: in certfile.");
    option system_scope(Kind::Choice(&["all"]), "", "Log in to the whole cloud instead of a project: all.");
    option http_connect_timeout(POSITIVE, "10",
        "Timeout of a request to Keystone, in seconds; then callers whose token is not cached get 503.");
    option token_cache_time(Kind::Int { min: -1, max: i64::MAX }, "300",
        "Seconds for which a valid token is cached, 300 at most: a revoked token may be accepted for so long. \
         0 and -1: not at all.");
    option tokens_max(POSITIVE, "100000", "gnudi: maximum number of cached tokens.");
    option service_token_roles(Kind::List, "service",
        "Roles of services. With a token in X-Service-Token that has one of them, the user's token may have \
         expired recently.");
    option service_token_roles_required(Kind::Bool, "true",
        "Whether a token in X-Service-Token without such a role is refused.");
    text service_type("metric", "Type of this service in access rules of application credentials.");
    idle auth_version("", "Keystone has version 3 only");
    idle auth_uri("", "renamed to www_authenticate_uri");
    idle delay_auth_decision("false", "requests without a valid token get 401");
    idle http_request_max_retries("3", "a request is repeated once, within http_connect_timeout");
    idle include_service_catalog("true", "the caller's catalogue is not used");
    idle enforce_token_bind("permissive", "Keystone no longer binds tokens");
    idle domain_id("", SCOPE);
    idle domain_name("", SCOPE);
    idle trust_id("", SCOPE);
    idle cache("", MEMCACHE);
    idle memcached_servers("", MEMCACHE) { formerly: &[("", "memcache_servers")] };
    idle memcache_security_strategy("None", MEMCACHE);
    idle memcache_secret_key("", MEMCACHE) { is_secret: true };
    idle memcache_tls_enabled("false", MEMCACHE);
    idle memcache_tls_cafile("", MEMCACHE);
    idle memcache_tls_certfile("", MEMCACHE);
    idle memcache_tls_keyfile("", MEMCACHE);
    idle memcache_tls_allowed_ciphers("", MEMCACHE);
    idle memcache_pool_dead_retry("300", MEMCACHE);
    idle memcache_pool_maxsize("10", MEMCACHE);
    idle memcache_pool_socket_timeout("3", MEMCACHE);
    idle memcache_pool_unused_timeout("60", MEMCACHE);
    idle memcache_pool_conn_get_timeout("10", MEMCACHE);
    idle memcache_use_advanced_pool("true", MEMCACHE);
    idle memcache_sasl_enabled("false", MEMCACHE);
    idle memcache_username("", MEMCACHE);
    idle memcache_password("", MEMCACHE) { is_secret: true };
};

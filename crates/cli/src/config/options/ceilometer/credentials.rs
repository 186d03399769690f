//! Credentials for services: `[service_credentials]`, `[gnocchi]`, `[zaqar]`, `[service_types]`,
//! `[rgw_admin_credentials]`, `[rgw_client]`.

use super::{Kind, Spec, inheriting};

const LOGINS: &[&str] =
    &["password", "v3password", "v3applicationcredential", "none", "gnocchi-basic", "gnocchi-noauth"];
const SERVICE_TYPE: &str = "Type of the service in Keystone's catalogue.";

pub const SERVICE: &[Spec] = &options! {
    [service_credentials]
    option auth_type(Kind::Choice(LOGINS), "",
        "How to log in. Unset: password if there is an auth_url.")
        { formerly: &[("", "auth_plugin")] };
    text auth_url("", "Keystone's URL.");
    text username("", "User.")
        { formerly: &[("", "user_name"), ("", "os_username")] };
    text user_id("", "The same, by id.");
    secret password(Kind::Text, "Password.");
    text user_domain_id("", "Domain of the user, by id.");
    text user_domain_name("", "The same, by name.");
    text project_name("", "Project.")
        { formerly: &[("", "tenant_name"), ("", "os_tenant_name")] };
    text project_id("", "The same, by id.") { formerly: &[("", "tenant_id")] };
    text project_domain_id("", "Domain of the project, by id.");
    text project_domain_name("", "The same, by name.");
    text default_domain_id("", "Domain of user and project if none is given, by id.");
    text default_domain_name("", "The same, by name.");
    text application_credential_id("", "Application credential, by id.");
    secret application_credential_secret(Kind::Text, "Its secret.");
    text region_name("", "Region of the services. Unset: the first that the catalogue has.");
    option interface(Kind::Choice(&["public", "internal", "admin", "publicURL", "internalURL", "adminURL"]),
        "public", "Which of a service's endpoints to use.");
    text cafile("", "Trusted certificates for the services (PEM). Unset: the system's.");
    option insecure(Kind::Bool, "false", "Do not verify the services' certificates.");
    option timeout(Kind::Seconds, "", "Timeout of a request in seconds. Unset: 60.");
    text user("", "With gnocchi-basic: the user.");
    text roles("admin", "With gnocchi-noauth: the roles.");
    text endpoint("", "With gnocchi-basic and gnocchi-noauth: Gnocchi's URL.");
    text certfile("", "File of a certificate, in PEM, for services that require one.");
    text keyfile("", "Its key. Unset: in certfile.");
    option system_scope(Kind::Choice(&["all"]), "", "Log in to the whole cloud instead of a project: all.");
    idle collect_timing("false", "look at /metrics");
    idle split_loggers("false", "look at /metrics");
};

pub const SERVICE_ONLY: &[Spec] = &options! {
    [service_credentials]
    idle auth_section("", "this is the section that others refer to");
};

/// In `[gnocchi]`: inherits from `[service_credentials]`, unless `auth_type` is set here.
pub const GNOCCHI: [Spec; SERVICE.len()] = inheriting(SERVICE, "gnocchi", "service_credentials");

/// In `[zaqar]`, likewise.
pub const ZAQAR: [Spec; SERVICE.len()] = inheriting(SERVICE, "zaqar", "service_credentials");

pub const GNOCCHI_ONLY: &[Spec] = &options! {
    [gnocchi]
    option auth_section(Kind::Choice(&["service_credentials", "gnocchi"]), "",
        "Section with the credentials for Gnocchi. Unset: this one if it has an auth_type, else \
         service_credentials.");
};

pub const OTHERS: &[Spec] = &options! {
    [zaqar]
    option auth_section(Kind::Choice(&["service_credentials", "zaqar"]), "service_credentials",
        "Section with the credentials for Zaqar.");

    [service_types]
    text nova("compute", SERVICE_TYPE);
    text glance("image", SERVICE_TYPE);
    text cinder("volumev3", SERVICE_TYPE);
    text neutron("network", SERVICE_TYPE);
    text swift("object-store", SERVICE_TYPE);
    text radosgw("", SERVICE_TYPE);
    text octavia("load-balancer", SERVICE_TYPE);
    text designate("dns", SERVICE_TYPE);
    text manila("sharev2", SERVICE_TYPE);
    text aodh("alarming", SERVICE_TYPE);

    [rgw_admin_credentials]
    secret access_key(Kind::Text, "Access key of radosgw's administrator.");
    secret secret_key(Kind::Text, "Its secret key.");

    [rgw_client]
    option implicit_tenants(Kind::Bool, "false", "Whether radosgw has a tenant per project.");
    text rgw_service_name("", "Name of radosgw in Keystone's catalogue.");
    option insecure(Kind::Bool, "true", "Do not verify radosgw's certificate.");
    text cafile("", "Trusted certificates for radosgw (PEM).");
    idle tls_min_version("", "TLS 1.2 and 1.3");
    idle tls_max_version("", "TLS 1.2 and 1.3");
};

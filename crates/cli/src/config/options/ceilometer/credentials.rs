//! As whom services are called: `[service_credentials]`, `[gnocchi]`, `[service_types]`, `[rgw_admin_credentials]`,
//! `[rgw_client]`.

use super::{Kind, Spec, idle, option, secret};

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Spec {
    option("service_credentials", name, Kind::Text, default, help)
}

const fn formerly(spec: Spec, formerly: &'static [(&'static str, &'static str)]) -> Spec {
    Spec { formerly, ..spec }
}

const COUNT: usize = 29;

pub const SERVICE: [Spec; COUNT] = [
    option(
        "service_credentials",
        "auth_type",
        Kind::Choice(&[
            "password",
            "v3password",
            "v3applicationcredential",
            "none",
            "gnocchi-basic",
            "gnocchi-noauth",
        ]),
        "",
        "How to log in. Unset: password where there is an auth_url.",
    ),
    text("auth_url", "", "Where Keystone is."),
    formerly(
        text("username", "", "User."),
        &[("service_credentials", "user_name"), ("service_credentials", "os_username")],
    ),
    text("user_id", "", "The same, by id."),
    secret("service_credentials", "password", Kind::Text, "Password."),
    text("user_domain_id", "", "Domain of the user, by id."),
    text("user_domain_name", "", "The same, by name."),
    formerly(
        text("project_name", "", "Project."),
        &[("service_credentials", "tenant_name"), ("service_credentials", "os_tenant_name")],
    ),
    formerly(text("project_id", "", "The same, by id."), &[("service_credentials", "tenant_id")]),
    text("project_domain_id", "", "Domain of the project, by id."),
    text("project_domain_name", "", "The same, by name."),
    text("default_domain_id", "", "Domain of user and project where none is named, by id."),
    text("default_domain_name", "", "The same, by name."),
    text("application_credential_id", "", "Application credential, by id."),
    secret("service_credentials", "application_credential_secret", Kind::Text, "Its secret."),
    text("region_name", "", "Region of the services. Unset: the first that the catalogue has."),
    option(
        "service_credentials",
        "interface",
        Kind::Choice(&["public", "internal", "admin", "publicURL", "internalURL", "adminURL"]),
        "public",
        "Which of a service's endpoints are called.",
    ),
    text("cafile", "", "Certificates, in PEM, that vouch for the services. Unset: the system's."),
    option("service_credentials", "insecure", Kind::Bool, "false", "Believe whoever answers."),
    option(
        "service_credentials",
        "timeout",
        Kind::Seconds,
        "",
        "Seconds that a request may take. Unset: 60.",
    ),
    text("user", "", "With gnocchi-basic: the user."),
    text("roles", "admin", "With gnocchi-noauth: the roles."),
    text("endpoint", "", "With gnocchi-basic and gnocchi-noauth: where Gnocchi is."),
    idle("service_credentials", "certfile", "", "services are called without a certificate of one's own"),
    idle("service_credentials", "keyfile", "", "services are called without a certificate of one's own"),
    idle("service_credentials", "system_scope", "", "tokens are for a project"),
    idle("service_credentials", "collect_timing", "false", "look at /metrics"),
    idle("service_credentials", "split_loggers", "false", "look at /metrics"),
    idle("service_credentials", "auth_section", "", "this is the section that others refer to"),
];

/// In `[gnocchi]`: what is unset there is as in `[service_credentials]`, unless `auth_type` says that it stands for itself.
pub const GNOCCHI: [Spec; COUNT] = gnocchi();

const fn gnocchi() -> [Spec; COUNT] {
    let mut specs = SERVICE;
    let mut index = 0;
    while index < COUNT {
        specs[index].section = "gnocchi";
        specs[index].default = "";
        specs[index].inherits = Some("service_credentials");
        specs[index].formerly = &[];
        index += 1;
    }
    specs[COUNT - 1] = option(
        "gnocchi",
        "auth_section",
        Kind::Choice(&["service_credentials", "gnocchi"]),
        "",
        "Section that says as whom Gnocchi is called. Unset: this one where it has an auth_type, else service_credentials.",
    );
    specs
}

const fn service(name: &'static str, default: &'static str) -> Spec {
    option("service_types", name, Kind::Text, default, "Type of the service in Keystone's catalogue.")
}

pub const OTHERS: &[Spec] = &[
    service("nova", "compute"),
    service("glance", "image"),
    service("cinder", "volumev3"),
    service("neutron", "network"),
    service("swift", "object-store"),
    service("radosgw", ""),
    service("octavia", "load-balancer"),
    service("designate", "dns"),
    service("manila", "sharev2"),
    service("aodh", "alarming"),
    secret("rgw_admin_credentials", "access_key", Kind::Text, "Access key of radosgw's administrator."),
    secret("rgw_admin_credentials", "secret_key", Kind::Text, "Its secret key."),
    option(
        "rgw_client",
        "implicit_tenants",
        Kind::Bool,
        "false",
        "radosgw keeps each project's users apart.",
    ),
    option("rgw_client", "rgw_service_name", Kind::Text, "", "Name of radosgw in Keystone's catalogue."),
    option("rgw_client", "insecure", Kind::Bool, "true", "Believe whoever answers as radosgw."),
    option("rgw_client", "cafile", Kind::Text, "", "Certificates, in PEM, that vouch for radosgw."),
    idle("rgw_client", "tls_min_version", "", "TLS 1.2 and 1.3"),
    idle("rgw_client", "tls_max_version", "", "TLS 1.2 and 1.3"),
    idle("zaqar", "auth_section", "", "there is no zaqar publisher"),
];

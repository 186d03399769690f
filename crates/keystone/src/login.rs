//! Login requests, and the lifetime of their results. Pure: no clock, no network.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Credentials, DomainRef, Interface, ProjectRef, Scope, UserRef, token_document::Endpoint};

/// A token is renewed this long before its expiry, so that a request sent with it is still valid on arrival.
const RENEWAL_MARGIN: Duration = Duration::from_mins(2);

/// The margin is at most the lifetime divided by this: some clouds' tokens live for minutes only.
const RENEWAL_MARGIN_DIVISOR: u32 = 4;

/// Time from creation to renewal of a token with this lifetime.
pub fn renew_after(lifetime: Duration) -> Duration {
    lifetime.saturating_sub(RENEWAL_MARGIN.min(lifetime / RENEWAL_MARGIN_DIVISOR))
}

/// For this long after a failed login all callers get its error, without a new attempt.
pub const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// As [`FAILED_PAUSE`], if Keystone rejected the credentials: some lock an account after several failures.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Minimum time between two look-ups of the catalogue.
pub const CATALOG_PAUSE: Duration = Duration::from_secs(5);

/// Whether `pause` has passed since `last`.
pub fn may_again(last: Option<Instant>, pause: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= pause)
}

/// Keystone's version 3 URL without a trailing slash, from a URL with any version or none.
pub fn v3_url(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let root = ["/v3", "/v2.0"].iter().find_map(|version| url.strip_suffix(version)).unwrap_or(url);
    format!("{root}/v3")
}

/// The body of `POST /v3/auth/tokens`.
pub fn request_body(credentials: &Credentials) -> Value {
    match credentials {
        Credentials::Password { user, password, scope } => {
            let mut named = named(user);
            named["password"] = password.reveal().into();
            let identity = json!({ "methods": ["password"], "password": { "user": named } });
            scoped(&identity, scope.as_ref())
        }
        Credentials::Token { token, scope } => {
            scoped(&json!({ "methods": ["token"], "token": { "id": token.reveal() } }), scope.as_ref())
        }
        Credentials::ApplicationCredential { id, secret } => json!({ "auth": { "identity": {
            "methods": ["application_credential"],
            "application_credential": { "id": id, "secret": secret.reveal() },
        } } }),
        Credentials::NamedApplicationCredential { name, user, secret } => json!({ "auth": { "identity": {
            "methods": ["application_credential"],
            "application_credential": { "name": name, "user": named(user), "secret": secret.reveal() },
        } } }),
    }
}

fn named(user: &UserRef) -> Value {
    match user {
        UserRef::Id(id) => json!({ "id": id }),
        UserRef::Name { name, domain: owner } => json!({ "name": name, "domain": domain(owner) }),
    }
}

fn scoped(identity: &Value, scope: Option<&Scope>) -> Value {
    let mut auth = json!({ "identity": identity });
    if let Some(scope) = scope {
        auth["scope"] = match scope {
            Scope::Project(ProjectRef::Id(id)) => json!({ "project": { "id": id } }),
            Scope::Project(ProjectRef::Name { name, domain: owner }) => {
                json!({ "project": { "name": name, "domain": domain(owner) } })
            }
            Scope::Domain(named) => json!({ "domain": domain(named) }),
            Scope::System => json!({ "system": { "all": true } }),
            Scope::Trust(id) => json!({ "OS-TRUST:trust": { "id": id } }),
        };
    }
    json!({ "auth": auth })
}

fn domain(domain: &DomainRef) -> Value {
    match domain {
        DomainRef::Id(id) => json!({ "id": id }),
        DomainRef::Name(name) => json!({ "name": name }),
    }
}

/// Official types of services, each with its aliases in order of precedence: those of `OpenStack`'s list.
const SERVICE_TYPES: [&[&str]; 19] = [
    &["admin-logic", "registration"],
    &["alarm", "alarming"],
    &["application-container", "container"],
    &["application-deployment", "application_deployment"],
    &["baremetal", "bare-metal"],
    &["block-storage", "volumev3", "volumev2", "volume", "block-store"],
    &["clustering", "resource-cluster", "cluster"],
    &["container-infrastructure-management", "container-infrastructure", "container-infra"],
    &["event", "events"],
    &["instance-ha", "ha"],
    &["message", "messaging"],
    &["meter", "metering", "telemetry"],
    &["monitoring-logging", "monitoring-log-api"],
    &["multi-region-network-automation", "tricircle"],
    &["operator-policy", "policy"],
    &["resource-optimization", "infra-optim"],
    &["root-cause-analysis", "rca"],
    &["shared-file-system", "sharev2", "share"],
    &["workflow", "workflowv2"],
];

/// The types of a catalogue that match a wanted one, in order of precedence, as in keystoneauth: the type itself, then
/// the official type of an alias, or the aliases of an official type. An alias matches no other alias: their versions
/// differ.
fn matching_types(wanted: &str) -> Vec<&str> {
    let mut matching = vec![wanted];
    for types in SERVICE_TYPES {
        let Some((official, aliases)) = types.split_first() else { continue };
        if *official == wanted {
            matching.extend(aliases.iter().copied());
        } else if aliases.contains(&wanted) {
            matching.push(*official);
        }
    }
    matching
}

/// The endpoints in a catalogue of a service, by its type, its name or both; in the region if given. Only those of the
/// first matching type: a cloud may list one service under two types. As in keystoneauth, services without a name have
/// any.
pub fn find_endpoints<'a>(
    catalog: &'a [Endpoint],
    service_type: Option<&str>,
    name: Option<&str>,
    interface: Interface,
    region: Option<&str>,
) -> Vec<&'a Endpoint> {
    let is_named = |endpoint: &Endpoint| {
        let own = endpoint.service_name.as_deref().filter(|own| !own.is_empty());
        name.is_none_or(|name| own.is_none_or(|own| own == name))
    };
    let of_type = |service_type: Option<&str>| -> Vec<&'a Endpoint> {
        let endpoints = catalog.iter().filter(|endpoint| {
            service_type.is_none_or(|service_type| &*endpoint.service_type == service_type)
                && is_named(endpoint)
                && &*endpoint.interface == interface.name()
                && region.is_none_or(|region| endpoint.region.as_deref() == Some(region))
        });
        endpoints.collect()
    };
    let Some(service_type) = service_type else { return of_type(None) };
    let mut found = matching_types(service_type).into_iter().map(|matching| of_type(Some(matching)));
    found.find(|endpoints| !endpoints.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_before_their_end() {
        for (lifetime, expected) in [(3600, 3480), (480, 360), (400, 300), (4, 3), (0, 0)] {
            assert_eq!(renew_after(Duration::from_secs(lifetime)), Duration::from_secs(expected));
        }
    }

    #[test]
    fn a_pause_ends() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        assert!(may_again(None, FAILED_PAUSE, start));
        assert!(!may_again(Some(start), FAILED_PAUSE, later(999)));
        assert!(may_again(Some(start), FAILED_PAUSE, later(1000)));
        assert!(!may_again(Some(later(1)), FAILED_PAUSE, start));
    }

    #[test]
    fn any_address_leads_to_version_3() {
        for url in
            ["http://h:5000", "http://h:5000/", "http://h:5000/v3", "http://h:5000/v3/", "http://h:5000/v2.0"]
        {
            assert_eq!(v3_url(url), "http://h:5000/v3", "{url}");
        }
        assert_eq!(v3_url("https://h/identity"), "https://h/identity/v3");
    }

    #[test]
    fn logins_are_asked_for_as_keystone_wants_them() {
        let by_name = Credentials::Password {
            user: UserRef::Name { name: "gnocchi".into(), domain: DomainRef::Name("Default".into()) },
            password: "hunter22".into(),
            scope: Some(Scope::Project(ProjectRef::Name {
                name: "service".into(),
                domain: DomainRef::Id("default".into()),
            })),
        };
        assert_eq!(
            request_body(&by_name),
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": {
                    "name": "gnocchi", "domain": {"name": "Default"}, "password": "hunter22"}}},
                "scope": {"project": {"name": "service", "domain": {"id": "default"}}}}})
        );
        let by_id = Credentials::Password {
            user: UserRef::Id("u".into()),
            password: "hunter22".into(),
            scope: Some(Scope::Project(ProjectRef::Id("p".into()))),
        };
        let body = request_body(&by_id);
        assert_eq!(body["auth"]["identity"]["password"]["user"], json!({"id": "u", "password": "hunter22"}));
        assert_eq!(body["auth"]["scope"], json!({"project": {"id": "p"}}));
        for (scope, expected) in [
            (Scope::System, json!({"system": {"all": true}})),
            (Scope::Domain(DomainRef::Name("Users".into())), json!({"domain": {"name": "Users"}})),
            (Scope::Trust("t".into()), json!({"OS-TRUST:trust": {"id": "t"}})),
        ] {
            let user = UserRef::Id("u".into());
            let wider = Credentials::Password { user, password: "hunter22".into(), scope: Some(scope) };
            assert_eq!(request_body(&wider)["auth"]["scope"], expected);
        }
        let scope = Some(Scope::Project(ProjectRef::Id("p".into())));
        let of_token = Credentials::Token { token: "hunter22".into(), scope };
        assert_eq!(
            request_body(&of_token),
            json!({"auth": {"identity": {"methods": ["token"], "token": {"id": "hunter22"}},
                            "scope": {"project": {"id": "p"}}}})
        );
        assert!(!format!("{of_token:?}").contains("hunter22"));
        let credential = Credentials::ApplicationCredential { id: "a".into(), secret: "s".into() };
        let body = request_body(&credential);
        assert_eq!(body["auth"]["identity"]["application_credential"], json!({"id": "a", "secret": "s"}));
        assert!(body["auth"].get("scope").is_none(), "an application credential has its own");
        let user = UserRef::Id("u".into());
        let named =
            Credentials::NamedApplicationCredential { name: "a".into(), user, secret: "hunter22".into() };
        assert_eq!(
            request_body(&named)["auth"],
            json!({"identity": {"methods": ["application_credential"],
                                "application_credential": {"name": "a", "user": {"id": "u"}, "secret": "hunter22"}}})
        );
        assert!(!format!("{by_name:?}{credential:?}{named:?}").contains("hunter22"));
    }

    #[test]
    fn an_endpoint_is_one_of_the_region_and_the_interface() {
        let endpoint = |service_type: &str, interface: &str, region: Option<&str>, url: &str| Endpoint {
            service_type: service_type.into(),
            service_name: Some(format!("the {service_type}").into()),
            interface: interface.into(),
            region: region.map(Into::into),
            url: url.into(),
        };
        let catalog = [
            endpoint("metric", "public", Some("R1"), "1"),
            endpoint("metric", "internal", Some("R1"), "2"),
            endpoint("metric", "internal", Some("R2"), "3"),
            endpoint("compute", "internal", None, "4"),
        ];
        let find = |service_type, interface, region| {
            find_endpoints(&catalog, Some(service_type), None, interface, region)
                .first()
                .map(|endpoint| &*endpoint.url)
        };
        let named = |service_type, name| {
            find_endpoints(&catalog, service_type, Some(name), Interface::Internal, None)
                .first()
                .map(|endpoint| &*endpoint.url)
        };
        assert_eq!(named(None, "the compute"), Some("4"));
        assert_eq!(named(Some("metric"), "the compute"), None);
        assert_eq!(find("metric", Interface::Public, None), Some("1"));
        assert_eq!(find("metric", Interface::Internal, None), Some("2"));
        assert_eq!(find("metric", Interface::Internal, Some("R2")), Some("3"));
        assert_eq!(find("metric", Interface::Admin, None), None);
        assert_eq!(find("compute", Interface::Internal, Some("R1")), None);
    }

    #[test]
    fn services_are_found_by_other_names_of_their_type() {
        let endpoint = |service_type: &str, region: &str, url: &str| Endpoint {
            service_type: service_type.into(),
            service_name: None,
            interface: "public".into(),
            region: Some(region.into()),
            url: url.into(),
        };
        let catalog = [
            endpoint("volumev2", "R1", "2"),
            endpoint("volumev3", "R1", "3"),
            endpoint("volumev3", "R2", "other 3"),
            endpoint("shared-file-system", "R1", "share"),
        ];
        let find = |catalog: &[Endpoint], service_type| -> Vec<String> {
            let found = find_endpoints(catalog, Some(service_type), None, Interface::Public, None);
            found.into_iter().map(|endpoint| endpoint.url.to_string()).collect()
        };
        assert_eq!(find(&catalog, "volumev3"), ["3", "other 3"]);
        assert_eq!(find(&catalog, "block-storage"), ["3", "other 3"], "the first alias");
        assert_eq!(find(&catalog, "sharev2"), ["share"], "the official type of an alias");
        assert_eq!(find(&catalog[..1], "volumev3"), [""; 0], "no other alias");
        assert_eq!(find(&catalog, "unknown"), [""; 0]);
        let named = find_endpoints(&catalog, Some("sharev2"), Some("manila"), Interface::Public, None);
        assert_eq!(named.len(), 1, "a service without a name has any");
    }
}

//! Parses Keystone's token documents (`{"token": {...}}`).

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use crate::{AccessRule, Identity, instant::seconds_since_epoch};

#[derive(Deserialize)]
struct Document<T> {
    token: T,
}

/// The response to a validation.
#[derive(Deserialize)]
struct ValidToken {
    user: Owner,
    project: Option<Owner>,
    domain: Option<Domain>,
    system: Option<BTreeMap<String, bool>>,
    #[serde(default)]
    roles: Vec<Role>,
    application_credential: Option<ApplicationCredential>,
    expires_at: String,
}

/// The response to a login.
#[derive(Deserialize)]
struct NewToken<'a> {
    expires_at: String,
    issued_at: Option<String>,
    #[serde(borrow)]
    catalog: Option<Vec<CatalogEntry<'a>>>,
}

/// A user or a project.
#[derive(Deserialize)]
struct Owner {
    id: String,
    name: String,
    domain: Domain,
}

/// A domain. That of a federated user may lack the name.
#[derive(Deserialize)]
struct Domain {
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Role {
    name: String,
}

#[derive(Deserialize)]
struct ApplicationCredential {
    access_rules: Option<Vec<AccessRule>>,
}

#[derive(Deserialize)]
struct Catalog<'a> {
    #[serde(borrow)]
    catalog: Vec<CatalogEntry<'a>>,
}

#[derive(Deserialize)]
struct CatalogEntry<'a> {
    #[serde(rename = "type", borrow)]
    service_type: Cow<'a, str>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    endpoints: Vec<ServiceEndpoint<'a>>,
}

#[derive(Deserialize)]
struct ServiceEndpoint<'a> {
    #[serde(borrow)]
    interface: Cow<'a, str>,
    /// Keystone also writes `region_id`, with the same value.
    #[serde(borrow)]
    region: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Cow<'a, str>,
}

/// An endpoint in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub service_type: Box<str>,
    pub service_name: Option<Box<str>>,
    pub interface: Box<str>,
    pub region: Option<Box<str>>,
    /// Without a trailing slash.
    pub url: Arc<str>,
}

/// The contents of a login response, besides the token itself.
#[derive(Debug, PartialEq, Eq)]
pub struct LoginDocument {
    /// Lifetime of the token from its creation, by Keystone's clock.
    pub lifetime_seconds: i64,
    /// `None` for an unscoped token.
    pub catalog: Option<Vec<Endpoint>>,
}

/// Parses a validation response. Errors do not quote its contents.
pub fn identity(body: &[u8]) -> Result<Identity, String> {
    let Document::<ValidToken> { token } = parse(body)?;
    let expires_at = instant(&token.expires_at)?;
    let (project_id, project_name, project_domain) = match token.project {
        Some(project) => (Some(project.id), Some(project.name), Some(project.domain)),
        None => (None, None, None),
    };
    let (project_domain_id, project_domain_name) =
        project_domain.map_or((None, None), |domain| (domain.id, domain.name));
    Ok(Identity {
        user_id: token.user.id,
        user_name: token.user.name,
        user_domain_id: token.user.domain.id.unwrap_or_default(),
        user_domain_name: token.user.domain.name.unwrap_or_default(),
        project_id,
        project_name,
        project_domain_id,
        project_domain_name,
        roles: token.roles.into_iter().map(|role| role.name).collect(),
        domain_id: token.domain.and_then(|domain| domain.id),
        system_scope: token.system.and_then(|scope| scope.get("all").copied()?.then(|| "all".to_owned())),
        access_rules: token.application_credential.and_then(|credential| credential.access_rules),
        expires_at,
    })
}

/// Whether a body is that of Keystone's response with this error: `{"error": {"code": 404, ...}}`.
pub fn is_error(body: &[u8], code: u16) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|answer| answer["error"]["code"] == code)
}

/// Parses a login response.
pub fn login(body: &[u8]) -> Result<LoginDocument, String> {
    let Document::<NewToken<'_>> { token } = parse(body)?;
    let expires_at = instant(&token.expires_at)?;
    let issued_at = token.issued_at.ok_or("the token has no issued_at")?;
    Ok(LoginDocument {
        lifetime_seconds: expires_at - instant(&issued_at)?,
        catalog: token.catalog.map(endpoints),
    })
}

/// Parses the response to `GET /v3/auth/catalog`.
pub fn catalog(body: &[u8]) -> Result<Vec<Endpoint>, String> {
    parse::<Catalog<'_>>(body).map(|document| endpoints(document.catalog))
}

/// serde's errors may quote contents, which may be secret.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        format!("not the document that was asked for (line {}, column {})", error.line(), error.column())
    })
}

fn instant(text: &str) -> Result<i64, String> {
    seconds_since_epoch(text).ok_or_else(|| "a point in time cannot be read".to_owned())
}

fn endpoints(services: Vec<CatalogEntry<'_>>) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for service in services {
        for endpoint in service.endpoints {
            found.push(Endpoint {
                service_type: service.service_type.as_ref().into(),
                service_name: service.name.as_deref().map(Into::into),
                // Catalogues migrated from version 2 say publicURL.
                interface: endpoint.interface.trim_end_matches("URL").into(),
                region: endpoint.region.as_deref().map(Into::into),
                url: endpoint.url.trim_end_matches('/').into(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: &str = r#"{"token": {"methods": ["application_credential"], "expires_at": "2026-11-21T23:53:03.000000Z",
        "issued_at": "2026-11-21T22:53:03.000000Z", "audit_ids": ["x"], "is_domain": false,
        "user": {"domain": {"id": "default", "name": "Default"}, "id": "u1", "name": "\u00e9va", "password_expires_at": null},
        "project": {"domain": {"id": "default", "name": "Default"}, "id": "p1", "name": "demo"},
        "roles": [{"id": "r1", "name": "member"}, {"id": "r2", "name": "reader"}],
        "application_credential": {"id": "a", "name": "b", "restricted": true,
            "access_rules": [{"id": "i", "service": "metric", "method": "GET", "path": "/v1/metric/*"}]},
        "catalog": [{"id": "s", "type": "metric", "name": "gnocchi", "endpoints": [
            {"id": "e1", "interface": "public", "region_id": "R1", "region": "R1", "url": "http://h:1/"},
            {"id": "e2", "interface": "internalURL", "region": null, "url": "http://h:2"}]},
            {"type": "empty", "endpoints": []}]}}"#;

    #[test]
    fn a_scoped_token_is_read() {
        let identity = identity(MEMBER.as_bytes()).unwrap();
        assert_eq!((&*identity.user_id, &*identity.user_name), ("u1", "éva"));
        assert_eq!(identity.user_domain_name, "Default");
        assert_eq!(identity.project_id.as_deref(), Some("p1"));
        assert_eq!(identity.project_domain_id.as_deref(), Some("default"));
        assert!(identity.has_role("reader") && !identity.has_role("admin"));
        assert_eq!(identity.expires_at, 1_795_305_183);
        let rules = identity.access_rules.unwrap();
        assert_eq!(rules.len(), 1);
        assert!(rules[0].allows("metric", "GET", "/v1/metric/x"));
    }

    #[test]
    fn other_scopes_are_told_apart() {
        let token = |scope: &str| {
            let text = format!(
                r#"{{"token": {{"expires_at": "2026-11-21T23:53:03Z", "user": {{"id": "u", "name": "n",
                "domain": {{"id": "d", "name": null}}}}{scope}}}}}"#
            );
            identity(text.as_bytes()).unwrap()
        };
        let unscoped = token("");
        assert!(
            unscoped.project_id.is_none() && unscoped.roles.is_empty() && unscoped.access_rules.is_none()
        );
        assert_eq!(token(r#", "domain": {"id": "d1", "name": "D"}"#).domain_id.as_deref(), Some("d1"));
        assert_eq!(token(r#", "system": {"all": true}"#).system_scope.as_deref(), Some("all"));
        assert_eq!(token(r#", "system": {"all": false}"#).system_scope, None);
        // No rules differ from an empty list of rules.
        assert_eq!(token(r#", "application_credential": {"id": "a"}"#).access_rules, None);
        let confined = token(r#", "application_credential": {"id": "a", "access_rules": []}"#);
        assert_eq!(confined.access_rules, Some(Vec::new()));
    }

    #[test]
    fn a_login_tells_the_lifetime_and_the_catalogue() {
        let login = login(MEMBER.as_bytes()).unwrap();
        assert_eq!(login.lifetime_seconds, 3600);
        let endpoints = login.catalog.unwrap();
        let shown: Vec<_> = endpoints
            .iter()
            .map(|found| (&*found.service_type, &*found.interface, found.region.as_deref(), &*found.url))
            .collect();
        assert_eq!(
            shown,
            [("metric", "public", Some("R1"), "http://h:1"), ("metric", "internal", None, "http://h:2")]
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_repeated() {
        let bad_time = MEMBER.replace("2026-11-21T23:53:03.000000Z", "hunter2");
        for body in ["", "hunter2", "{\"token\": \"hunter2\"}", "{}", &bad_time] {
            let error = identity(body.as_bytes()).unwrap_err();
            assert!(!error.contains("hunter2") && !error.is_empty(), "{error}");
            assert!(catalog(body.as_bytes()).is_err());
        }
    }
}

//! Authentication by Keystone tokens, as keystonemiddleware does it in front of Gnocchi.
//!
//! Identity headers (`X-User-Id`, `X-Roles` ...) are never read: only the token counts.

use std::{net::IpAddr, sync::Arc};

use gnudi_keystone::{ExpiryRule, Identity, KeystoneError, Validator};
use gnudi_model::{
    Timestamp,
    python::{quote, unquote},
};
use hyper::{HeaderMap, Method, header::HeaderValue, http::request::Parts};

use super::{Peer, ProcessSecret, network};
use crate::{
    error::{AccessError, Challenge},
    policy::Caller,
};

const USER_TOKEN: &str = "x-auth-token";
/// An alternative header for a user's token.
const STORAGE_TOKEN: &str = "x-storage-token";
const SERVICE_TOKEN: &str = "x-service-token";

const NANOSECONDS: i64 = 1_000_000_000;

/// The characters that `WebOb` leaves unquoted in the paths that keystonemiddleware sees.
const PATH_SAFE: &str = "/~!$&'()*+,;=:@";

/// The part of `[keystone_authtoken]` that concerns requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoneAuthOptions {
    /// The URL in the `WWW-Authenticate` header of a 401.
    pub www_authenticate_uri: String,
    /// Any of these roles makes a token a service token.
    pub service_token_roles: Vec<String>,
    /// Whether a token in `X-Service-Token` must have such a role.
    pub service_token_roles_required: bool,
    /// This service's type, for access rules of application credentials. If unset, credentials with rules are
    /// refused.
    pub service_type: Option<String>,
}

/// Authenticates callers by their tokens.
#[derive(Debug)]
pub struct KeystoneAuth {
    validator: Validator,
    options: KeystoneAuthOptions,
    challenge: Arc<str>,
    own: ProcessSecret,
}

impl KeystoneAuth {
    pub fn new(validator: Validator, options: KeystoneAuthOptions, own: ProcessSecret) -> Self {
        let challenge = format!("Keystone uri=\"{}\"", options.www_authenticate_uri).into();
        KeystoneAuth { validator, options, challenge, own }
    }

    /// The URL where clients get their tokens.
    pub fn www_authenticate_uri(&self) -> &str {
        &self.options.www_authenticate_uri
    }

    /// Authenticates the token's user.
    ///
    /// # Errors
    /// 401 if the token is missing, invalid or not allowed this request; 503 if Keystone does not answer.
    pub(super) async fn caller(&self, parts: &Parts, now: Timestamp) -> Result<Caller, AccessError> {
        let headers = &parts.headers;
        let now = now.0.div_euclid(NANOSECONDS);
        let peer = parts.extensions.get().map(|Peer(peer)| network(*peer));
        let service = match service_token(headers) {
            Some(token) => Some(self.service(token, peer, now).await?),
            None => None,
        };
        let Some(token) = token(headers, USER_TOKEN).or_else(|| token(headers, STORAGE_TOKEN)) else {
            return self.own.caller(headers).ok_or_else(|| self.refuse());
        };
        let ends = service.unwrap_or(ExpiryRule::Strict);
        let found = self.validator.validate(token, ends, peer, now).await;
        let identity = found.map_err(|error| unavailable(&error))?.ok_or_else(|| self.refuse())?;
        let service_type = self.options.service_type.as_deref();
        // A service has checked them; who merely sends a token for a service's has not.
        let is_checked = ends == ExpiryRule::Lenient;
        if !is_checked && !is_within_rules(&identity, service_type, &parts.method, parts.uri.path()) {
            return Err(self.refuse());
        }
        Ok(caller_of(&identity))
    }

    /// Validates the token in `X-Service-Token`. An invalid one, or one without a required role, refuses the
    /// request. With a service role, the user's token may have expired in the meantime.
    async fn service(&self, token: &str, peer: Option<IpAddr>, now: i64) -> Result<ExpiryRule, AccessError> {
        let found = self.validator.validate(token, ExpiryRule::Strict, peer, now).await;
        let identity = found.map_err(|error| unavailable(&error))?.ok_or_else(|| self.refuse())?;
        if self.options.service_token_roles.iter().any(|role| identity.has_role(role)) {
            Ok(ExpiryRule::Lenient)
        } else if self.options.service_token_roles_required {
            Err(self.refuse())
        } else {
            Ok(ExpiryRule::Strict)
        }
    }

    fn refuse(&self) -> AccessError {
        AccessError::Unknown {
            detail: "A valid token is required in X-Auth-Token",
            challenge: Some(Challenge::Keystone(self.challenge.clone())),
        }
    }
}

/// Callers get no details; the validator logs them.
fn unavailable(_: &KeystoneError) -> AccessError {
    AccessError::Unavailable("The Keystone service is temporarily unavailable.")
}

fn token<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let token = headers.get(name)?.to_str().unwrap_or("").trim();
    Some(token)
}

/// The token in `X-Service-Token`. keystonemiddleware takes an empty one for none; an empty user's token is
/// refused.
fn service_token(headers: &HeaderMap) -> Option<&str> {
    let is_empty = |header: &HeaderValue| header.as_bytes().trim_ascii().is_empty();
    if headers.get(SERVICE_TOKEN).is_some_and(is_empty) { None } else { token(headers, SERVICE_TOKEN) }
}

/// Whether the access rules of an application credential allow the request; without rules they do.
fn is_within_rules(identity: &Identity, service_type: Option<&str>, method: &Method, path: &str) -> bool {
    let Some(rules) = &identity.access_rules else { return true };
    let Some(service_type) = service_type else { return false };
    // Rules treat an encoded slash as a slash, the router does not: refuse it, so that nobody can exploit the
    // difference.
    if path.to_ascii_lowercase().contains("%2f") {
        return false;
    }
    let path = quote(&String::from_utf8_lossy(&unquote(path)), PATH_SAFE);
    rules.iter().any(|rule| rule.allows(service_type, method.as_str(), &path))
}

fn caller_of(identity: &Identity) -> Caller {
    let project = identity.project_id.as_deref().unwrap_or_default();
    Caller {
        user: format!("{}:{project}", identity.user_id),
        user_id: Some(identity.user_id.clone()),
        project_id: identity.project_id.clone(),
        domain_id: identity.domain_id.clone(),
        roles: identity.roles.clone(),
    }
}

#[cfg(test)]
mod tests {
    use gnudi_keystone::AccessRule;

    use super::*;

    fn identity(project: Option<&str>, roles: &[&str]) -> Identity {
        Identity {
            user_id: "u1".to_owned(),
            project_id: project.map(str::to_owned),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..Identity::default()
        }
    }

    #[test]
    fn a_caller_is_its_user_and_project() {
        let caller = caller_of(&identity(Some("p1"), &["member", "reader"]));
        assert_eq!(caller.user, "u1:p1");
        assert_eq!((caller.user_id.as_deref(), caller.project_id.as_deref()), (Some("u1"), Some("p1")));
        assert!(caller.has_role("reader") && !caller.has_role("admin"));
        let caller = caller_of(&identity(None, &["admin", "service"]));
        assert_eq!((caller.user.as_str(), caller.project_id.as_deref()), ("u1:", None));
        assert!(caller.has_role("admin") && caller.has_token());
    }

    #[test]
    fn an_empty_service_token_is_none() {
        let of = |value: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(SERVICE_TOKEN, HeaderValue::from_bytes(value).unwrap());
            service_token(&headers).map(str::to_owned)
        };
        assert_eq!((of(b""), of(b" "), service_token(&HeaderMap::new())), (None, None, None));
        assert_eq!(of(b" t "), Some("t".to_owned()));
        // Invalid, but given.
        assert_eq!(of(b"\xff"), Some(String::new()));
    }

    #[test]
    fn access_rules_confine_requests() {
        let rule = |method: &str, path: &str| AccessRule {
            service: "metric".to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
        };
        let within = |rules: Option<Vec<AccessRule>>, service_type, method, path| {
            let identity = Identity { access_rules: rules, ..Identity::default() };
            is_within_rules(&identity, service_type, &method, path)
        };
        let metric = Some("metric");
        assert!(within(None, None, Method::POST, "/v1/metric"));
        assert!(!within(Some(Vec::new()), metric, Method::GET, "/v1/metric"));
        let rules = || Some(vec![rule("GET", "/v1/metric/*"), rule("POST", "/v1/batch/**")]);
        for (method, path, expected) in [
            (Method::GET, "/v1/metric/x", true),
            (Method::GET, "/v1/metric/%78", true),
            (Method::GET, "/v1/%6detric/x", true),
            (Method::GET, "/v1/metric/a%20b", true),
            (Method::GET, "/v1/metric/a%2Fb", false),
            (Method::GET, "/v1/metric/a%2fb", false),
            (Method::GET, "/v1/metric/x/measures", false),
            (Method::DELETE, "/v1/metric/x", false),
            (Method::POST, "/v1/batch/metrics/measures", true),
        ] {
            assert_eq!(within(rules(), metric, method, path), expected, "{path}");
        }
        assert!(
            !within(rules(), None, Method::GET, "/v1/metric/x"),
            "who does not know its type lets none in"
        );
        assert!(!within(rules(), Some("compute"), Method::GET, "/v1/metric/x"));
    }
}

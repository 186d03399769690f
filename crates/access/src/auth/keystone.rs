//! Callers who bring a token of Keystone's, as keystonemiddleware lets them in before Gnocchi.
//!
//! Headers that say who somebody is (`X-User-Id`, `X-Roles` ...) are never read: only the token counts.

use std::sync::Arc;

use gnudi_keystone::{Identity, KeystoneError, Validator};
use gnudi_model::{
    Timestamp,
    python::{quote, unquote},
};
use hyper::{HeaderMap, Method, http::request::Parts};

use super::Own;
use crate::{
    error::{AccessError, Challenge},
    policy::Caller,
};

const USER_TOKEN: &str = "x-auth-token";
/// Where a user's token may stand as well.
const STORAGE_TOKEN: &str = "x-storage-token";
const SERVICE_TOKEN: &str = "x-service-token";

const NANOSECONDS: i64 = 1_000_000_000;

/// What a path is quoted without, as `WebOb` shows paths to keystonemiddleware.
const PATH_SAFE: &str = "/~!$&'()*+,;=:@";

/// `[keystone_authtoken]`, as far as it concerns requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoneAuthOptions {
    /// Where clients are sent who bring no valid token.
    pub www_authenticate_uri: String,
    /// One of these roles makes a token that of a service.
    pub service_token_roles: Vec<String>,
    /// Whether a token in `X-Service-Token` needs such a role.
    pub service_token_roles_required: bool,
    /// Of this service, for the access rules of application credentials; where it is unset, none with rules are let in.
    pub service_type: Option<String>,
}

/// Lets callers in by their tokens.
#[derive(Debug)]
pub struct KeystoneAuth {
    validator: Validator,
    options: KeystoneAuthOptions,
    challenge: Arc<str>,
    own: Own,
}

impl KeystoneAuth {
    pub fn new(validator: Validator, options: KeystoneAuthOptions, own: Own) -> Self {
        let challenge = format!("Keystone uri=\"{}\"", options.www_authenticate_uri).into();
        KeystoneAuth { validator, options, challenge, own }
    }

    /// Where clients get their tokens.
    pub fn www_authenticate_uri(&self) -> &str {
        &self.options.www_authenticate_uri
    }

    /// Whom the token speaks for.
    ///
    /// # Errors
    /// 401 where there is none, or a void one, or one that may not make this request; 503 where Keystone does not tell.
    pub(super) async fn caller(&self, parts: &Parts, now: Timestamp) -> Result<Caller, AccessError> {
        let headers = &parts.headers;
        let now = now.0.div_euclid(NANOSECONDS);
        let service = match token(headers, SERVICE_TOKEN) {
            Some(token) => Some(self.service(token, now).await?),
            None => None,
        };
        let Some(token) = token(headers, USER_TOKEN).or_else(|| token(headers, STORAGE_TOKEN)) else {
            return self.own.caller(headers).ok_or_else(|| self.refuse());
        };
        let found = match service {
            Some(Service::OfRole) => self.validator.validate_passed_on(token, now).await,
            Some(Service::OfAnyRole) | None => self.validator.validate(token, now).await,
        };
        let identity = found.map_err(|error| away(&error))?.ok_or_else(|| self.refuse())?;
        let service_type = self.options.service_type.as_deref();
        if service.is_none() && !is_within_rules(&identity, service_type, &parts.method, parts.uri.path()) {
            return Err(self.refuse());
        }
        Ok(caller_of(&identity))
    }

    /// What a token in `X-Service-Token` is; one that is void, or lacks a role that it needs, refuses the request.
    async fn service(&self, token: &str, now: i64) -> Result<Service, AccessError> {
        let found = self.validator.validate(token, now).await;
        let identity = found.map_err(|error| away(&error))?.ok_or_else(|| self.refuse())?;
        if self.options.service_token_roles.iter().any(|role| identity.has_role(role)) {
            Ok(Service::OfRole)
        } else if self.options.service_token_roles_required {
            Err(self.refuse())
        } else {
            Ok(Service::OfAnyRole)
        }
    }

    fn refuse(&self) -> AccessError {
        AccessError::Unknown {
            detail: "A valid token is required in X-Auth-Token",
            challenge: Some(Challenge::Keystone(self.challenge.clone())),
        }
    }
}

/// Who has sent a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// A service, whose users' tokens may have ended meanwhile.
    OfRole,
    OfAnyRole,
}

/// The validator's log tells what is wrong; callers need not know.
fn away(_: &KeystoneError) -> AccessError {
    AccessError::Unavailable("The Keystone service is temporarily unavailable.")
}

fn token<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let token = headers.get(name)?.to_str().unwrap_or("").trim();
    Some(token)
}

/// Whether the access rules of an application credential, if there are any, let the request pass.
fn is_within_rules(identity: &Identity, service_type: Option<&str>, method: &Method, path: &str) -> bool {
    let Some(rules) = &identity.access_rules else { return true };
    let Some(service_type) = service_type else { return false };
    // An encoded slash is a slash to a rule, but not to the router: let nobody play one off against the other.
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

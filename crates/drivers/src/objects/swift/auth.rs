//! Logs in to Swift: `TempAuth` (version 1) or Keystone (version 3).

use bytes::Bytes;
use gnudi_http::{Request, StatusCode};
use serde_json::{Value, json};

use super::SwiftOptions;
use crate::objects::{
    ObjectError, Secret,
    http::{Answer, Http, Tries},
};

/// The result of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Of the account, without a trailing slash.
    pub url: String,
    pub token: Secret,
}

/// Why a login failed: temporarily or permanently.
#[derive(Debug)]
pub enum LoginError {
    Again(String),
    Never(ObjectError),
}

/// The session configured without a login.
pub fn given(options: &SwiftOptions) -> Option<Session> {
    let (url, token) = (options.url.as_ref()?, options.preauthtoken.as_ref()?);
    Some(Session { url: url.trim_end_matches('/').to_owned(), token: token.clone() })
}

/// Logs in once.
pub async fn login(http: &Http, tries: &Tries, options: &SwiftOptions) -> Result<Session, LoginError> {
    let url = options.authurl.trim_end_matches('/');
    let refused =
        |reason: String| LoginError::Never(ObjectError::Refused(format!("swift login at {url}: {reason}")));
    let request = match &options.auth_version[..] {
        "1" | "1.0" => version_1(options),
        "3" | "3.0" => version_3(options),
        other => {
            return Err(refused(format!("there is no swift_auth_version {other}: 1, or 3 for Keystone")));
        }
    };
    let request = request.map_err(|error| refused(format!("swift_authurl or swift_user: {error}")))?;
    let answer = http
        .send(tries, request)
        .await
        .map_err(|reason| LoginError::Again(format!("swift login at {url}: {reason}")))?;
    match answer.status {
        status if status.is_success() => {}
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(LoginError::Again(format!("swift login at {url}: {}", answer.text())));
        }
        status => return Err(refused(format!("{status}: is swift_user or swift_key wrong?"))),
    }
    let session = match &options.auth_version[..1] {
        "1" => session_1(&answer),
        _ => session_3(&answer, options),
    };
    let mut session = session.map_err(refused)?;
    if let Some(url) = &options.url {
        session.url.clone_from(url);
    }
    session.url.truncate(session.url.trim_end_matches('/').len());
    Ok(session)
}

type Made = Result<Request<Bytes>, gnudi_http::RequestError>;

fn version_1(options: &SwiftOptions) -> Made {
    Request::get(&options.authurl)
        .header("x-auth-user", &options.user)
        .header("x-auth-key", options.key.reveal())
        .body(Bytes::new())
}

fn session_1(answer: &Answer) -> Result<Session, String> {
    let token = answer.header("x-auth-token").or_else(|| answer.header("x-storage-token"));
    let (Some(url), Some(token)) = (answer.header("x-storage-url"), token) else {
        return Err("the answer has no storage URL or no token".to_owned());
    };
    Ok(Session { url: url.to_owned(), token: Secret::new(token) })
}

fn version_3(options: &SwiftOptions) -> Made {
    // As in Gnocchi, the user may be "project:user".
    let (project, user) = match (&options.project_name, options.user.split_once(':')) {
        (Some(project), _) => (Some(project.as_str()), options.user.as_str()),
        (None, Some((project, user))) => (Some(project), user),
        (None, None) => (None, options.user.as_str()),
    };
    let identity = json!({"methods": ["password"], "password": {"user": {
        "name": user, "domain": {"name": options.user_domain_name}, "password": options.key.reveal(),
    }}});
    let mut auth = json!({"identity": identity});
    if let Some(project) = project {
        auth["scope"] =
            json!({"project": {"name": project, "domain": {"name": options.project_domain_name}}});
    }
    let base = options.authurl.trim_end_matches('/');
    let base = base.strip_suffix("/v3").unwrap_or(base);
    Request::post(format!("{base}/v3/auth/tokens"))
        .header("content-type", "application/json")
        .body(json!({"auth": auth}).to_string().into())
}

fn session_3(answer: &Answer, options: &SwiftOptions) -> Result<Session, String> {
    let token = answer.header("x-subject-token").ok_or("the answer has no token")?;
    let token = Secret::new(token);
    if let Some(url) = &options.url {
        return Ok(Session { url: url.clone(), token });
    }
    let body: Value = serde_json::from_slice(&answer.body).map_err(|error| format!("the answer: {error}"))?;
    let interface = options.endpoint_type.trim_end_matches("URL");
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let in_region = |endpoint: &Value| {
        options.region.as_ref().is_none_or(|region| {
            endpoint["region"] == region.as_str() || endpoint["region_id"] == region.as_str()
        })
    };
    let url = all(&body["token"]["catalog"])
        .iter()
        .filter(|service| service["type"] == options.service_type.as_str())
        .flat_map(|service| all(&service["endpoints"]))
        .find(|endpoint| endpoint["interface"] == interface && in_region(endpoint))
        .and_then(|endpoint| endpoint["url"].as_str().map(str::to_owned));
    let region = options.region.as_ref().map_or(String::new(), |region| format!(" in the region {region}"));
    let missing = || {
        format!("Keystone lists no {} of the type {}{region}", options.endpoint_type, options.service_type)
    };
    Ok(Session { url: url.ok_or_else(missing)?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Answer {
        let endpoint = |interface: &str, region: &str| {
            json!({"interface": interface, "region": region, "region_id": region,
                   "url": format!("http://{interface}.{region}/v1/AUTH_x/")})
        };
        let body = json!({"token": {"catalog": [
            {"type": "identity", "endpoints": [endpoint("public", "identity")]},
            {"type": "object-store", "endpoints": [
                endpoint("internal", "one"), endpoint("public", "one"), endpoint("public", "two"),
            ]},
        ]}});
        let mut headers = gnudi_http::HeaderMap::new();
        headers.insert("x-subject-token", "tok".parse().unwrap());
        Answer { status: StatusCode::CREATED, headers, body: body.to_string().into() }
    }

    #[test]
    fn the_catalogue_is_searched_by_type_interface_and_region() {
        let options = SwiftOptions::default();
        let url = |options: &SwiftOptions| session_3(&catalog(), options).map(|session| session.url);
        assert_eq!(url(&options).unwrap(), "http://public.one/v1/AUTH_x/");
        let internal = SwiftOptions { endpoint_type: "internalURL".to_owned(), ..options.clone() };
        assert_eq!(url(&internal).unwrap(), "http://internal.one/v1/AUTH_x/");
        let two = SwiftOptions { region: Some("two".to_owned()), ..options.clone() };
        assert_eq!(url(&two).unwrap(), "http://public.two/v1/AUTH_x/");
        let three = SwiftOptions { region: Some("three".to_owned()), ..options };
        let text = url(&three).unwrap_err();
        assert!(text.contains("publicURL") && text.contains("three"), "{text}");
    }

    #[tokio::test]
    async fn keystone_is_asked_for_the_project() {
        let options = SwiftOptions {
            authurl: "http://keystone:5000/".to_owned(),
            user: "service:gnudi".to_owned(),
            key: Secret::new("pass\"word"),
            ..SwiftOptions::default()
        };
        let request = version_3(&options).unwrap();
        assert_eq!(request.uri(), "http://keystone:5000/v3/auth/tokens");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        let user = &body["auth"]["identity"]["password"]["user"];
        assert_eq!(user["name"], "gnudi");
        assert_eq!(user["password"], "pass\"word");
        assert_eq!(body["auth"]["scope"]["project"]["name"], "service");
        let url = version_3(&SwiftOptions { authurl: "https://k/v3".to_owned(), ..options }).unwrap();
        assert_eq!(url.uri(), "https://k/v3/auth/tokens");
    }
}

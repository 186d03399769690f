//! The filtered project: samples of the project that the store itself runs in are dropped, so that its own activity is
//! not measured endlessly.

use std::time::Duration;

use bytes::Bytes;
use gnudi_http::{HttpClient, HttpOptions, Request, StatusCode, Trust, header};
use gnudi_keystone::{KeystoneError, Session};
use gnudi_model::python::quote;
use serde_json::Value;

use super::options::FilterProject;

const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The id of the project; retries until Keystone responds. `None`, with a log line: it does not exist, or we may not
/// read it.
///
/// `needs_login`: posting needs the same login, so a rejected login is retried, too: the user may be created after the
/// agent starts.
pub async fn project_id(
    session: &Session,
    trust: &Trust,
    filter: &FilterProject,
    needs_login: bool,
) -> Option<String> {
    let FilterProject { project, domain } = filter;
    let options = HttpOptions { trust: trust.clone(), timeout: TIMEOUT, ..HttpOptions::default() };
    let http = match HttpClient::new(&options) {
        Ok(http) => http,
        Err(error) => {
            tracing::error!("filter_project {project} is ignored: {error}");
            return None;
        }
    };
    let mut pause = PAUSE_MIN;
    loop {
        match look_up(session, &http, filter, needs_login).await {
            Ok(Some(id)) => {
                tracing::info!("samples of the project {project} ({id}) are left out");
                return Some(id);
            }
            Ok(None) => {
                tracing::warn!("filter_project {project} of domain {domain} is unknown to Keystone: ignored");
                return None;
            }
            Err(KeystoneError::Unavailable(why)) => {
                tracing::warn!("filter_project {project}: {why}; retrying");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => {
                tracing::error!("filter_project {project} is ignored: {error}");
                return None;
            }
        }
    }
}

async fn look_up(
    session: &Session,
    http: &HttpClient,
    filter: &FilterProject,
    needs_login: bool,
) -> Result<Option<String>, KeystoneError> {
    if needs_login {
        session.token().await.map_err(|error| KeystoneError::Unavailable(error.to_string()))?;
    }
    let domains =
        list(session, http, &format!("/domains?name={}", quote(&filter.domain, "")), "domains").await?;
    let Some(domain) = domains.first().and_then(|domain| domain["id"].as_str()) else { return Ok(None) };
    let path = format!("/projects?name={}&domain_id={}", quote(&filter.project, ""), quote(domain, ""));
    let projects = list(session, http, &path, "projects").await?;
    Ok(projects.first().and_then(|project| Some(project["id"].as_str()?.to_owned())))
}

async fn list(
    session: &Session,
    http: &HttpClient,
    path: &str,
    key: &str,
) -> Result<Vec<Value>, KeystoneError> {
    let endpoint = session.endpoint("identity").await?;
    let endpoint =
        endpoint.ok_or_else(|| KeystoneError::Refused("the catalogue has no identity".to_owned()))?;
    let version = if endpoint.ends_with("/v3") { "" } else { "/v3" };
    let url = format!("{endpoint}{version}{path}");
    let mut has_renewed = false;
    loop {
        let token = session.token().await?;
        let request = Request::get(&url)
            .header("X-Auth-Token", &*token)
            .header(header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|error| KeystoneError::Refused(format!("{url}: {error}")))?;
        let answer = http
            .send(request)
            .await
            .map_err(|error| KeystoneError::Unavailable(format!("{url}: {error}")))?;
        match answer.status {
            StatusCode::UNAUTHORIZED if !std::mem::replace(&mut has_renewed, true) => {
                session.forget_token(&token);
            }
            status if status.is_success() => {
                let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                return match body[key].take() {
                    Value::Array(items) => Ok(items),
                    _ => Err(KeystoneError::Unavailable(format!("{url}: no {key} in the answer"))),
                };
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(KeystoneError::Unavailable(format!("{url}: {}", answer.text())));
            }
            _ => return Err(KeystoneError::Refused(format!("{url}: {}", answer.text()))),
        }
    }
}

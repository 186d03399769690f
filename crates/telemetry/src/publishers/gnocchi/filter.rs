//! The filtered project: samples of the project that the store itself runs in are dropped, so that its own activity is
//! not measured endlessly.

use std::time::Duration;

use gnudi_keystone::KeystoneError;
use gnudi_model::python::quote;
use serde_json::Value;

use super::options::FilterProject;
use crate::polling::cloud::{Cloud, CloudError};

const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The id of the project; retries until Keystone responds. `None`, with a log line: it does not exist, or we may not
/// read it.
///
/// `needs_login`: posting needs the same login, so a rejected login is retried, too: the user may be created after the
/// agent starts.
pub async fn project_id(cloud: &Cloud, filter: &FilterProject, needs_login: bool) -> Option<String> {
    let FilterProject { project, domain } = filter;
    let mut pause = PAUSE_MIN;
    loop {
        match look_up(cloud, filter).await {
            Ok(Some(id)) => {
                tracing::info!("samples of the project {project} ({id}) are left out");
                return Some(id);
            }
            Ok(None) => {
                tracing::warn!("filter_project {project} of domain {domain} is unknown to Keystone: ignored");
                return None;
            }
            Err(error) if is_final(&error, needs_login) => {
                tracing::error!("filter_project {project} is ignored: {error}");
                return None;
            }
            Err(error) => {
                tracing::warn!("filter_project {project}: {error}; retrying");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Whether a later look-up fails as well, until somebody changes something.
fn is_final(error: &CloudError, needs_login: bool) -> bool {
    match error {
        CloudError::Login(KeystoneError::Unavailable(_)) | CloudError::Failed(_) => false,
        CloudError::Login(_) => !needs_login,
        CloudError::NoService(_) => true,
        CloudError::Refused { status, .. } => *status < 500 && *status != 429,
    }
}

async fn look_up(cloud: &Cloud, filter: &FilterProject) -> Result<Option<String>, CloudError> {
    let base = cloud.versioned("identity", "v3").await?;
    let Some(domain) = find(cloud, &base, "domain", &filter.domain, "").await? else { return Ok(None) };
    let Some(domain) = domain["id"].as_str() else { return Ok(None) };
    let within = format!("&domain_id={}", quote(domain, ""));
    let Some(project) = find(cloud, &base, "project", &filter.project, &within).await? else {
        return Ok(None);
    };
    // One that was found by its id may be of another domain.
    let is_within = project.get("domain_id").is_none_or(|of| of == domain);
    Ok(project["id"].as_str().filter(|_| is_within).map(str::to_owned))
}

/// The domain or project of this name or else of this id, as in Ceilometer.
async fn find(
    cloud: &Cloud,
    base: &str,
    kind: &str,
    wanted: &str,
    within: &str,
) -> Result<Option<Value>, CloudError> {
    let wanted = quote(wanted, "");
    let url = format!("{base}/{kind}s?name={wanted}{within}");
    if let Some(named) = cloud.list(&url, &format!("{kind}s"), &[]).await?.into_iter().next() {
        return Ok(Some(named));
    }
    match cloud.get_json(&format!("{base}/{kind}s/{wanted}"), &[]).await {
        Ok(mut answer) => Ok(answer.get_mut(kind).map(Value::take)),
        Err(CloudError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

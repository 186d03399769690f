//! The filtered project: samples of the project that the store itself runs in are dropped, so that its own activity is
//! not measured endlessly.

use std::time::Duration;

use gnudi_keystone::KeystoneError;
use gnudi_model::python::quote;

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
    let url = format!("{base}/domains?name={}", quote(&filter.domain, ""));
    let domains = cloud.list(&url, "domains", &[]).await?;
    let Some(domain) = domains.first().and_then(|domain| domain["id"].as_str()) else { return Ok(None) };
    let url = format!("{base}/projects?name={}&domain_id={}", quote(&filter.project, ""), quote(domain, ""));
    let projects = cloud.list(&url, "projects", &[]).await?;
    Ok(projects.first().and_then(|project| Some(project["id"].as_str()?.to_owned())))
}

//! What the URL `gnocchi://?...` says, and what is around it.

use std::{path::PathBuf, time::Duration};

use gnudi_http::Trust;
use gnudi_keystone::Session;

use super::GnocchiError;
use crate::publishers::PublisherUrl;

/// How the store knows who posts.
#[derive(Clone, Debug)]
pub enum Access {
    /// `auth_type = gnocchi-noauth`: headers that the store trusts.
    Noauth { user_id: String, project_id: String, roles: String },
    /// `auth_type = gnocchi-basic`.
    Basic { user: String, password: String },
    /// A token, and the address in the catalogue where no endpoint is given.
    Keystone(Session),
}

/// Where the store is, and what bounds the publisher.
#[derive(Clone, Debug)]
pub struct GnocchiOptions {
    pub access: Access,
    /// Such as `http://127.0.0.1:8041`; `None`: what Keystone's catalogue calls `metric`.
    pub endpoint: Option<String>,
    /// Whose certificates are trusted at https://.
    pub trust: Trust,
    /// Who asks Keystone for the project that is filtered; `None`: nothing is filtered.
    pub identity: Option<Session>,
    /// Where files of definitions are looked for, first to last.
    pub config_dirs: Vec<PathBuf>,
    /// Whether missing types of resources are created at start, as `ceilometer-upgrade` does.
    pub create_resource_types: bool,
    pub limits: GnocchiLimits,
}

#[derive(Clone, Debug)]
pub struct GnocchiLimits {
    /// Measures of one request.
    pub batch_measures_max: usize,
    /// The size of one request's body, about.
    pub batch_bytes_max: usize,
    /// How long samples are gathered, at most, while others are under way.
    pub batch_timeout: Duration,
    /// Requests with measures under way at once.
    pub requests_max: usize,
    /// Resources created or changed at once.
    pub resource_requests_max: usize,
    /// Resources whose attributes are remembered; those beyond it are patched again when they are met again.
    pub resources_max: usize,
    /// After about this time a resource's attributes are sent again, in case that somebody else has changed them. Spread
    /// from half of it to one and a half.
    pub refresh_after: Duration,
}

impl Default for GnocchiLimits {
    fn default() -> Self {
        GnocchiLimits {
            batch_measures_max: 5_000,
            batch_bytes_max: 2 << 20,
            batch_timeout: Duration::from_millis(200),
            requests_max: 4,
            resource_requests_max: 16,
            resources_max: 100_000,
            refresh_after: Duration::from_hours(1),
        }
    }
}

/// Samples of this project are the store's own activity and are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterProject {
    pub project: String,
    pub domain: String,
}

/// What the URL of a pipeline says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GnocchiUrl {
    /// For all metrics, whatever the definitions say.
    pub archive_policy: Option<String>,
    pub filter: Option<FilterProject>,
    pub resources_definition_file: Option<String>,
    /// Of one request.
    pub timeout: Duration,
}

/// A request carries what many messages brought, and may have to create their metrics; Ceilometer's 6.05 s are for one.
const TIMEOUT: Duration = Duration::from_mins(1);

impl GnocchiUrl {
    /// Of an option that is given twice the last counts; options that nobody knows are ignored, as Ceilometer does.
    pub fn read(url: &PublisherUrl) -> Result<Self, GnocchiError> {
        let option = |name: &str| url.query.last(name).map(str::to_owned);
        let timeout = url.query.last("timeout").map(seconds).transpose()?;
        let is_filtering = url.query.last("enable_filter_project").is_none_or(is_true);
        Ok(GnocchiUrl {
            archive_policy: option("archive_policy"),
            filter: is_filtering.then(|| FilterProject {
                project: option("filter_project").unwrap_or_else(|| "service".to_owned()),
                domain: option("filter_domain").unwrap_or_else(|| "Default".to_owned()),
            }),
            resources_definition_file: option("resources_definition_file"),
            timeout: timeout.unwrap_or(TIMEOUT),
        })
    }
}

fn seconds(text: &str) -> Result<Duration, GnocchiError> {
    const TIMEOUT_MAX_S: f64 = 86_400.0;
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= TIMEOUT_MAX_S);
    let seconds =
        seconds.ok_or_else(|| GnocchiError::Url(format!("timeout: {text:?} is no number of seconds")))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// As oslo reads a truth value that is not strict: what is not one of these is false.
fn is_true(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "t" | "true" | "on" | "y" | "yes" | "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let read = |text: &str| GnocchiUrl::read(&PublisherUrl::parse(text).unwrap());
        let url = read("gnocchi://").unwrap();
        let service = FilterProject { project: "service".to_owned(), domain: "Default".to_owned() };
        assert_eq!((url.filter, url.archive_policy, url.timeout), (Some(service), None, TIMEOUT));
        let url = read(
            "gnocchi://host/?archive_policy=low&archive_policy=a%20b+c&filter_project=&timeout=6.05&x=1\
             &enable_filter_project=False&resources_definition_file=%2Fx.yaml",
        )
        .unwrap();
        assert_eq!(url.archive_policy.as_deref(), Some("a b c"));
        assert_eq!(url.resources_definition_file.as_deref(), Some("/x.yaml"));
        assert_eq!((url.filter, url.timeout.as_millis()), (None, 6050));
        assert!(read("gnocchi://?timeout=-1").is_err());
    }
}

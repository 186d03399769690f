//! Options of `gnocchi://?...`, and those of the configuration.

use std::{path::PathBuf, time::Duration};

use gnudi_http::{ClientIdentity, Trust};
use gnudi_keystone::Session;
use gnudi_model::{Secret, python::bool_of_text};

use super::{GnocchiError, Result};
use crate::{polling::cloud::Cloud, publishers::PublisherUrl};

/// Authentication with the store.
#[derive(Clone, Debug)]
pub enum StoreAccess {
    /// `auth_type = gnocchi-noauth`: headers that the store trusts.
    Noauth { user_id: String, project_id: String, roles: String },
    /// `auth_type = gnocchi-basic`.
    Basic { user: String, password: Secret },
    /// A token; the catalogue also gives the URL if no endpoint is configured.
    Keystone(Session),
}

/// The store, and the publisher's limits.
#[derive(Clone, Debug)]
pub struct GnocchiOptions {
    pub access: StoreAccess,
    /// For example `http://127.0.0.1:8041`; `None`: the service `metric` in Keystone's catalogue.
    pub endpoint: Option<String>,
    /// Trusted authorities for https://.
    pub trust: Trust,
    /// Client certificate for an https:// store that asks for one.
    pub identity: Option<ClientIdentity>,
    /// Where the filtered project is looked up; `None`: nothing is filtered.
    pub cloud: Option<Cloud>,
    /// Folders of definition files, in order of precedence.
    pub config_dirs: Vec<PathBuf>,
    /// Whether to create missing resource types at start, as `ceilometer-upgrade` does.
    pub create_resource_types: bool,
    pub limits: GnocchiLimits,
}

#[derive(Clone, Debug)]
pub struct GnocchiLimits {
    /// Measures per request.
    pub batch_measures_max: usize,
    /// Approximate bytes per request body.
    pub batch_bytes_max: usize,
    /// Maximum time to collect samples while other requests are in flight.
    pub batch_timeout: Duration,
    /// Concurrent requests with measures.
    pub requests_max: usize,
    /// Concurrent creations or patches of resources.
    pub resource_requests_max: usize,
    /// Cached resources; the attributes of evicted ones are patched again at their next sample.
    pub resources_max: usize,
    /// Interval after which a resource's attributes are sent again, in case somebody else has changed them. Spread from
    /// half of it to one and a half.
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

/// The project of the store itself, whose samples are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterProject {
    pub project: String,
    pub domain: String,
}

/// Options of a pipeline's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GnocchiUrl {
    /// For all metrics; overrides the definitions.
    pub archive_policy: Option<String>,
    pub filter: Option<FilterProject>,
    pub resources_definition_file: Option<String>,
    /// Timeout of one request.
    pub timeout: Duration,
}

/// Longer than Ceilometer's 6.05 s: a request carries many messages, and the store may have to create their metrics.
const TIMEOUT: Duration = Duration::from_mins(1);

impl GnocchiUrl {
    /// Parses the options. The last of a repeated option counts; unknown options are ignored, as in Ceilometer.
    pub fn read(url: &PublisherUrl) -> Result<Self> {
        let option = |name: &str| url.query.last(name).map(str::to_owned);
        let timeout = url.query.last("timeout").map(seconds).transpose()?;
        let is_filtering =
            url.query.last("enable_filter_project").is_none_or(|text| bool_of_text(text) == Some(true));
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

fn seconds(text: &str) -> Result<Duration> {
    const TIMEOUT_MAX_S: f64 = 86_400.0;
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= TIMEOUT_MAX_S);
    let seconds =
        seconds.ok_or_else(|| GnocchiError::Url(format!("timeout: {text:?} is no number of seconds")))?;
    Ok(Duration::from_secs_f64(seconds))
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

//! What of the configuration concerns all APIs, and Gnocchi's.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use gnudi_access::{AuthMode, Policy, QuotaOptions};
use gnudi_model::{AggregationMethod, ArchivePolicy};
use gnudi_server::{CorsOptions, HttpLimits};

use crate::limits::Limits;

/// The API's options, by the names of `gnocchi.conf`.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// `[api] max_limit`: items of a listing's page, at most and by default.
    pub max_limit: usize,
    /// `[api] operation_timeout`: how long `refresh` may take.
    pub operation_timeout: Duration,
    /// `[api] auth_mode`.
    pub auth_mode: AuthMode,
    /// `[oslo_policy]`: who may do what.
    pub policy: Arc<Policy>,
    /// `[api] enable_proxy_headers_parsing`.
    pub enable_proxy_headers_parsing: bool,
    /// The path under which everything is served: empty, or a slash and a name without a slash at its end.
    pub path_prefix: String,
    /// Whether the API shows figures at `/metrics`; false where they have an address of their own (`[api] metrics_listen`).
    pub shows_figures: bool,
    /// `[archive_policy] default_aggregation_methods`.
    pub default_aggregation_methods: BTreeSet<AggregationMethod>,
    /// `[api] empty_answers`: whether aggregates over nothing are empty, in place of 404 and 400, where a request does not say.
    pub empty_answers: bool,
    /// `[cors]`.
    pub cors: CorsOptions,
    /// Of HTTP as such.
    pub http_limits: HttpLimits,
    pub limits: Limits,
    /// Limits per project.
    pub quotas: QuotaOptions,
    /// This program, in which symbols are looked up for a profile, in a process of its own; without it names are
    /// looked up within this process, which keeps the memory.
    pub symbols_program: Option<PathBuf>,
    /// Gives back what the calling thread has freed: called after a profile, which takes much once.
    pub release_memory: fn(),
}

impl Default for ApiOptions {
    fn default() -> Self {
        ApiOptions {
            max_limit: 1000,
            operation_timeout: Duration::from_secs(10),
            auth_mode: AuthMode::default(),
            policy: Arc::default(),
            enable_proxy_headers_parsing: false,
            path_prefix: String::new(),
            shows_figures: true,
            default_aggregation_methods: ArchivePolicy::default_methods(),
            empty_answers: false,
            cors: CorsOptions::default(),
            http_limits: HttpLimits::default(),
            limits: Limits::default(),
            quotas: QuotaOptions::default(),
            symbols_program: None,
            release_memory: || {},
        }
    }
}

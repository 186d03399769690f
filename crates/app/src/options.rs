//! Configuration of all APIs.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use gnudi_access::{AuthMode, Policy, QuotaOptions};
use gnudi_model::{AggregationMethod, ArchivePolicy};
use gnudi_server::{CorsOptions, HttpLimits};

use crate::limits::Limits;

/// The API's options, by the names of `gnocchi.conf`.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// `[api] max_limit`: the default and maximum page size of a listing.
    pub max_limit: usize,
    /// `[api] operation_timeout`: the timeout of `refresh`.
    pub operation_timeout: Duration,
    /// `[api] auth_mode`.
    pub auth_mode: AuthMode,
    /// `[oslo_policy]`: access rules.
    pub policy: Arc<Policy>,
    /// `[api] enable_proxy_headers_parsing`.
    pub enable_proxy_headers_parsing: bool,
    /// The path prefix of all routes: empty, or starting with a slash and without a trailing one.
    pub path_prefix: String,
    /// Whether this API serves `/metrics`; false if metrics have their own address (`[api] metrics_listen`).
    pub shows_figures: bool,
    /// `[archive_policy] default_aggregation_methods`.
    pub default_aggregation_methods: BTreeSet<AggregationMethod>,
    /// `[api] empty_answers`: the request's default: aggregates over nothing are empty instead of 404 or 400.
    pub empty_answers: bool,
    /// `[cors]`.
    pub cors: CorsOptions,
    /// Limits of the HTTP layer.
    pub http_limits: HttpLimits,
    pub limits: Limits,
    /// Limits per project.
    pub quotas: QuotaOptions,
    /// The program that a separate process runs to look up a profile's symbols. Without it this process looks
    /// them up, and keeps the memory that takes.
    pub symbols_program: Option<PathBuf>,
    /// Returns memory freed by the calling thread to the system; called after a profile, which allocates a
    /// lot once.
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

//! A request as its handler gets it: who calls, what the path names, and the questions to the policy, which are recorded.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use gnudi_access::{Caller, Rule, Target};
use gnudi_drivers::incoming::Batch;
use gnudi_engine::Measured;
use gnudi_indexer::{Filter, IndexerError, MetricScope};
use gnudi_model::{
    ArchivePolicy, Metric, MetricId, ResourceType, Timestamp, python::unquote, resource_type::GENERIC,
};
use hyper::http::request::Parts;
use uuid::Uuid;

use crate::{app::App, error::ApiError, links::Links, query::Query};

/// A request that has passed its guard.
pub struct Call<'a> {
    pub app: &'a App,
    pub parts: &'a Parts,
    /// Who calls; nobody on an open route.
    pub caller: Caller,
    route: &'static str,
    parameters: &'a [String],
    pub(crate) named: Named,
    /// How many metrics' series the request reads together.
    metrics_read: AtomicU64,
    /// The rules that the policy was asked for, as bits by their numbers.
    rules_asked: AtomicU64,
}

const _: () = assert!(Rule::ALL.len() <= u64::BITS as usize);

/// What a request's path names.
#[derive(Default)]
pub(crate) struct Named {
    pub metric: Option<Arc<Metric>>,
    pub resource_type: Option<Arc<ResourceType>>,
    pub resource_id: Option<Uuid>,
}

impl<'a> Call<'a> {
    /// A call whose path has not been looked up yet. `route` is the route's path, whose parameters have these values.
    pub(crate) fn new(
        app: &'a App,
        parts: &'a Parts,
        caller: Caller,
        route: &'static str,
        parameters: &'a [String],
    ) -> Self {
        let (named, metrics_read, rules_asked) = Default::default();
        Call { app, parts, caller, route, parameters, named, metrics_read, rules_asked }
    }
}

impl Call<'_> {
    /// The value of a parameter of the path, decoded.
    pub fn parameter(&self, name: &str) -> &str {
        self.optional_parameter(name).expect("the route has this parameter")
    }

    /// The value of a parameter that not all routes of the handler have.
    pub fn optional_parameter(&self, name: &str) -> Option<&str> {
        let mut names = self.route.split('/').filter_map(|segment| segment.strip_prefix(':'));
        names.position(|parameter| parameter == name).map(|position| self.parameters[position].as_str())
    }

    /// The metric that the path names.
    pub fn metric(&self) -> &Arc<Metric> {
        self.named.metric.as_ref().expect("the route looks a metric up")
    }

    /// The resource type that the path names.
    pub fn resource_type(&self) -> &Arc<ResourceType> {
        self.named.resource_type.as_ref().expect("the route looks a resource type up")
    }

    /// The id of the resource that the path names, whether or not there is one.
    pub fn resource_id(&self) -> Uuid {
        self.named.resource_id.expect("the route reads a resource's id")
    }

    /// An archive policy by its name.
    ///
    /// # Errors
    /// 404 where there is none.
    pub async fn policy_of(&self, name: &str) -> Result<Arc<ArchivePolicy>, ApiError> {
        let indexer = self.app.engine().indexer();
        if let Some(policy) = indexer.cached_policy(name) {
            return Ok(policy);
        }
        let policy = indexer.archive_policy(name).await?;
        policy.ok_or_else(|| IndexerError::NoSuchArchivePolicy(name.to_owned()).into())
    }

    /// The address that was asked, without the arguments.
    pub fn url(&self) -> String {
        let path = self.parts.uri.path();
        let path = path.strip_prefix(&self.app.options().path_prefix).unwrap_or(path);
        self.links().to(&String::from_utf8_lossy(&unquote(path)))
    }

    pub fn query(&self) -> Query {
        Query::parse(self.parts.uri.query())
    }

    pub fn links(&self) -> Links {
        let options = self.app.options();
        Links::of(self.parts, &options.path_prefix, options.enable_proxy_headers_parsing)
    }

    /// The time in milliseconds, as Prometheus counts it.
    pub fn now_ms(&self) -> i64 {
        self.app.now().0.div_euclid(1_000_000)
    }

    /// Appends the caller's measures to the log of measures. They are durable once this returns.
    pub async fn append(&self, batch: Batch) -> Result<(), ApiError> {
        self.app.append(&self.caller, batch).await
    }

    /// Refuses (429) so many new metrics where the caller's project would have too many.
    pub async fn admit_metrics(&self, new: usize) -> Result<(), ApiError> {
        let (app, quotas) = (self.app, &self.app.options().quotas);
        let indexer = app.engine().indexer();
        Ok(app.quotas.admit_metrics(quotas, &self.caller, app.now(), new as u64, indexer).await?)
    }

    /// Records that the request reads so many metrics' series, which is a part of its cost.
    pub fn reads_metrics(&self, count: usize) {
        self.metrics_read.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// How many metrics' series it has read.
    pub(crate) fn metrics_read(&self) -> u64 {
        self.metrics_read.load(Ordering::Relaxed)
    }

    /// Whether the policy was asked for one of these rules.
    pub(crate) fn has_asked(&self, rules: &[Rule]) -> bool {
        let asked = self.rules_asked.load(Ordering::Relaxed);
        rules.iter().any(|rule| asked & bit(*rule) != 0)
    }

    /// Records that the request has nothing of which the rule could be asked.
    pub fn has_no_items(&self, rule: Rule) {
        self.record(rule);
    }

    fn record(&self, rule: Rule) {
        self.rules_asked.fetch_or(bit(rule), Ordering::Relaxed);
    }

    /// Now, as resources know times: whole microseconds.
    pub fn resource_now(&self) -> Timestamp {
        let now = self.app.now();
        Timestamp(now.0 - now.0.rem_euclid(1_000))
    }

    /// An id for a metric that is made now.
    pub fn new_metric_id(&self) -> MetricId {
        MetricId::new(self.app.now(), Uuid::new_v4().as_u128())
    }

    /// The archive policy that the archive policy rules give to a metric of this name.
    ///
    /// # Errors
    /// 400 where no rule matches.
    pub async fn archive_policy_for(&self, name: Option<&str>) -> Result<String, ApiError> {
        let found = self.app.engine().indexer().archive_policy_name_for_metric(name.unwrap_or("")).await;
        found.map_err(|error| match error {
            IndexerError::NoArchivePolicyRuleMatch(_) => ApiError::bad_request(format!(
                "No archive policy name specified and no archive policy rule found matching the metric name {}",
                name.unwrap_or("None")
            )),
            other => other.into(),
        })
    }

    /// Whether the caller may do what the rule names.
    pub fn allows(&self, rule: Rule, target: Target<'_>) -> bool {
        self.allows_caller(rule, &self.caller, target)
    }

    fn allows_caller(&self, rule: Rule, caller: &Caller, target: Target<'_>) -> bool {
        self.record(rule);
        self.app.options().policy.allows(rule, caller, target)
    }

    /// Refuses (403) a caller who may not do what the rule names.
    pub fn enforce(&self, rule: Rule, target: Target<'_>) -> Result<(), ApiError> {
        if self.allows(rule, target) { Ok(()) } else { Err(ApiError::forbidden_by(rule)) }
    }

    /// [`Call::enforce`] on a route whose caller the handler finds out.
    pub fn enforce_for(&self, rule: Rule, caller: &Caller, target: Target<'_>) -> Result<(), ApiError> {
        if self.allows_caller(rule, caller, target) { Ok(()) } else { Err(ApiError::forbidden_by(rule)) }
    }

    /// [`Call::enforce`] for each of some metrics, which may be none. What their resources are opens nothing, as in Gnocchi; where an operator's
    /// rule may refuse one for it, it is looked up.
    pub async fn enforce_all<'m>(
        &self,
        rule: Rule,
        metrics: impl IntoIterator<Item = &'m Arc<Metric>>,
    ) -> Result<(), ApiError> {
        self.record(rule);
        for metric in metrics {
            self.enforce(rule, Target::Metric(metric, None))?;
            if self.may_be_refused_for_resource(rule) {
                self.enforce_with_resource(rule, metric).await?;
            }
        }
        Ok(())
    }

    /// Whether what a metric's resource is may turn a yes into a no: never with Gnocchi's rules.
    pub fn may_be_refused_for_resource(&self, rule: Rule) -> bool {
        self.app.options().policy.depends_on_resource(rule, true)
    }

    /// [`Call::enforce`] for a metric, whose resource is looked up where it may matter.
    pub async fn enforce_with_resource(&self, rule: Rule, metric: &Metric) -> Result<(), ApiError> {
        let allowed = self.allows(rule, Target::Metric(metric, None));
        if !self.app.options().policy.depends_on_resource(rule, allowed) {
            return if allowed { Ok(()) } else { Err(ApiError::forbidden_by(rule)) };
        }
        let resource = match metric.resource_id {
            Some(id) => self.app.engine().indexer().resource(GENERIC, id).await?,
            None => None,
        };
        self.enforce(rule, Target::Metric(metric, resource.as_deref()))
    }

    /// The filter that takes what of the resources of a type the caller sees, and of those what another one takes.
    ///
    /// # Errors
    /// 403 where the caller sees none.
    pub fn seen(
        &self,
        rule: Rule,
        resource_type: &str,
        filter: Option<Filter>,
    ) -> Result<Option<Filter>, ApiError> {
        self.record(rule);
        let seen = self.app.options().policy.resources_seen(rule, &self.caller, resource_type);
        match seen.map_err(|_| ApiError::insufficient_privileges(rule))? {
            Some(scope) => Ok(Some(scope.narrow(filter))),
            None => Ok(filter),
        }
    }

    /// For which of the metrics the caller passes the rule; `None` for all.
    ///
    /// # Errors
    /// 403 where it is none.
    pub fn metrics_allowed(&self, rule: Rule) -> Result<Option<MetricScope>, ApiError> {
        self.record(rule);
        let allowed = self.app.options().policy.metrics_allowed(rule, &self.caller);
        allowed.map_err(|_| ApiError::insufficient_privileges(rule))
    }

    /// What of the metrics the caller sees; `None` for all.
    ///
    /// # Errors
    /// 403 where it is nothing.
    pub fn metrics_seen(&self, rule: Rule) -> Result<Option<MetricScope>, ApiError> {
        self.record(rule);
        let seen = self.app.options().policy.metrics_seen(rule, &self.caller);
        seen.map_err(|_| ApiError::insufficient_privileges(rule))
    }

    /// When the metrics were measured last, and what was dropped of them.
    pub async fn measured(&self, metrics: &[MetricId]) -> Result<Vec<Measured>, ApiError> {
        self.reads_metrics(metrics.len());
        Ok(self.app.engine().measured(metrics).await?)
    }

    /// Refuses (403) a caller who may list metrics whose measures are not to be read.
    pub fn reads_what_it_lists(&self) -> Result<(), ApiError> {
        let read = self.metrics_seen(Rule::GetMeasures)?;
        if read.is_none() || read == self.metrics_seen(Rule::ListMetric)? {
            return Ok(());
        }
        Err(ApiError::insufficient_privileges(Rule::GetMeasures))
    }
}

fn bit(rule: Rule) -> u64 {
    1 << rule as u32
}

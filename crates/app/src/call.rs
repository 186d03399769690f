//! A request as its handler gets it: caller, path parameters and policy checks. The checks are recorded.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use gnudi_access::{Caller, MetricsAdmission, Rule, Target};
use gnudi_drivers::incoming::Batch;
use gnudi_engine::{Measured, Project};
use gnudi_indexer::{
    Filter, Indexer, IndexerError, MetricScope, NewMetric, NewResource, ResourceChange, UpdatedResource,
    outcome_of,
};
use gnudi_model::{
    ArchivePolicy, Metric, MetricId, Resource, ResourceType, Timestamp, python::unquote,
    resource_type::GENERIC,
};
use hyper::http::request::Parts;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    answer_budget::AnswerBudget,
    app::App,
    error::{ApiError, Result},
    links::Links,
    query::Query,
};

/// A request that has passed its guard.
pub struct Call<'a> {
    pub app: &'a App,
    pub parts: &'a Parts,
    /// The caller; the default one on an open route.
    pub caller: Caller,
    route: &'static str,
    parameters: &'a [String],
    pub(crate) named: Named,
    /// How many metrics' series the request reads.
    metrics_read: AtomicU64,
    /// The rules that were checked, as a bit set.
    rules_checked: AtomicU64,
    /// The new metrics that were admitted and are not created yet.
    admissions: Arc<Mutex<Vec<MetricsAdmission>>>,
}

const _: () = assert!(Rule::ALL.len() <= u64::BITS as usize);

/// What the path refers to.
#[derive(Default)]
pub(crate) struct Named {
    pub metric: Option<Arc<Metric>>,
    pub resource_type: Option<Arc<ResourceType>>,
    pub resource_id: Option<Uuid>,
}

impl<'a> Call<'a> {
    /// A call before its path is looked up. `route` is the route's path, `parameters` the values of its
    /// parameters.
    pub(crate) fn new(
        app: &'a App,
        parts: &'a Parts,
        caller: Caller,
        route: &'static str,
        parameters: &'a [String],
    ) -> Self {
        let (named, metrics_read, rules_checked, admissions) = Default::default();
        Call { app, parts, caller, route, parameters, named, metrics_read, rules_checked, admissions }
    }
}

impl Call<'_> {
    /// The decoded value of a path parameter.
    pub fn parameter(&self, name: &str) -> &str {
        self.optional_parameter(name).expect("the route has this parameter")
    }

    /// The value of a path parameter that only some of the handler's routes have.
    pub fn optional_parameter(&self, name: &str) -> Option<&str> {
        let mut names = self.route.split('/').filter_map(|segment| segment.strip_prefix(':'));
        names.position(|parameter| parameter == name).map(|position| self.parameters[position].as_str())
    }

    /// The metric in the path.
    pub fn metric(&self) -> &Arc<Metric> {
        self.named.metric.as_ref().expect("the route looks a metric up")
    }

    /// The resource type in the path.
    pub fn resource_type(&self) -> &Arc<ResourceType> {
        self.named.resource_type.as_ref().expect("the route looks a resource type up")
    }

    /// The id of the resource in the path; the resource may not exist.
    pub fn resource_id(&self) -> Uuid {
        self.named.resource_id.expect("the route reads a resource's id")
    }

    /// Looks up an archive policy by name.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub async fn policy_of(&self, name: &str) -> Result<Arc<ArchivePolicy>> {
        let indexer = self.indexer();
        if let Some(policy) = indexer.cached_policy(name) {
            return Ok(policy);
        }
        let policy = indexer.archive_policy(name).await?;
        policy.ok_or_else(|| IndexerError::NoSuchArchivePolicy(name.to_owned()).into())
    }

    /// The request's URL without the query string.
    pub fn url(&self) -> String {
        let path = self.parts.uri.path();
        let path = path.strip_prefix(&self.app.options().path_prefix).unwrap_or(path);
        self.links().to(&String::from_utf8_lossy(&unquote(path)))
    }

    pub fn query(&self) -> Query {
        Query::of_url(self.parts.uri.query())
    }

    pub fn links(&self) -> Links {
        let options = self.app.options();
        Links::of(self.parts, &options.path_prefix, options.enable_proxy_headers_parsing)
    }

    /// The current time in milliseconds, Prometheus' unit.
    pub fn now_ms(&self) -> i64 {
        self.app.now().0.div_euclid(1_000_000)
    }

    /// Appends the caller's measures to the log. They are durable once this returns.
    pub async fn append(&self, batch: Batch) -> Result<()> {
        self.app.append(&self.caller, batch).await
    }

    /// The budget of the responses to the caller's project.
    pub fn answers(&self) -> AnswerBudget {
        self.app.answers.of_project(Project::named(self.caller.project()))
    }

    /// Refuses (429) new metrics that would exceed the quota of the caller's project. What is admitted counts until
    /// [`Call::metrics_are_created`] or the end of the request.
    pub async fn admit_metrics(&self, new: usize) -> Result<()> {
        let (app, quotas) = (self.app, &self.app.options().quotas);
        let indexer = app.engine().indexer();
        let admitted = app.quotas.admit_metrics(quotas, &self.caller, app.now(), new as u64, indexer).await?;
        self.admissions.lock().extend(admitted);
        Ok(())
    }

    /// Creates admitted metrics.
    pub async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>, IndexerError>> {
        let engine = self.app.shared_engine();
        self.to_its_end(async move { engine.indexer().create_metrics(metrics).await }).await
    }

    /// Creates resources with their admitted metrics.
    pub async fn create_resources(
        &self,
        resources: Vec<NewResource>,
    ) -> Vec<Result<Arc<Resource>, IndexerError>> {
        let engine = self.app.shared_engine();
        self.to_its_end(async move { engine.indexer().create_resources(resources).await }).await
    }

    /// Changes a resource, which may get admitted metrics.
    pub async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError> {
        let (engine, resource_type) = (self.app.shared_engine(), resource_type.to_owned());
        let write = async move { engine.indexer().update_resource(&resource_type, id, change).await };
        self.to_its_end(write).await
    }

    /// Runs a write that creates admitted metrics. The index executes it even if the client is gone, and they count until
    /// then: a count of the index may be too low by them.
    async fn to_its_end<T: Send + 'static>(&self, write: impl Future<Output = T> + Send + 'static) -> T {
        let is_unlimited = self.admissions.lock().is_empty();
        if is_unlimited {
            return write.await;
        }
        let admissions = self.admissions.clone();
        let task = tokio::spawn(async move {
            let done = write.await;
            drop(admissions);
            done
        });
        outcome_of(task).await
    }

    /// Ends the admission of new metrics once they are created: from then on the index counts them. `lost` were not
    /// created after all, such as those that other requests have created first.
    pub fn metrics_are_created(&self, lost: usize) {
        let mut lost = lost as u64;
        let admissions = std::mem::take(&mut *self.admissions.lock());
        for mut admission in admissions {
            lost -= admission.take_back(lost);
        }
    }

    /// [`Call::metrics_are_created`] for metrics that are created together or not at all.
    pub fn metrics_are_settled<T>(&self, made: &Result<T, IndexerError>) {
        self.metrics_are_created(if may_be_made(made) { 0 } else { usize::MAX });
    }

    /// Records that the request reads this many metrics' series; they are part of its cost.
    pub fn reads_metrics(&self, count: usize) {
        self.metrics_read.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// How many metrics' series the request has read.
    pub(crate) fn metrics_read(&self) -> u64 {
        self.metrics_read.load(Ordering::Relaxed)
    }

    /// Whether any of these rules was checked.
    pub(crate) fn has_checked(&self, rules: &[Rule]) -> bool {
        let checked = self.rules_checked.load(Ordering::Relaxed);
        rules.iter().any(|rule| checked & bit(*rule) != 0)
    }

    /// Marks the rule as checked when there are no items to check it on.
    pub fn has_no_items(&self, rule: Rule) {
        self.record(rule);
    }

    fn record(&self, rule: Rule) {
        self.rules_checked.fetch_or(bit(rule), Ordering::Relaxed);
    }

    /// The current time in whole microseconds, the precision of resources.
    pub fn resource_now(&self) -> Timestamp {
        let now = self.app.now();
        Timestamp(now.0 - now.0.rem_euclid(1_000))
    }

    pub fn indexer(&self) -> &dyn Indexer {
        self.app.engine().indexer()
    }

    /// An id for a new metric.
    pub fn new_metric_id(&self) -> MetricId {
        MetricId::new(self.app.now(), Uuid::new_v4().as_u128())
    }

    /// The archive policy that the archive policy rules choose for a metric of this name.
    ///
    /// # Errors
    /// 400 if no rule matches.
    pub async fn archive_policy_for(&self, name: Option<&str>) -> Result<String> {
        let found = self.indexer().archive_policy_name_for_metric(name.unwrap_or("")).await;
        found.map_err(|error| no_policy(error, name))
    }

    /// Whether the rule allows the caller.
    pub fn allows(&self, rule: Rule, target: Target<'_>) -> bool {
        self.allows_caller(rule, &self.caller, target)
    }

    fn allows_caller(&self, rule: Rule, caller: &Caller, target: Target<'_>) -> bool {
        self.record(rule);
        self.app.options().policy.allows(rule, caller, target)
    }

    /// Refuses (403) a caller whom the rule does not allow.
    pub fn enforce(&self, rule: Rule, target: Target<'_>) -> Result<()> {
        if self.allows(rule, target) { Ok(()) } else { Err(ApiError::forbidden_by(rule)) }
    }

    /// [`Call::enforce`] on a route whose handler authenticates the caller.
    pub fn enforce_for(&self, rule: Rule, caller: &Caller, target: Target<'_>) -> Result<()> {
        if self.allows_caller(rule, caller, target) { Ok(()) } else { Err(ApiError::forbidden_by(rule)) }
    }

    /// [`Call::enforce`] for each metric; there may be none. As in Gnocchi, a metric's resource never grants
    /// access. It is looked up only if an operator's rule may deny access because of it.
    pub async fn enforce_all<'m>(
        &self,
        rule: Rule,
        metrics: impl IntoIterator<Item = &'m Arc<Metric>>,
    ) -> Result<()> {
        self.record(rule);
        for metric in metrics {
            self.enforce(rule, Target::Metric(metric, None))?;
            if self.may_be_refused_for_resource(rule) {
                self.enforce_with_resource(rule, metric).await?;
            }
        }
        Ok(())
    }

    /// Whether the rule may deny access because of the metric's resource: never with Gnocchi's rules.
    pub fn may_be_refused_for_resource(&self, rule: Rule) -> bool {
        self.app.options().policy.depends_on_resource(rule, true)
    }

    /// [`Call::enforce`] for a metric; looks its resource up if the decision depends on it.
    pub async fn enforce_with_resource(&self, rule: Rule, metric: &Metric) -> Result<()> {
        let allowed = self.allows(rule, Target::Metric(metric, None));
        if !self.app.options().policy.depends_on_resource(rule, allowed) {
            return if allowed { Ok(()) } else { Err(ApiError::forbidden_by(rule)) };
        }
        let resource = match metric.resource_id {
            Some(id) => self.indexer().resource(GENERIC, id).await?,
            None => None,
        };
        self.enforce(rule, Target::Metric(metric, resource.as_deref()))
    }

    /// Restricts a filter to the resources of a type that the caller may see.
    ///
    /// # Errors
    /// 403 if the caller may see none.
    pub fn seen(&self, rule: Rule, resource_type: &str, filter: Option<Filter>) -> Result<Option<Filter>> {
        self.record(rule);
        let seen = self.app.options().policy.resources_seen(rule, &self.caller, resource_type);
        match seen.map_err(|_| ApiError::insufficient_privileges(rule))? {
            Some(scope) => Ok(Some(scope.narrow(filter))),
            None => Ok(filter),
        }
    }

    /// The metrics for which the rule allows the caller; `None` for all.
    ///
    /// # Errors
    /// 403 if there are none.
    pub fn metrics_allowed(&self, rule: Rule) -> Result<Option<MetricScope>> {
        self.record(rule);
        let allowed = self.app.options().policy.metrics_allowed(rule, &self.caller);
        allowed.map_err(|_| ApiError::insufficient_privileges(rule))
    }

    /// The metrics that the caller may see; `None` for all.
    ///
    /// # Errors
    /// 403 if there are none.
    pub fn metrics_seen(&self, rule: Rule) -> Result<Option<MetricScope>> {
        self.record(rule);
        let seen = self.app.options().policy.metrics_seen(rule, &self.caller);
        seen.map_err(|_| ApiError::insufficient_privileges(rule))
    }

    /// Each metric's last measure and its count of dropped points.
    pub async fn measured(&self, metrics: &[MetricId]) -> Result<Vec<Measured>> {
        self.reads_metrics(metrics.len());
        Ok(self.app.engine().measured(metrics).await?)
    }

    /// Refuses (403) a caller who may list metrics but not read the measures of all of them.
    pub fn reads_what_it_lists(&self) -> Result<()> {
        let read = self.metrics_seen(Rule::GetMeasures)?;
        if read.is_none() || read == self.metrics_seen(Rule::ListMetric)? {
            return Ok(());
        }
        Err(ApiError::insufficient_privileges(Rule::GetMeasures))
    }
}

/// Whether metrics are in the index, or may be there: a write without an answer may have been executed. They count until
/// they are counted again.
pub fn may_be_made<T>(made: &Result<T, IndexerError>) -> bool {
    matches!(made, Ok(_) | Err(IndexerError::Unavailable(_) | IndexerError::Database(_)))
}

/// The error for a metric for which the archive policy rules choose no policy.
pub(crate) fn no_policy(error: IndexerError, metric_name: Option<&str>) -> ApiError {
    match error {
        IndexerError::NoArchivePolicyRuleMatch(_) => ApiError::bad_request(format!(
            "No archive policy name specified and no archive policy rule found matching the metric name {}",
            metric_name.unwrap_or("None")
        )),
        other => other.into(),
    }
}

fn bit(rule: Rule) -> u64 {
    1 << rule as u32
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use futures_util::FutureExt as _;
    use gnudi_access::{ProjectLimits, QuotaOptions};
    use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
    use gnudi_engine::Engine;
    use gnudi_indexer::memory::MemoryIndexer;
    use gnudi_model::SackCount;
    use hyper::Request;
    use prometheus_client::registry::Registry;
    use tokio::{sync::oneshot, task::yield_now};

    use super::*;
    use crate::ApiOptions;

    /// Each call is later: whatever was counted is too old.
    fn clock() -> Timestamp {
        static SECONDS: AtomicI64 = AtomicI64::new(0);
        Timestamp::from_secs(SECONDS.fetch_add(100, Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_creation_whose_client_is_gone_counts_until_its_end() {
        let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, 1 << 20));
        let store = Arc::new(MemoryAggregates::default());
        let engine = Engine::new(Arc::new(MemoryIndexer::default()), incoming, store, clock);
        let limits = ProjectLimits { metrics_max: Some(1), ..ProjectLimits::default() };
        let quotas = QuotaOptions { limits, ..QuotaOptions::default() };
        let options = ApiOptions { quotas, ..ApiOptions::default() };
        let app = App::new(Arc::new(engine), options, Registry::default(), clock, Vec::new());
        let (parts, ()) = Request::new(()).into_parts();
        let caller = Caller { user: "a".to_owned(), ..Caller::default() };
        let call = || Call::new(&app, &parts, caller.clone(), "", &[]);

        let gone = call();
        gone.admit_metrics(1).await.unwrap();
        let (release, released) = oneshot::channel::<()>();
        assert!(gone.to_its_end(released).now_or_never().is_none());
        drop(gone);
        assert_eq!(call().admit_metrics(1).await.unwrap_err().status.as_u16(), 429);
        // It creates nothing.
        release.send(()).unwrap();
        while call().admit_metrics(1).await.is_err() {
            yield_now().await;
        }
    }
}

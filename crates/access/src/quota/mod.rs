//! Limits per project: metrics, measures per second, and cost of requests per second. There are none by
//! default.
//!
//! Rates are limited per process by token buckets ([`bucket`]), with the clock as an argument. The number of
//! metrics comes from the index and is cached, so posting measures does not query the index. The project is
//! that of the caller's token, or the caller's name.
//!
//! Guarantees of one process, whatever runs at the same time: a project never has more metrics than its
//! limit, plus those that other processes create within the age of a count, or that the index was still writing
//! during a count though it had not answered in time ([`creating`]); over any time, no
//! more requests and measures are admitted than the burst, the refill and the last request. What a request
//! reads and answers is known at its end only: requests in progress may bring the project into debt, for which
//! later ones wait.
//!
//! A count may be too high: metrics that are created during the count may be counted twice, in the index and as
//! admitted. If that may be why new metrics do not fit, they are counted again, a few times, after a pause.

mod bucket;
mod creating;
mod figures;
mod file;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use gnudi_indexer::{Creators, Indexer, IndexerError};
use gnudi_model::Timestamp;
use parking_lot::Mutex;
use tokio::time::sleep;

use bucket::Bucket;
use creating::CreatingProjects;
pub use creating::MetricsAdmission;
pub use figures::QuotaFigures;
pub use file::Overrides;

use crate::{error::AccessError, policy::Caller};

/// How many projects have their own usage; further ones share one.
const PROJECTS_MAX: usize = 10_000;
/// How long a count of metrics is cached. New metrics of this process are added to it.
const COUNT_AGE_MAX: Duration = Duration::from_secs(30);
/// How long a cached count may refuse requests; the project may have deleted metrics since.
const COUNT_AGE_MAX_REFUSED: Duration = Duration::from_secs(1);
/// How often metrics are counted for a request, and the pause between two counts.
const COUNTS_MAX: u32 = 4;
const COUNT_PAUSE: Duration = Duration::from_millis(50);
/// `Retry-After` when a project has too many metrics.
const METRICS_RETRY_AFTER_SECONDS: u64 = 30;
/// The cost of a request, and how many metrics and bytes add one more.
const REQUEST_COST: f64 = 1.0;
const METRICS_PER_COST: f64 = 100.0;
const BYTES_PER_COST: f64 = 65_536.0;

/// Limits of a project; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectLimits {
    /// `[api] project_metrics_max`: active metrics that the project has created.
    pub metrics_max: Option<u64>,
    /// `[api] project_measures_per_second`.
    pub measures_per_second: Option<u64>,
    /// `[api] project_request_cost_per_second`: a request costs 1, plus 1 per 100 metrics read and 1 per 64
    /// KiB of response.
    pub request_cost_per_second: Option<u64>,
}

/// The limits of all projects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaOptions {
    pub limits: ProjectLimits,
    /// Per-project limits, which replace the general ones.
    pub projects: HashMap<String, ProjectLimits>,
    /// `[api] project_figures`: whether to count usage for `/metrics` even without limits.
    pub figures: bool,
}

impl QuotaOptions {
    /// Whether usage is counted at all.
    pub fn counts(&self) -> bool {
        self.figures || self.limits != ProjectLimits::default() || !self.projects.is_empty()
    }

    fn of(&self, project: &str) -> ProjectLimits {
        self.projects.get(project).copied().unwrap_or(self.limits)
    }
}

/// The usage of all projects.
#[derive(Debug, Default)]
pub struct Quotas {
    projects: Mutex<HashMap<String, Usage>>,
    /// When idle projects were last dropped. Written while `projects` is locked.
    swept_at: AtomicI64,
    /// Locked after `projects`.
    creating: CreatingProjects,
    /// How many counts of metrics have begun.
    counts: AtomicU64,
}

/// The usage of a project.
#[derive(Clone, Debug, Default)]
struct Usage {
    measures: Option<Bucket>,
    cost: Option<Bucket>,
    metrics: Option<Count>,
    /// Since the process started.
    totals: Totals,
    used_at: Timestamp,
}

/// The number of a project's metrics.
#[derive(Clone, Copy, Debug)]
struct Count {
    metrics: u64,
    /// Of these, at most so many were counted twice.
    twice_max: u64,
    at: Timestamp,
    /// Of all counts, in the order in which they began.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    requests: u64,
    cost: f64,
    measures: u64,
    refused: [u64; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Metrics,
    Measures,
    Cost,
}

impl Limit {
    const ALL: [Limit; 3] = [Limit::Metrics, Limit::Measures, Limit::Cost];

    const fn name(self) -> &'static str {
        match self {
            Limit::Metrics => "metrics",
            Limit::Measures => "measures",
            Limit::Cost => "request_cost",
        }
    }
}

/// The key of the shared usage.
const OTHERS: &str = "";

impl Quotas {
    fn with<T>(&self, project: &str, now: Timestamp, work: impl FnOnce(&mut Usage) -> T) -> T {
        let mut projects = self.projects.lock();
        if !projects.contains_key(project) {
            if projects.len() >= PROJECTS_MAX && self.may_sweep(now) {
                // The buckets of idle projects are full again, so nothing is lost.
                // Also those that were used before the clock was set back.
                let is_quiet = |usage: &Usage| Duration::from_nanos(now.0.abs_diff(usage.used_at.0)) > QUIET;
                projects.retain(|name, usage| name == OTHERS || !is_quiet(usage));
            }
            let name = if projects.len() < PROJECTS_MAX { project } else { OTHERS };
            let usage = projects.entry(name.to_owned()).or_default();
            usage.used_at = now;
            if name == OTHERS {
                // Of another project, which may have more metrics or fewer.
                usage.metrics = None;
            }
            return work(usage);
        }
        let usage = projects.get_mut(project).expect("was looked up");
        usage.used_at = now;
        work(usage)
    }

    /// Whether it is time to look for idle projects again: that visits all projects.
    fn may_sweep(&self, now: Timestamp) -> bool {
        let swept_at = self.swept_at.load(Ordering::Relaxed);
        let may = Duration::from_nanos(now.0.abs_diff(swept_at)) >= SWEEP_PAUSE;
        if may {
            self.swept_at.store(now.0, Ordering::Relaxed);
        }
        may
    }

    /// Admits a request and charges what each one costs, or refuses it (429).
    pub fn admit_request(
        &self,
        options: &QuotaOptions,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<(), AccessError> {
        if !options.counts() {
            return Ok(());
        }
        let rate = options.of(caller.project()).request_cost_per_second;
        self.with(caller.project(), now, |usage| {
            let Some(rate) = rate else { return Ok(()) };
            Bucket::charge(&mut usage.cost, rate, now, REQUEST_COST).map_err(|wait| {
                usage.refuse(Limit::Cost, &format!("requests that cost {rate} a second"), wait)
            })
        })
    }

    /// Charges what an admitted request has read and answered; the project may go into debt.
    pub fn charge_request(
        &self,
        options: &QuotaOptions,
        caller: &Caller,
        now: Timestamp,
        metrics: u64,
        bytes: u64,
    ) {
        if !options.counts() {
            return;
        }
        let cost = metrics as f64 / METRICS_PER_COST + bytes as f64 / BYTES_PER_COST;
        self.with(caller.project(), now, |usage| {
            usage.totals.requests += 1;
            usage.totals.cost += REQUEST_COST;
            usage.charge(cost);
        });
    }

    /// Charges a piece of a response whose size was not known before.
    pub fn charge_piece(&self, project: &str, now: Timestamp, bytes: u64) {
        self.with(project, now, |usage| usage.charge(bytes as f64 / BYTES_PER_COST));
    }

    /// Admits measures, or refuses them (429).
    pub fn admit_measures(
        &self,
        options: &QuotaOptions,
        caller: &Caller,
        now: Timestamp,
        measures: u64,
    ) -> Result<(), AccessError> {
        if !options.counts() {
            return Ok(());
        }
        let rate = options.of(caller.project()).measures_per_second;
        self.with(caller.project(), now, |usage| {
            if let Some(rate) = rate {
                Bucket::charge(&mut usage.measures, rate, now, measures as f64).map_err(|wait| {
                    usage.refuse(Limit::Measures, &format!("{rate} measures a second"), wait)
                })?;
            }
            usage.totals.measures += measures;
            Ok(())
        })
    }

    /// Admits new metrics of a project, or refuses them (429). The caller keeps the admission until they are
    /// created; `None` without a limit. Queries the index only if the cached count is too old; requests of a project at the
    /// same time share that count.
    pub async fn admit_metrics(
        self: &Arc<Self>,
        options: &QuotaOptions,
        caller: &Caller,
        now: Timestamp,
        new: u64,
        indexer: &dyn Indexer,
    ) -> Result<Option<MetricsAdmission>, AccessError> {
        let Some(max) = options.of(caller.project()).metrics_max else { return Ok(None) };
        if new == 0 {
            return Ok(None);
        }
        let before = self.counts.load(Ordering::Relaxed);
        let take = |usage: &mut Usage, admission: &mut MetricsAdmission, is_last: bool| {
            let known = usage.metrics?;
            let Count { metrics, twice_max, at, number } = known;
            // Also counts again if the clock was set back.
            let age = Duration::from_nanos(now.0.abs_diff(at.0));
            let fits = metrics.saturating_add(new) <= max;
            // A count that began while this request waited is new enough, however long it took.
            if number <= before && age > if fits { COUNT_AGE_MAX } else { COUNT_AGE_MAX_REFUSED } {
                return None;
            }
            if !fits {
                if !is_last && metrics.saturating_sub(twice_max).saturating_add(new) <= max {
                    return None;
                }
                let wait = Duration::from_secs(METRICS_RETRY_AFTER_SECONDS);
                return Some(Err(usage.refuse(Limit::Metrics, &format!("{max} metrics"), wait)));
            }
            usage.metrics = Some(Count { metrics: metrics + new, ..known });
            admission.admit(new);
            Some(Ok(()))
        };
        let mut admission = MetricsAdmission::begin(self, caller.project());
        let mut answer = self.with(caller.project(), now, |usage| take(usage, &mut admission, false));
        let mut turn = None;
        if answer.is_none() {
            // The count of the request before may do.
            turn = Some(admission.turn().lock_owned().await);
            answer = self.with(caller.project(), now, |usage| take(usage, &mut admission, false));
        }
        for counts in 1..=COUNTS_MAX {
            if answer.is_some() {
                break;
            }
            if counts > 1 {
                // Requests in progress end meanwhile: then only the index counts their metrics.
                sleep(COUNT_PAUSE).await;
            }
            let done = admission.done();
            let number = self.counts.fetch_add(1, Ordering::Relaxed) + 1;
            let count = count(caller, indexer).await.map_err(AccessError::Indexer)?;
            answer = self.with(caller.project(), now, |usage| {
                let twice_max = admission.uncounted(done);
                let metrics = count.saturating_add(twice_max);
                usage.metrics = Some(Count { metrics, twice_max, at: now, number });
                take(usage, &mut admission, counts == COUNTS_MAX)
            });
            drop(turn.take());
        }
        answer.expect("the last count decides").map(|()| Some(admission))
    }
}

/// How long a project must be idle before it can be dropped.
const QUIET: Duration = Duration::from_mins(1);
/// Pause between two looks for idle projects.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

async fn count(caller: &Caller, indexer: &dyn Indexer) -> Result<u64, IndexerError> {
    let creators = match &caller.project_id {
        Some(project) => Creators::Of(project.clone()),
        None => Creators::Is(caller.user.clone()),
    };
    indexer.count_metrics(Some(&creators)).await
}

impl Usage {
    /// Charges what was admitted before its cost was known.
    fn charge(&mut self, cost: f64) {
        self.totals.cost += cost;
        if let Some(bucket) = &mut self.cost {
            bucket.take(cost);
        }
    }

    fn refuse(&mut self, limit: Limit, what: &str, wait: Duration) -> AccessError {
        self.totals.refused[limit as usize] += 1;
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        AccessError::LimitExceeded {
            detail: format!("The project has more than {what}"),
            retry_after_seconds: seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use gnudi_indexer::{ArchivePolicies as _, MemoryIndexer, Metrics as _, NewMetric};
    use gnudi_model::{ArchivePolicy, MetricId};
    use uuid::Uuid;

    use super::*;

    fn named(user: &str) -> Caller {
        Caller { user: user.to_owned(), ..Caller::default() }
    }

    fn retry_after_seconds(error: AccessError) -> u64 {
        match error {
            AccessError::LimitExceeded { retry_after_seconds, .. } => retry_after_seconds,
            other => panic!("{other:?}"),
        }
    }

    fn limited(limits: ProjectLimits) -> QuotaOptions {
        QuotaOptions { limits, ..QuotaOptions::default() }
    }

    /// A caller that may have three metrics.
    fn three_metrics() -> (QuotaOptions, Arc<Quotas>, Caller) {
        let options = limited(ProjectLimits { metrics_max: Some(3), ..ProjectLimits::default() });
        (options, Arc::default(), named("a"))
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    #[test]
    fn a_project_is_refused_until_its_time_has_come() {
        let free = ProjectLimits { measures_per_second: None, ..ProjectLimits::default() };
        let mut options = limited(ProjectLimits { measures_per_second: Some(10), ..free });
        options.projects.insert("free".to_owned(), free);
        let quotas = Quotas::default();
        let admit = |user: &str, at: i64, measures: u64| {
            quotas.admit_measures(&options, &named(user), second(at), measures).map_err(retry_after_seconds)
        };
        // A burst of ten seconds, and 20 more as debt.
        assert_eq!(admit("a", 0, 120), Ok(()));
        assert_eq!(admit("a", 0, 1), Err(3));
        assert_eq!(admit("b", 0, 1), Ok(()), "others have a count of their own");
        assert_eq!(admit("free", 0, 1_000_000), Ok(()));
        assert_eq!(admit("free", 0, 1_000_000), Ok(()));
        assert_eq!(admit("a", 1, 1), Err(2));
        assert_eq!(admit("a", 3, 1), Ok(()));
    }

    #[test]
    fn a_request_costs_what_it_reads_and_answers() {
        let options = limited(ProjectLimits { request_cost_per_second: Some(1), ..ProjectLimits::default() });
        let quotas = Quotas::default();
        let caller = named("a");
        let admit = |at| quotas.admit_request(&options, &caller, second(at)).map_err(retry_after_seconds);
        for _ in 0..9 {
            assert_eq!(admit(0), Ok(()));
            quotas.charge_request(&options, &caller, second(0), 0, 0);
        }
        assert_eq!(admit(0), Ok(()));
        // 1 for itself, 2 for the metrics, 3 for the response: five more than allowed.
        quotas.charge_request(&options, &caller, second(0), 200, 3 << 16);
        assert_eq!(admit(0), Err(6));
        assert_eq!(admit(6), Ok(()));
    }

    #[test]
    fn requests_in_progress_have_been_charged() {
        let options = limited(ProjectLimits { request_cost_per_second: Some(1), ..ProjectLimits::default() });
        let (quotas, caller) = (Quotas::default(), named("a"));
        let admit = || quotas.admit_request(&options, &caller, second(0)).map_err(retry_after_seconds);
        // None of them ends before the last one comes.
        assert!((0..10).all(|_| admit().is_ok()));
        assert_eq!(admit(), Err(1));
    }

    #[tokio::test]
    async fn requests_at_once_do_not_exceed_the_limit_together() {
        let (options, quotas, caller) = three_metrics();
        let indexer = MemoryIndexer::default();
        let admit = async |at| quotas.admit_metrics(&options, &caller, second(at), 2, &indexer).await;
        let first = admit(0).await.unwrap();
        assert!(first.is_some());
        // The count is too old, and the index has nothing yet of what is being created.
        assert_eq!(retry_after_seconds(admit(100).await.unwrap_err()), 30);
        drop(first);
        // It created nothing after all.
        assert!(admit(200).await.is_ok());
        assert!(quotas.creating.lock().is_empty());
        // Two that count at the same time: the slower one has not seen what the faster one got.
        let mut slower = MetricsAdmission::begin(&quotas, "a");
        let done = slower.done();
        drop(admit(300).await.unwrap());
        assert_eq!(slower.uncounted(done), 2);
        slower.admit(1);
        assert_eq!((slower.done(), slower.uncounted(0)), (2, 3));
    }

    /// An index with a policy, and new metrics of it.
    async fn index_with_policy() -> (MemoryIndexer, impl Fn(u128) -> NewMetric) {
        let indexer = MemoryIndexer::default();
        let low = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).swap_remove(1);
        indexer.create_archive_policy(low.clone()).await.unwrap();
        let metric =
            move |number| NewMetric::new(MetricId(Uuid::from_u128(number)), "a", &low.name, second(0));
        (indexer, metric)
    }

    #[tokio::test]
    async fn what_was_created_during_a_count_is_not_counted_twice() {
        let (options, quotas, caller) = three_metrics();
        let (indexer, metric) = index_with_policy().await;
        let admit = async |at, new| quotas.admit_metrics(&options, &caller, second(at), new, &indexer).await;
        let first = admit(0, 2).await.unwrap();
        // They are in the index, and their request has not ended.
        assert!(indexer.create_metrics(vec![metric(1), metric(2)]).await.iter().all(Result::is_ok));
        let end = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (admitted, ()) = tokio::join!(admit(100, 1), end);
        assert!(admitted.is_ok(), "{admitted:?}");
        assert_eq!(retry_after_seconds(admit(100, 1).await.unwrap_err()), 30);
    }

    #[tokio::test]
    async fn what_was_not_created_leaves_room() {
        let (options, quotas, caller) = three_metrics();
        let indexer = MemoryIndexer::default();
        let admit =
            async |at, new| quotas.admit_metrics(&options, &caller, second(at), new, &indexer).await.ok();
        // Another request has created both before this one, which looks again.
        let mut first = admit(0, 2).await.flatten().unwrap();
        assert!(admit(0, 2).await.is_none());
        assert_eq!((first.take_back(2), first.take_back(1)), (2, 0));
        let again = admit(0, 3).await.flatten().unwrap();
        assert!(admit(0, 1).await.is_none());
        // Also for a count that is taken meanwhile.
        let done = first.done();
        assert_eq!(first.uncounted(done), 3);
        drop((first, again));
        assert!(quotas.creating.lock().is_empty());
    }

    #[tokio::test]
    async fn metrics_are_counted_by_the_index_and_remembered() {
        let (options, quotas, caller) = three_metrics();
        let (indexer, metric) = index_with_policy().await;
        assert!(indexer.create_metrics(vec![metric(1), metric(2)]).await.iter().all(Result::is_ok));
        let admit = async |at, new| {
            let admitted = quotas.admit_metrics(&options, &caller, second(at), new, &indexer).await;
            admitted.map(drop).map_err(retry_after_seconds)
        };
        assert_eq!(admit(0, 2).await, Err(30));
        assert_eq!(admit(0, 1).await, Ok(()), "what is refused takes nothing");
        assert_eq!(admit(0, 1).await, Err(30), "what was let in is counted at once");
        assert!(indexer.delete_metrics(&[metric(1).id]).await.iter().all(Result::is_ok));
        assert_eq!(admit(1, 1).await, Err(30), "not asked again within a second");
        // The admitted metric was never created: one of two is left.
        assert_eq!(admit(3, 2).await, Ok(()));
        assert_eq!(admit(3, 1).await, Err(30));
        assert_eq!(admit(40, 2).await, Ok(()), "a count is cached for a while only");
        assert_eq!(admit(41, 1).await, Err(30));
        assert_eq!(admit(0, 2).await, Ok(()), "a clock that is set back does not keep it");
    }

    #[tokio::test]
    async fn projects_that_share_a_count_have_their_own_metrics() {
        let (options, quotas, _) = three_metrics();
        for project in 0..PROJECTS_MAX {
            let _ = quotas.admit_measures(&options, &named(&format!("p{project}")), second(0), 1);
        }
        let indexer = MemoryIndexer::default();
        for user in ["a", "b"] {
            let caller = named(user);
            assert!(quotas.admit_metrics(&options, &caller, second(0), 3, &indexer).await.is_ok(), "{user}");
        }
    }

    #[test]
    fn projects_beyond_the_limit_share_one_count() {
        let options = limited(ProjectLimits { measures_per_second: Some(1), ..ProjectLimits::default() });
        let quotas = Quotas::default();
        for project in 0..PROJECTS_MAX + 5 {
            let _ = quotas.admit_measures(&options, &named(&format!("p{project}")), second(0), 1);
        }
        assert_eq!(quotas.projects.lock().len(), PROJECTS_MAX + 1);
        // Requests of further projects look for idle ones once a second.
        let may_sweep = |ms: i64| quotas.may_sweep(Timestamp(ms * 1_000_000));
        let looks = [10_000, 10_000, 10_999, 11_000, 9_000].map(may_sweep);
        assert_eq!(looks, [true, false, false, true, true]);
        // Later, idle projects make room.
        quotas.admit_measures(&options, &named("new"), second(3600), 1).unwrap();
        assert!(quotas.projects.lock().len() <= 2);
    }

    #[test]
    fn projects_that_were_used_before_the_clock_was_set_back_make_room() {
        let options = limited(ProjectLimits { measures_per_second: Some(1), ..ProjectLimits::default() });
        let quotas = Quotas::default();
        for project in 0..PROJECTS_MAX {
            let _ = quotas.admit_measures(&options, &named(&format!("p{project}")), second(86_400), 1);
        }
        quotas.admit_measures(&options, &named("new"), second(3600), 1).unwrap();
        assert_eq!(quotas.projects.lock().len(), 1);
    }
}

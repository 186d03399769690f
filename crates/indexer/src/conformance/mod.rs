//! The suite that every [`Indexer`] passes: what the traits promise, case by case, each on an empty index.
//!
//! A case panics where the promise is broken. What a crash or a full disk does is for each index's own tests.

mod archive_policy;
mod archive_policy_rule;
mod listing;
mod metric;

use std::{collections::BTreeSet, pin::Pin};

use gnudi_model::{ArchivePolicy, ArchivePolicyItem, MetricId, Timespan, Timestamp};
use uuid::Uuid;

use crate::{Indexer, IndexerError, NewMetric};

type Case = for<'a> fn(&'a dyn Indexer) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($case)), |indexer| Box::pin($module::$case(indexer)))),*]
    };
}

const CASES: &[(&str, Case)] = cases![
    archive_policy::is_kept_whole,
    archive_policy::name_is_taken_once,
    archive_policy::points_and_back_window_change,
    archive_policy::granularities_stay,
    archive_policy::deletion_is_refused_while_in_use,
    archive_policy_rule::is_kept_whole,
    archive_policy_rule::refusals,
    archive_policy_rule::renaming,
    archive_policy_rule::are_tried_in_order,
    metric::is_kept_whole,
    metric::refusals_leave_neighbours_alone,
    metric::names_are_unique_within_a_resource,
    metric::look_ups_answer_in_order,
    metric::deletion_hides,
    metric::many_callers_at_once,
    metric::many_at_once,
    listing::filters,
    listing::pages_follow_each_other,
    listing::refuses_strange_markers,
];

/// Runs every case on an index of its own.
pub async fn run<I: Indexer>(open: impl AsyncFn() -> I) {
    for (name, case) in CASES {
        // Shown by the test harness where a case fails.
        println!("{name}");
        case(&open().await).await;
    }
}

/// A policy with one granularity, `seconds` long.
fn policy(name: &str, seconds: &[i64]) -> ArchivePolicy {
    let definition = seconds
        .iter()
        .map(|seconds| ArchivePolicyItem {
            granularity: Timespan::from_secs(*seconds),
            points: Some(10),
            timespan: Some(Timespan::from_secs(seconds * 10)),
        })
        .collect();
    ArchivePolicy {
        name: name.to_owned(),
        back_window: 0,
        definition,
        aggregation_methods: BTreeSet::from_iter(ArchivePolicy::default_methods()),
    }
}

fn id(number: u128) -> MetricId {
    MetricId(Uuid::from_u128(number))
}

/// A metric of policy `low`, without name, unit and resource.
fn new_metric(number: u128) -> NewMetric {
    NewMetric {
        id: id(number),
        creator: "admin".to_owned(),
        name: None,
        unit: None,
        archive_policy_name: "low".to_owned(),
        resource_id: None,
        created_at: Timestamp::from_secs(1_700_000_000),
    }
}

async fn create_low(indexer: &dyn Indexer) {
    indexer.create_archive_policy(policy("low", &[300])).await.unwrap();
}

async fn create(indexer: &dyn Indexer, metrics: Vec<NewMetric>) -> Vec<Option<IndexerError>> {
    indexer.create_metrics(metrics).await.into_iter().map(Result::err).collect()
}

//! The conformance suite of [`Indexer`]: the contract of the traits, case by case, each on an empty index.
//!
//! A case panics on a violation. Crashes and full disks are left to each index's own tests.

mod annotation;
mod archive_policy;
mod archive_policy_rule;
mod listing;
mod metric;
mod resource;
mod resource_history;
mod resource_metric;
mod resource_type;
mod search;

use std::{pin::Pin, sync::Arc};

use gnudi_model::{
    ArchivePolicy, ArchivePolicyItem, Attribute, AttributeKind, AttributeValue, MetricId, Resource,
    ResourceType, Timespan, Timestamp, resource_type::GENERIC,
};
use uuid::Uuid;

use crate::{Indexer, IndexerError, NewMetric, NewResource, PolicyChange};

type Case = for<'a> fn(&'a dyn Indexer) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($case)), |indexer| Box::pin($module::$case(indexer)))),*]
    };
}

const CASES: &[(&str, Case)] = cases![
    annotation::is_kept_whole,
    annotation::pages_and_times,
    annotation::refusals,
    annotation::goes_with_its_resource,
    archive_policy::is_kept_whole,
    archive_policy::name_is_taken_once,
    archive_policy::all_but_granularities_changes,
    archive_policy::granularities_stay,
    archive_policy::deletion_is_refused_while_in_use,
    archive_policy::definitions_live_as_long_as_their_metrics,
    archive_policy::new_methods_begin_a_conversion,
    archive_policy_rule::is_kept_whole,
    archive_policy_rule::refusals,
    archive_policy_rule::renaming,
    archive_policy_rule::are_tried_in_order,
    metric::is_kept_whole,
    metric::refusals_leave_neighbours_alone,
    metric::names_are_unique_within_a_resource,
    metric::look_ups_answer_in_order,
    metric::deletion_hides,
    metric::moves_to_another_policy,
    metric::whole_names_live_as_long_as_their_metrics,
    metric::many_callers_at_once,
    metric::many_at_once,
    resource::is_kept_whole,
    resource::refusals_leave_neighbours_alone,
    resource::changes_are_kept_as_revisions,
    resource::changes_are_refused_whole,
    resource::deletion_takes_all_along,
    resource::those_that_are_ended,
    resource::those_that_come_back,
    resource::an_end_stays,
    resource::many_callers_at_once,
    resource::many_at_once,
    resource_history::former_revisions_are_removed,
    resource_metric::come_along,
    resource_metric::need_their_resource,
    resource_metric::are_added_or_replaced,
    resource_type::is_kept_whole,
    resource_type::name_is_taken_once,
    resource_type::the_generic_one_stays,
    resource_type::attributes_come_and_go,
    resource_type::a_fill_is_for_those_that_are_there,
    resource_type::an_attribute_begins_afresh,
    resource_type::deletion_is_refused_while_in_use,
    resource_type::what_is_left_is_swept,
    search::comparisons,
    search::patterns_and_lists,
    search::what_is_absent_is_unknown,
    search::refusals,
    search::limits_of_filters,
    search::histories,
    search::pages_follow_each_other,
    search::refuses_strange_markers,
    search::continues_behind_a_deleted_resource,
    search::details_show_attributes,
    search::deletion_by_filter,
    listing::filters,
    listing::scopes,
    listing::pages_follow_each_other,
    listing::refuses_strange_markers,
    listing::continues_behind_a_deleted_metric,
];

/// Runs every case on an index of its own.
pub async fn run<I: Indexer>(open: impl AsyncFn() -> I) {
    for (name, case) in CASES {
        // The test harness shows it if a case fails.
        println!("{name}");
        case(&open().await).await;
    }
}

/// A policy with one granularity, `seconds` long.
fn policy(name: &str, seconds: &[i64]) -> ArchivePolicy {
    let item =
        |seconds: &i64| ArchivePolicyItem::new(Some(Timespan::from_secs(*seconds)), Some(10), None).unwrap();
    let definition = seconds.iter().map(item).collect();
    ArchivePolicy::new(name.to_owned(), 0, definition, ArchivePolicy::default_methods()).unwrap()
}

pub fn id(number: u128) -> MetricId {
    MetricId(Uuid::from_u128(number))
}

/// Gives a policy another back window.
pub fn with_back_window(policy: &ArchivePolicy, back_window: u64) -> PolicyChange {
    let definition = policy.definition.clone();
    PolicyChange { definition, back_window: Some(back_window), ..PolicyChange::default() }
}

/// A metric of policy `low`, without name, unit and resource.
pub fn new_metric(number: u128) -> NewMetric {
    NewMetric::new(id(number), "admin", "low", Timestamp::from_secs(1_700_000_000))
}

/// The same with a name, of a resource if there is one.
pub fn named_metric(number: u128, resource: Option<u128>, name: &str) -> NewMetric {
    let resource_id = resource.map(Uuid::from_u128);
    NewMetric { name: Some(name.to_owned()), resource_id, ..new_metric(number) }
}

async fn create_low(indexer: &dyn Indexer) {
    indexer.create_archive_policy(policy("low", &[300])).await.unwrap();
}

async fn create(indexer: &dyn Indexer, metrics: Vec<NewMetric>) -> Vec<Option<IndexerError>> {
    indexer.create_metrics(metrics).await.into_iter().map(Result::err).collect()
}

/// A generic resource without metrics, called by its id.
pub fn new_resource(number: u128) -> NewResource {
    NewResource::new(Uuid::from_u128(number), GENERIC, "admin", Timestamp::from_secs(1_700_000_000))
}

async fn create_generic(indexer: &dyn Indexer, numbers: &[u128]) {
    let created =
        indexer.create_resources(numbers.iter().map(|number| new_resource(*number)).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
}

/// The type `instance`: a text `display_name`, a number `vcpus`, a text `host`.
async fn create_type(indexer: &dyn Indexer) {
    let text = AttributeKind::String { min_length: 0, max_length: 256 };
    let attribute = |name: &str, kind| (name.into(), Attribute { kind, required: false, fill: None });
    let attributes = [
        attribute("display_name", text),
        attribute("vcpus", AttributeKind::Number { min: None, max: None }),
        attribute("host", text),
    ];
    let resource_type = ResourceType { name: "instance".into(), attributes: attributes.into() };
    indexer.create_resource_type(resource_type).await.unwrap();
}

/// A resource of type `instance`, without a host.
fn instance(number: u128) -> NewResource {
    NewResource {
        resource_type: "instance".to_owned(),
        user_id: Some("user".to_owned()),
        project_id: Some("project".to_owned()),
        attributes: [
            ("display_name".into(), text(&format!("vm{number}"))),
            ("vcpus".into(), AttributeValue::Number(number as f64)),
        ]
        .into(),
        ..new_resource(number)
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::String(text.into())
}

/// The resource with the attributes of its own type.
async fn shown(indexer: &dyn Indexer, number: u128) -> Arc<Resource> {
    let id = Uuid::from_u128(number);
    let generic = indexer.resource(GENERIC, id).await.unwrap().unwrap();
    indexer.resource(&generic.resource_type, id).await.unwrap().unwrap()
}

//! Random sequences of calls, compared with the index in memory.

mod engines;
mod playing;

use std::collections::BTreeSet;

use gnudi_indexer::{
    Creators, Indexer, MetricFilter, MetricListing, MetricMarker, MetricScope, MetricSort, NewMetric, Page,
    Pattern, PolicyChange,
};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, ArchivePolicyRule, MetricId, MetricStatus,
    Statistic, Timespan, Timestamp,
};
use proptest::prelude::*;
use uuid::Uuid;

calls! {
    index:
    CreatePolicy(policy: ArchivePolicy) => index.create_archive_policy(policy).await,
    UpdatePolicy(name: String, change: PolicyChange) => index.update_archive_policy(&name, change).await,
    DeletePolicy(name: String) => index.delete_archive_policy(&name).await,
    ShowPolicy(name: String) => (index.archive_policy(&name).await, index.archive_policies().await),
    CreateRule(rule: ArchivePolicyRule) => index.create_archive_policy_rule(rule).await,
    RenameRule(name: String, new_name: String) => index.rename_archive_policy_rule(&name, &new_name).await,
    DeleteRule(name: String) => index.delete_archive_policy_rule(&name).await,
    ShowRule(name: String) => (index.archive_policy_rule(&name).await, index.archive_policy_rules().await),
    MatchRule(name: String) => index.archive_policy_name_for_metric(&name).await,
    Create(metrics: Vec<NewMetric>) => index.create_metrics(metrics).await,
    Delete(ids: Vec<MetricId>) => index.delete_metrics(&ids).await,
    Expunge(ids: Vec<MetricId>) => index.expunge_metrics(&ids).await,
    Move(id: MetricId, policy: String) => (index.move_metric(id, &policy).await, index.current_metric(id).await),
    Sweep(name: String) => (index.sweep_definitions().await, index.archive_policy(&name).await),
    Show(ids: Vec<MetricId>) => index.metrics(&ids).await,
    List(listing: MetricListing) => index.list_metrics(&listing).await,
    Deleted(limit: usize) => index.deleted_metrics(None, limit).await,
    ;
}

// Few of each, so that calls meet.

fn policy_name() -> impl Strategy<Value = String> {
    let names = vec!["low", "high", "none", "definition:00000000-0000-0000-0000-000000000007"];
    prop::sample::select(names).prop_map(str::to_owned)
}

fn rule_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "A"]).prop_map(str::to_owned)
}

fn definition() -> impl Strategy<Value = Vec<ArchivePolicyItem>> {
    let seconds = prop::sample::subsequence(vec![1i64, 60, 3600], 1..=2).prop_shuffle();
    (seconds, prop::option::of(1..100u64)).prop_map(|(seconds, points)| {
        let item = |seconds| {
            let granularity = Timespan::from_secs(seconds);
            let timespan = points.map(|points| Timespan(granularity.0 * points as i64));
            ArchivePolicyItem { granularity, points, timespan }
        };
        seconds.into_iter().map(item).collect()
    })
}

fn metric_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["cpu", "cpu.util", "CPU", ""]).prop_map(str::to_owned)
}

fn id() -> impl Strategy<Value = MetricId> {
    (0..12u128).prop_map(|number| MetricId(Uuid::from_u128(number << (number * 8))))
}

fn ids() -> impl Strategy<Value = Vec<MetricId>> {
    prop::collection::vec(id(), 0..5)
}

fn creator() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["admin", "u:p"]).prop_map(str::to_owned)
}

fn unit() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["B", "%"]).prop_map(str::to_owned)
}

fn new_metric() -> impl Strategy<Value = NewMetric> {
    let resource = prop::option::of((0..2u128).prop_map(Uuid::from_u128));
    let policy = prop_oneof![8 => Just("low".to_owned()), 2 => policy_name()];
    (
        id(),
        creator(),
        prop::option::of(metric_name()),
        prop::option::of(unit()),
        policy,
        resource,
        any::<i64>(),
    )
        .prop_map(|(id, creator, name, unit, archive_policy_name, resource_id, time)| NewMetric {
            id,
            creator,
            name,
            unit,
            archive_policy_name,
            resource_id,
            created_at: Timestamp(time),
            whole_name: None,
        })
}

fn scope() -> impl Strategy<Value = MetricScope> {
    let creators = || {
        let project = prop::sample::select(vec!["", "p", "%", "_", "1"]).prop_map(str::to_owned);
        prop_oneof![creator().prop_map(Creators::Is), project.prop_map(Creators::Of)]
    };
    (prop::option::of(creators()), prop::option::of(Just("p".to_owned())), prop::option::of(creators()))
        .prop_map(|(creators, resource_project_id, resource_creators)| MetricScope {
            creators,
            resource_project_id,
            resource_creators,
        })
}

fn listing() -> impl Strategy<Value = MetricListing> {
    let status = prop::option::of(prop::sample::select(vec![MetricStatus::Active, MetricStatus::Delete]));
    let filter = (
        prop::option::weighted(0.1, id()),
        prop::option::weighted(0.2, creator()),
        (
            prop::option::weighted(0.2, metric_name()),
            prop::option::weighted(0.2, "[%_cpu.]{0,4}".prop_map(|text| Pattern::read(&text).unwrap())),
        ),
        prop::option::weighted(0.2, unit()),
        prop::option::weighted(0.2, policy_name()),
        status,
        prop::option::weighted(0.4, scope()),
    )
        .prop_map(|(id, creator, (name, name_like), unit, archive_policy_name, status, scope)| {
            MetricFilter {
                id,
                creator,
                name,
                name_like,
                unit,
                archive_policy_name,
                resource_id: None,
                status,
                scope,
            }
        });
    let sort =
        "(id|creator|name|unit|archive_policy_name|resource_id|status)(:(asc|desc)(-nulls(first|last))?)?";
    let sort = sort.prop_map(|text| text.parse::<MetricSort>().unwrap());
    let page =
        (0..6usize, prop::option::of(id().prop_map(MetricMarker::Id)), prop::collection::vec(sort, 0..4));
    (filter, page).prop_map(|(filter, (limit, marker, sorts))| MetricListing {
        filter,
        page: Page { limit, marker, sorts },
    })
}

fn call() -> impl Strategy<Value = Call> {
    let raw_timespan = || prop::option::of((1..9i64).prop_map(Timespan::from_secs));
    let policy = (policy_name(), definition(), 0..3u64, raw_timespan(), any::<bool>());
    let policy = policy.prop_map(|(name, definition, back_window, raw_timespan, recomputes_late)| {
        let mut aggregation_methods: BTreeSet<_> = ArchivePolicy::default_methods();
        if recomputes_late {
            aggregation_methods.remove(&AggregationMethod::new(Statistic::Std));
        }
        ArchivePolicy { name, back_window, definition, aggregation_methods, raw_timespan, recomputes_late }
    });
    let methods =
        prop::sample::select(vec![ArchivePolicy::default_methods(), AggregationMethod::all().collect()]);
    let change = (
        definition(),
        prop::option::of(0..3u64),
        raw_timespan(),
        prop::option::of(any::<bool>()),
        prop::option::of(methods),
    );
    let change =
        change.prop_map(|(definition, back_window, raw_timespan, recomputes_late, aggregation_methods)| {
            PolicyChange { definition, back_window, raw_timespan, recomputes_late, aggregation_methods }
        });
    let pattern = prop::sample::select(vec!["*", "cpu*", "[!c]*", "cpu"]);
    let rule = (rule_name(), pattern, policy_name()).prop_map(|(name, pattern, archive_policy_name)| {
        ArchivePolicyRule { name, metric_pattern: pattern.to_owned(), archive_policy_name }
    });
    prop_oneof![
        3 => policy.prop_map(Call::CreatePolicy),
        1 => (policy_name(), change).prop_map(|(name, change)| Call::UpdatePolicy(name, change)),
        2 => policy_name().prop_map(Call::DeletePolicy),
        2 => policy_name().prop_map(Call::ShowPolicy),
        2 => rule.prop_map(Call::CreateRule),
        1 => (rule_name(), rule_name()).prop_map(|(name, new_name)| Call::RenameRule(name, new_name)),
        1 => rule_name().prop_map(Call::DeleteRule),
        1 => rule_name().prop_map(Call::ShowRule),
        2 => metric_name().prop_map(Call::MatchRule),
        8 => prop::collection::vec(new_metric(), 1..5).prop_map(Call::Create),
        3 => ids().prop_map(Call::Delete),
        2 => ids().prop_map(Call::Expunge),
        2 => (id(), policy_name()).prop_map(|(id, policy)| Call::Move(id, policy)),
        1 => policy_name().prop_map(Call::Sweep),
        4 => ids().prop_map(Call::Show),
        6 => listing().prop_map(Call::List),
        1 => (0..4usize).prop_map(Call::Deleted),
        1 => Just(Call::Reopen),
    ]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let low = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).swap_remove(1);
    prop::collection::vec(call(), 1..60).prop_map(move |mut calls| {
        calls.insert(0, Call::CreatePolicy(low.clone()));
        calls
    })
}

answers_as_the_model!(calls);

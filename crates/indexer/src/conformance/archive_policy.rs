//! Archive policies.

use std::collections::BTreeSet;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, ArchivePolicyRule, Timespan};

use uuid::Uuid;

use super::{create, create_low, id, new_metric, policy};
use crate::{Indexer, IndexerError, NewMetric, PolicyChange};

pub(super) async fn is_kept_whole(indexer: &dyn Indexer) {
    assert_eq!(indexer.archive_policy("odd").await, Ok(None));
    assert_eq!(indexer.archive_policies().await, Ok(vec![]));
    let mut odd = policy("ó'dd\"; -- \u{0}\u{1F95F}", &[60, 1, 3600]);
    odd.back_window = u64::MAX;
    odd.raw_timespan = Some(Timespan(i64::MAX));
    odd.definition[1] = ArchivePolicyItem { granularity: Timespan(1), points: None, timespan: None };
    odd.definition[2].points = Some(u64::MAX);
    odd.definition[2].timespan = Some(Timespan(i64::MAX));
    odd.aggregation_methods = AggregationMethod::all().collect();
    let mut none = policy("", &[1]);
    none.recomputes_late = true;
    none.aggregation_methods.clear();
    indexer.create_archive_policy(odd.clone()).await.unwrap();
    indexer.create_archive_policy(none.clone()).await.unwrap();
    assert_eq!(*indexer.archive_policy(&odd.name).await.unwrap().unwrap(), odd);
    assert_eq!(*indexer.archive_policy("").await.unwrap().unwrap(), none);
    let all = indexer.archive_policies().await.unwrap();
    assert_eq!(all.iter().map(|policy| &**policy).collect::<Vec<_>>(), [&none, &odd]);
}

pub(super) async fn name_is_taken_once(indexer: &dyn Indexer) {
    create_low(indexer).await;
    assert_eq!(
        indexer.create_archive_policy(policy("low", &[1])).await,
        Err(IndexerError::ArchivePolicyAlreadyExists("low".to_owned()))
    );
    assert_eq!(*indexer.archive_policy("low").await.unwrap().unwrap(), policy("low", &[300]));
    // Names are case-sensitive.
    indexer.create_archive_policy(policy("LOW", &[1])).await.unwrap();
}

pub(super) async fn all_but_granularities_changes(indexer: &dyn Indexer) {
    indexer.create_archive_policy(policy("two", &[60, 3600])).await.unwrap();
    let mut wanted = policy("two", &[3600, 60]);
    wanted.definition[0].points = Some(7);
    wanted.definition[0].timespan = Some(Timespan::from_secs(7 * 3600));
    let points = PolicyChange { definition: wanted.definition.clone(), ..PolicyChange::default() };
    assert_eq!(*indexer.update_archive_policy("two", points.clone()).await.unwrap(), wanted);
    wanted.back_window = 5;
    wanted.raw_timespan = Some(Timespan::from_secs(86_400));
    wanted.aggregation_methods = AggregationMethod::all().collect();
    let all = PolicyChange {
        back_window: Some(5),
        raw_timespan: wanted.raw_timespan,
        aggregation_methods: Some(wanted.aggregation_methods.clone()),
        ..points.clone()
    };
    indexer.update_archive_policy("two", all).await.unwrap();
    wanted.recomputes_late = true;
    let late = PolicyChange { recomputes_late: Some(true), ..points.clone() };
    indexer.update_archive_policy("two", late).await.unwrap();
    assert_eq!(*indexer.update_archive_policy("two", points).await.unwrap(), wanted);
    assert_eq!(*indexer.archive_policy("two").await.unwrap().unwrap(), wanted);
    assert_eq!(
        indexer.update_archive_policy("three", PolicyChange::default()).await,
        Err(IndexerError::NoSuchArchivePolicy("three".to_owned()))
    );
}

pub(super) async fn granularities_stay(indexer: &dyn Indexer) {
    indexer.create_archive_policy(policy("two", &[3600, 60])).await.unwrap();
    for (seconds, reason) in [
        (&[60][..], "Cannot add or drop granularities"),
        (&[60, 3600, 1], "Cannot add or drop granularities"),
        (&[60, 3601], "3600.0 granularity interval was changed"),
        (&[3600, 3601], "60.0 granularity interval was changed"),
    ] {
        let definition = policy("two", seconds).definition;
        let change = PolicyChange { definition, back_window: Some(1), ..PolicyChange::default() };
        let refused = indexer.update_archive_policy("two", change).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("Archive policy two does not support change: {reason}"));
    }
    assert_eq!(*indexer.archive_policy("two").await.unwrap().unwrap(), policy("two", &[3600, 60]));
}

pub(super) async fn deletion_is_refused_while_in_use(indexer: &dyn Indexer) {
    let in_use = Err(IndexerError::ArchivePolicyInUse("low".to_owned()));
    create_low(indexer).await;
    indexer.create_archive_policy_rule(ArchivePolicyRule::new("all", "*", "low")).await.unwrap();
    assert_eq!(indexer.delete_archive_policy("low").await, in_use);
    indexer.delete_archive_policy_rule("all").await.unwrap();

    assert_eq!(create(indexer, vec![new_metric(1)]).await, [None]);
    assert_eq!(indexer.delete_archive_policy("low").await, in_use);
    // A deleted metric still uses its policy until it is expunged.
    assert_eq!(indexer.delete_metrics(&[id(1)]).await, [Ok(())]);
    assert_eq!(indexer.delete_archive_policy("low").await, in_use);
    assert!(indexer.archive_policy("low").await.unwrap().is_some());
    indexer.expunge_metrics(&[id(1)]).await.unwrap();
    assert_eq!(indexer.delete_archive_policy("low").await, Ok(()));
    assert_eq!(indexer.archive_policy("low").await, Ok(None));
    assert_eq!(indexer.archive_policies().await, Ok(vec![]));
    assert_eq!(
        indexer.delete_archive_policy("low").await,
        Err(IndexerError::NoSuchArchivePolicy("low".to_owned()))
    );
}

pub(super) async fn definitions_live_as_long_as_their_metrics(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let names = [1, 2, 3].map(|number| ArchivePolicy::definition_name(Uuid::from_u128(number)));
    // Similar names are ordinary policies.
    for name in ["definition:", "definition:0", "definition;"] {
        assert_eq!(indexer.create_archive_policy(policy(name, &[60])).await, Ok(()));
    }
    for name in &names {
        indexer.create_archive_policy(policy(name, &[60])).await.unwrap();
    }
    let listed = async || {
        let policies = indexer.archive_policies().await.unwrap();
        policies.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await.len(), 4);
    assert!(!listed().await.contains(&names[0]));
    let of = |number, name: &str| NewMetric { archive_policy_name: name.to_owned(), ..new_metric(number) };
    assert_eq!(
        create(indexer, vec![of(1, &names[0]), of(2, &names[0]), of(3, &names[1])]).await,
        [const { None }; 3]
    );
    assert_eq!(indexer.sweep_definitions().await, Ok(1));
    assert_eq!(indexer.archive_policy(&names[2]).await, Ok(None));
    // A deleted metric still uses its definition until it is expunged.
    assert_eq!(indexer.delete_metrics(&[id(1), id(3)]).await, [Ok(()), Ok(())]);
    assert_eq!(indexer.sweep_definitions().await, Ok(0));
    indexer.expunge_metrics(&[id(1), id(3)]).await.unwrap();
    assert_eq!(indexer.sweep_definitions().await, Ok(1));
    assert_eq!(indexer.archive_policy(&names[1]).await, Ok(None));
    assert!(indexer.archive_policy(&names[0]).await.unwrap().is_some());
    indexer.move_metric(id(2), "low").await.unwrap();
    assert_eq!(indexer.sweep_definitions().await, Ok(1));
    assert_eq!(indexer.archive_policy(&names[0]).await, Ok(None));
    assert_eq!(listed().await.len(), 4);
}

pub(super) async fn new_methods_begin_a_conversion(indexer: &dyn Indexer) {
    let methods = |names: &[&str]| -> Option<BTreeSet<AggregationMethod>> {
        Some(names.iter().map(|name| name.parse().unwrap()).collect())
    };
    let raw = ArchivePolicy { raw_timespan: Some(Timespan::from_secs(60)), ..policy("kept", &[60]) };
    indexer.create_archive_policy(raw.clone()).await.unwrap();
    create_low(indexer).await;
    let of = |number, name: &str| NewMetric { archive_policy_name: name.to_owned(), ..new_metric(number) };
    let metrics = vec![of(1, "kept"), of(2, "low"), of(3, "kept"), of(4, "kept"), of(5, "kept")];
    assert_eq!(create(indexer, metrics).await, [const { None }; 5]);
    assert_eq!(indexer.delete_metrics(&[id(3)]).await, [Ok(())]);
    let change = async |name: &str, names: &[&str]| {
        let definition = indexer.archive_policy(name).await.unwrap().unwrap().definition.clone();
        let change =
            PolicyChange { definition, aggregation_methods: methods(names), ..PolicyChange::default() };
        indexer.update_archive_policy(name, change).await.unwrap();
    };
    // The first policy gets no new method; the second one has no raw points.
    change("kept", &["mean"]).await;
    change("low", &["mean", "median"]).await;
    assert_eq!(indexer.policy_conversions().await, Ok(vec![]));
    change("kept", &["mean", "max"]).await;
    let first = indexer.policy_conversions().await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].archive_policy_name.as_str(), first[0].converted_to), ("kept", None));
    let behind = async |after, limit| indexer.metrics_of_policy("kept", after, limit).await.unwrap();
    assert_eq!(behind(None, 2).await, [id(1), id(4)]);
    assert_eq!(behind(Some(id(3)), 5).await, [id(4), id(5)]);
    assert_eq!(behind(Some(id(5)), 5).await, []);
    indexer.advance_policy_conversion(first[0].id, Some(id(4))).await.unwrap();
    assert_eq!(indexer.policy_conversions().await.unwrap()[0].converted_to, Some(id(4)));
    // A second change begins a new conversion, and progress of the first one is ignored.
    change("kept", &["mean", "max", "min"]).await;
    let second = indexer.policy_conversions().await.unwrap();
    assert!(second.len() == 1 && second[0].id != first[0].id && second[0].converted_to.is_none());
    indexer.advance_policy_conversion(first[0].id, Some(id(5))).await.unwrap();
    indexer.advance_policy_conversion(first[0].id, None).await.unwrap();
    assert_eq!(indexer.policy_conversions().await.unwrap(), second);
    // Removing a method does not begin a new conversion.
    change("kept", &["mean", "min"]).await;
    assert_eq!(indexer.policy_conversions().await.unwrap(), second);
    indexer.advance_policy_conversion(second[0].id, None).await.unwrap();
    assert_eq!(indexer.policy_conversions().await, Ok(vec![]));
}

//! The contract of [`Resources`](crate::Resources) for single resources; `search` has the rest.

use std::sync::Arc;

use futures_util::future::join_all;
use gnudi_model::{
    Attribute, AttributeKind, AttributeValue, MetricId, Resource, ResourceType, Timestamp,
    resource_type::GENERIC,
};
use uuid::Uuid;

use super::resource_metric::named;
use super::{create, create_low, create_type, id, instance, named_metric, new_resource, shown, text};
use crate::{
    Indexer, IndexerError, MetricsChange, NewNamedMetric, NewResource, NewRevision, ResourceChange,
    ResourceListing, UpdatedResource,
};

pub(super) fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + second)
}

pub(super) fn change(second: i64) -> ResourceChange {
    ResourceChange { revision: NewRevision::IfChanged, now: at(second), ..ResourceChange::default() }
}

pub(super) fn creating(number: u128) -> MetricsChange {
    MetricsChange::Create(NewNamedMetric::new(id(number), "low"))
}

pub(super) fn attaching(number: u128) -> MetricsChange {
    MetricsChange::Attach(id(number))
}

pub(super) fn with_metrics(number: u128, metrics: &[(&str, MetricsChange)]) -> NewResource {
    let metrics = metrics.iter().map(|(name, change)| ((*name).to_owned(), change.clone()));
    NewResource { metrics: metrics.collect(), ..new_resource(number) }
}

pub(super) fn metrics_change(
    second: i64,
    append_metrics: bool,
    metrics: &[(&str, MetricsChange)],
) -> ResourceChange {
    let metrics = metrics.iter().map(|(name, change)| ((*name).to_owned(), change.clone()));
    ResourceChange { metrics: Some(metrics.collect()), append_metrics, ..change(second) }
}

pub(super) async fn create_resources(
    indexer: &dyn Indexer,
    new: Vec<NewResource>,
) -> Vec<Option<IndexerError>> {
    indexer.create_resources(new).await.into_iter().map(Result::err).collect()
}

pub(super) async fn updated(indexer: &dyn Indexer, number: u128, change: ResourceChange) -> UpdatedResource {
    indexer.update_resource(GENERIC, uuid(number), change).await.unwrap()
}

pub(super) async fn refusal(indexer: &dyn Indexer, number: u128, change: ResourceChange) -> IndexerError {
    indexer.update_resource(GENERIC, uuid(number), change).await.unwrap_err()
}

/// Names and ids of a resource's metrics.
pub(super) fn metrics(resource: &Resource) -> Vec<(&str, MetricId)> {
    resource.metrics.iter().map(|metric| (metric.name.as_deref().unwrap(), metric.id)).collect()
}

/// All revisions of a resource, the oldest first.
pub(super) async fn revisions(indexer: &dyn Indexer, number: u128) -> Vec<Arc<Resource>> {
    let listing =
        ResourceListing { history: true, details: true, ..ResourceListing::of(GENERIC, Timestamp::EPOCH) };
    let mut resources = indexer.list_resources(&listing).await.unwrap();
    resources.retain(|resource| resource.id == uuid(number));
    resources.sort_by_key(|resource| resource.revision.cast_unsigned());
    resources
}

pub(in crate::conformance) async fn is_kept_whole(indexer: &dyn Indexer) {
    let kinds = [
        ("text", AttributeKind::String { min_length: 0, max_length: 256 }, text("ó'\"\\dd; \u{1F95F}\n")),
        ("empty", AttributeKind::String { min_length: 0, max_length: 256 }, text("")),
        // The longest that a type allows, of the widest characters.
        ("long", AttributeKind::String { min_length: 0, max_length: 256 }, text(&"\u{1F95F}".repeat(256))),
        ("id", AttributeKind::Uuid, AttributeValue::Uuid(Uuid::max())),
        ("tiny", AttributeKind::Number { min: None, max: None }, AttributeValue::Number(5e-324)),
        ("huge", AttributeKind::Number { min: None, max: None }, AttributeValue::Number(-f64::MAX)),
        ("third", AttributeKind::Number { min: None, max: None }, AttributeValue::Number(1.0 / 3.0)),
        ("infinite", AttributeKind::Number { min: None, max: None }, AttributeValue::Number(f64::INFINITY)),
        ("yes", AttributeKind::Bool, AttributeValue::Bool(true)),
        ("no", AttributeKind::Bool, AttributeValue::Bool(false)),
        ("time", AttributeKind::Datetime, AttributeValue::Datetime(Timestamp(1_000))),
        ("missing", AttributeKind::Uuid, AttributeValue::Null),
        ("null", AttributeKind::Uuid, AttributeValue::Null),
    ];
    let attributes = kinds
        .iter()
        .map(|(name, kind, _)| ((*name).into(), Attribute { kind: *kind, required: false, fill: None }));
    let resource_type = ResourceType { name: "all".into(), attributes: attributes.collect() };
    indexer.create_resource_type(resource_type).await.unwrap();
    let new = NewResource {
        id: uuid(u128::MAX),
        resource_type: "all".to_owned(),
        original_resource_id: "ó'dd; \u{1F95F}".to_owned(),
        creator: "user:project".to_owned(),
        user_id: Some("u".to_owned()),
        project_id: Some(String::new()),
        started_at: Timestamp(1_000),
        ended_at: Some(Timestamp(1_000)),
        attributes: kinds
            .iter()
            .filter(|(name, ..)| *name != "missing")
            .map(|(name, _, value)| ((*name).into(), value.clone()))
            .collect(),
        metrics: vec![],
        now: at(0),
    };
    let expected = Resource {
        id: new.id,
        resource_type: "all".into(),
        original_resource_id: new.original_resource_id.as_str().into(),
        creator: "user:project".into(),
        user_id: Some("u".into()),
        project_id: Some("".into()),
        started_at: new.started_at,
        ended_at: new.ended_at,
        revision_start: at(0),
        revision_end: None,
        revision: Resource::CURRENT,
        attributes: kinds.iter().map(|(name, _, value)| ((*name).into(), value.clone())).collect(),
        metrics: [].into(),
    };
    let bare = NewResource { creator: String::new(), ..new_resource(0) };
    let created = indexer.create_resources(vec![new, bare.clone()]).await;
    assert_eq!(**created[0].as_ref().unwrap(), expected);
    assert_eq!(*indexer.resource("all", expected.id).await.unwrap().unwrap(), expected);
    let generic = Resource { attributes: [].into(), ..expected };
    assert_eq!(*indexer.resource(GENERIC, generic.id).await.unwrap().unwrap(), generic);
    let found = indexer.resource(GENERIC, bare.id).await.unwrap().unwrap();
    assert_eq!(created[1].as_ref().unwrap(), &found);
    assert_eq!((&found.user_id, &found.project_id, found.ended_at), (&None, &None, None));
    // Of another type, or missing.
    assert_eq!(indexer.resource("all", bare.id).await, Ok(None));
    assert_eq!(indexer.resource(GENERIC, uuid(7)).await, Ok(None));
    let unknown = IndexerError::NoSuchResourceType("none".to_owned());
    assert_eq!(indexer.resource("none", bare.id).await, Err(unknown));
    assert_eq!(indexer.create_resources(vec![]).await, []);
}

pub(in crate::conformance) async fn refusals_leave_neighbours_alone(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_type(indexer).await;
    let metric =
        |policy: &str| vec![("cpu".to_owned(), MetricsChange::Create(NewNamedMetric::new(id(1), policy)))];
    let mut strange = instance(4);
    strange.attributes.insert("strange".into(), text("x"));
    let outcomes = create_resources(
        indexer,
        vec![
            new_resource(1),
            NewResource { resource_type: "none".to_owned(), ..new_resource(2) },
            instance(3),
            strange,
            NewResource { ended_at: Some(Timestamp(0)), started_at: Timestamp(1_000), ..new_resource(5) },
            NewResource { creator: "second".to_owned(), ..new_resource(1) },
            NewResource { metrics: metric("none"), ..new_resource(6) },
            NewResource { metrics: metric("low"), ..instance(7) },
            NewResource { metrics: metric("low"), ..instance(8) },
            with_metrics(9, &[("cpu", attaching(9))]),
            instance(10),
        ],
    )
    .await;
    let strange = IndexerError::NoSuchAttribute {
        resource_type: "instance".to_owned(),
        attribute: "strange".to_owned(),
    };
    assert_eq!(
        outcomes,
        [
            None,
            Some(IndexerError::NoSuchResourceType("none".to_owned())),
            None,
            Some(strange),
            Some(IndexerError::StartAfterEnd),
            Some(IndexerError::ResourceAlreadyExists(uuid(1))),
            Some(IndexerError::NoSuchArchivePolicy("none".to_owned())),
            None,
            Some(IndexerError::NamedMetricAlreadyExists("cpu".to_owned())),
            Some(IndexerError::NoSuchMetric(id(9))),
            None,
        ]
    );
    for (number, outcome) in [1, 2, 3, 4, 5].into_iter().zip(&outcomes).chain((6..=10).zip(&outcomes[6..])) {
        let found = indexer.resource(GENERIC, uuid(number)).await.unwrap();
        assert_eq!(found.is_some(), outcome.is_none(), "{number}");
    }
    assert_eq!(shown(indexer, 1).await.creator, "admin");
    assert_eq!(metrics(&*shown(indexer, 7).await), [("cpu", id(1))]);
    // Rejected ids and names are still free.
    assert_eq!(
        create_resources(indexer, vec![instance(4), new_resource(6), instance(8)]).await,
        vec![None; 3]
    );
    assert_eq!(metrics(&*shown(indexer, 8).await), []);
    // The longest texts of type `prometheus`, of the widest characters: an index may refuse them, but no others.
    let kind = AttributeKind::String { min_length: 1, max_length: 512 };
    let wide = ResourceType {
        name: "wide".into(),
        attributes: [("job".into(), Attribute { kind, required: false, fill: None })].into(),
    };
    indexer.create_resource_type(wide).await.unwrap();
    let wide = NewResource {
        resource_type: "wide".to_owned(),
        attributes: [("job".into(), text(&"\u{1F95F}".repeat(512)))].into(),
        ..new_resource(90)
    };
    let outcomes = create_resources(indexer, vec![wide, new_resource(91)]).await;
    let is_refused = |error: &IndexerError| matches!(error, IndexerError::InvalidAttributeValue { .. });
    assert!(outcomes[0].as_ref().is_none_or(is_refused), "{outcomes:?}");
    assert_eq!(outcomes[1], None);
}

pub(in crate::conformance) async fn changes_are_kept_as_revisions(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let first = instance(1);
    assert_eq!(create_resources(indexer, vec![first.clone(), instance(2)]).await, [None, None]);
    let before = indexer.resource("instance", uuid(1)).await.unwrap().unwrap();
    // A change without effect makes no revision.
    let same = ResourceChange {
        project_id: Some(first.project_id.clone()),
        attributes: first.attributes.clone(),
        ..change(1)
    };
    let answer = indexer.update_resource("instance", uuid(1), same).await.unwrap();
    assert_eq!((answer.resource, answer.detached), (before.clone(), vec![]));
    let changed = ResourceChange {
        user_id: Some(None),
        project_id: Some(Some("p2".to_owned())),
        started_at: Some(at(-5)),
        ended_at: Some(Some(at(2))),
        attributes: [("vcpus".into(), AttributeValue::Number(4.0)), ("host".into(), text("h"))].into(),
        ..change(2)
    };
    let second = indexer.update_resource("instance", uuid(1), changed).await.unwrap().resource;
    let mut attributes = before.attributes.clone();
    attributes.insert("vcpus".into(), AttributeValue::Number(4.0));
    attributes.insert("host".into(), text("h"));
    let expected = Resource {
        user_id: None,
        project_id: Some("p2".into()),
        started_at: at(-5),
        ended_at: Some(at(2)),
        revision_start: at(2),
        attributes,
        ..Resource::clone(&before)
    };
    assert_eq!(*second, expected);
    assert_eq!(*indexer.resource("instance", uuid(1)).await.unwrap().unwrap(), expected);
    // An attribute can be set to null; without a revision the current one changes.
    let nulled = ResourceChange {
        attributes: [("vcpus".into(), AttributeValue::Null)].into(),
        revision: NewRevision::Never,
        ..change(3)
    };
    let third = indexer.update_resource("instance", uuid(1), nulled).await.unwrap().resource;
    assert_eq!((third.revision_start, &third.attributes["vcpus"]), (at(2), &AttributeValue::Null));
    // The end can be changed and removed like any other field.
    let unended = ResourceChange { ended_at: Some(None), of_revision: Some(at(2)), ..change(4) };
    let fourth = updated(indexer, 1, unended).await.resource;
    assert_eq!((fourth.ended_at, fourth.attributes.len()), (None, 0));
    assert_eq!(updated(indexer, 1, change(5)).await.resource.revision_start, at(4));
    let equal = ResourceChange { revision: NewRevision::Always, ..change(6) };
    assert_eq!(updated(indexer, 1, equal).await.resource.revision_start, at(6));

    let history = revisions(indexer, 1).await;
    let spans: Vec<_> = history.iter().map(|was| (was.revision_start, was.revision_end)).collect();
    assert_eq!(spans, [(at(0), Some(at(2))), (at(2), Some(at(4))), (at(4), Some(at(6))), (at(6), None)]);
    let oldest = Resource { revision_end: None, revision: Resource::CURRENT, ..Resource::clone(&history[0]) };
    assert_eq!(oldest, *before);
    assert_eq!(history[1].attributes, third.attributes);
    assert_eq!(revisions(indexer, 2).await.len(), 1);

    // With the clock set back each revision still has a start of its own.
    for user in ["a", "b"] {
        let moved = ResourceChange { user_id: Some(Some(user.to_owned())), ..change(-1) };
        updated(indexer, 2, moved).await;
    }
    let starts: Vec<_> = revisions(indexer, 2).await.iter().map(|was| was.revision_start).collect();
    assert_eq!(starts, [0, 1, 2].map(|after| Timestamp(at(0).0 + after * 1_000)));
}

pub(in crate::conformance) async fn changes_are_refused_whole(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_type(indexer).await;
    let new = vec![instance(1), with_metrics(2, &[("cpu", creating(1))])];
    assert_eq!(create_resources(indexer, new).await, [None, None]);
    let before = (shown(indexer, 1).await, shown(indexer, 2).await);

    assert_eq!(refusal(indexer, 9, change(1)).await, IndexerError::NoSuchResource(uuid(9)));
    let outcome = indexer.update_resource("none", uuid(1), change(1)).await;
    assert_eq!(outcome, Err(IndexerError::NoSuchResourceType("none".to_owned())));
    let outcome = indexer.update_resource("instance", uuid(2), change(1)).await;
    assert_eq!(outcome, Err(IndexerError::NoSuchResource(uuid(2))));
    for (resource_type, attribute) in [("instance", "strange"), (GENERIC, "host")] {
        let change = ResourceChange { attributes: [(attribute.into(), text("x"))].into(), ..change(1) };
        let refused = IndexerError::NoSuchAttribute {
            resource_type: resource_type.to_owned(),
            attribute: attribute.to_owned(),
        };
        assert_eq!(indexer.update_resource(resource_type, uuid(1), change).await, Err(refused));
    }
    let early = ResourceChange { ended_at: Some(Some(at(-1))), ..change(1) };
    let refused = IndexerError::InvalidAttributeValue {
        resource_type: GENERIC.to_owned(),
        attribute: "ended_at".to_owned(),
        value: "2023-11-14 22:13:19+00:00".to_owned(),
    };
    assert_eq!(refusal(indexer, 1, early).await, refused);
    // Of a revision that is not the current one.
    for start in [at(-1), at(1)] {
        let other = ResourceChange { project_id: Some(None), of_revision: Some(start), ..change(1) };
        assert_eq!(refusal(indexer, 1, other).await, IndexerError::ResourceChanged(uuid(1)));
    }
    // Rejected after other parts were written.
    let user_id = Some(Some("changed".to_owned()));
    for (metrics, refused) in [
        (vec![("a", creating(5)), ("b", attaching(9))], IndexerError::NoSuchMetric(id(9))),
        (
            vec![("a", creating(5)), ("cpu", creating(6))],
            IndexerError::NamedMetricAlreadyExists("cpu".to_owned()),
        ),
        (
            vec![("a", creating(5)), ("b", creating(1))],
            IndexerError::NamedMetricAlreadyExists("b".to_owned()),
        ),
    ] {
        let change = ResourceChange { user_id: user_id.clone(), ..metrics_change(1, true, &metrics) };
        assert_eq!(refusal(indexer, 2, change).await, refused);
    }
    let none = MetricsChange::Create(NewNamedMetric::new(id(5), "none"));
    let none = metrics_change(1, false, &[("a", none)]);
    let none = ResourceChange { user_id, ..none };
    assert_eq!(refusal(indexer, 2, none).await, IndexerError::NoSuchArchivePolicy("none".to_owned()));
    assert_eq!((shown(indexer, 1).await, shown(indexer, 2).await), before);
    assert_eq!((revisions(indexer, 1).await.len(), revisions(indexer, 2).await.len()), (1, 1));
    assert_eq!(indexer.metrics(&[id(5)]).await, Ok(vec![None]));
}

pub(in crate::conformance) async fn deletion_takes_all_along(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_type(indexer).await;
    let metrics_of_2 = with_metrics(2, &[("a", creating(1)), ("b", creating(2))]);
    let metrics_of_3 = with_metrics(3, &[("a", creating(3))]);
    let new = vec![instance(1), metrics_of_2.clone(), metrics_of_3, instance(4)];
    assert_eq!(create_resources(indexer, new).await, vec![None; 4]);
    for (number, second) in [(1, 1), (2, 2), (4, 3)] {
        let change = ResourceChange { project_id: Some(Some("changed".to_owned())), ..change(second) };
        updated(indexer, number, change).await;
    }
    let gone = |number| Err(IndexerError::NoSuchResource(uuid(number)));
    assert_eq!(
        indexer.delete_resources(&[uuid(2), uuid(9), uuid(1), uuid(2)]).await,
        [Ok(vec![id(1), id(2)]), gone(9), Ok(vec![]), gone(2)]
    );
    assert_eq!(indexer.delete_resources(&[]).await, []);
    for number in [1, 2] {
        assert_eq!(indexer.resource(GENERIC, uuid(number)).await, Ok(None));
        assert_eq!(revisions(indexer, number).await, []);
    }
    assert_eq!(revisions(indexer, 4).await.len(), 2);
    assert_eq!(indexer.metrics(&[id(1), id(2)]).await, Ok(vec![None, None]));
    assert_eq!(indexer.deleted_metrics(None, 10).await, Ok(vec![id(1), id(2)]));
    assert_eq!(named(indexer, &[(2, "a"), (3, "a")]).await, [None, Some(id(3))]);
    // Its id is free at once, and a new resource inherits nothing.
    let again = NewResource { metrics: vec![("a".to_owned(), creating(5))], ..metrics_of_2 };
    assert_eq!(create_resources(indexer, vec![again, instance(1)]).await, [None, None]);
    assert_eq!(metrics(&*shown(indexer, 2).await), [("a", id(5))]);
    assert_eq!((revisions(indexer, 1).await.len(), revisions(indexer, 2).await.len()), (1, 1));
    // Only of the revision that is named.
    for start in [at(0), at(4)] {
        let refused = Err(IndexerError::ResourceChanged(uuid(4)));
        assert_eq!(indexer.delete_resource_of_revision(uuid(4), start).await, refused);
    }
    assert_eq!(revisions(indexer, 4).await.len(), 2);
    assert_eq!(indexer.delete_resource_of_revision(uuid(4), at(3)).await, Ok(vec![]));
    assert_eq!(indexer.delete_resource_of_revision(uuid(4), at(3)).await, gone(4));
    assert_eq!(revisions(indexer, 4).await, []);
    let start = shown(indexer, 2).await.revision_start;
    assert_eq!(indexer.delete_resource_of_revision(uuid(2), start).await, Ok(vec![id(5)]));
    assert_eq!(indexer.metrics(&[id(5)]).await, Ok(vec![None]));
}

pub(in crate::conformance) async fn those_that_are_ended(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let ended = NewResource { ended_at: Some(at(5)), ..new_resource(2) };
    let later = NewResource { started_at: at(50), ..new_resource(3) };
    assert_eq!(create_resources(indexer, vec![instance(1), ended, later, instance(4)]).await, vec![None; 4]);
    let ids = [1, 2, 3, 9, 4, 1].map(uuid);
    assert_eq!(indexer.end_resources(&ids, at(20)).await, Ok(2));
    assert_eq!(indexer.end_resources(&ids, at(30)).await, Ok(0));
    for (number, ended_at) in [(1, Some(at(20))), (2, Some(at(5))), (3, None), (4, Some(at(20)))] {
        assert_eq!(shown(indexer, number).await.ended_at, ended_at);
    }
    let history = revisions(indexer, 1).await;
    let ends: Vec<_> = history.iter().map(|was| (was.revision_end, was.ended_at)).collect();
    assert_eq!(ends, [(Some(at(20)), None), (None, Some(at(20)))]);
    assert_eq!(history[0].attributes, history[1].attributes);
}

pub(in crate::conformance) async fn those_that_come_back(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let ended = |number, time| NewResource { ended_at: Some(at(time)), ..instance(number) };
    let created = vec![ended(1, 5), ended(2, 5), ended(3, 5), instance(4)];
    assert_eq!(create_resources(indexer, created).await, vec![None; 4]);
    let ids = [4, 1, 9, 1].map(uuid);
    let ends = vec![Some(None), Some(Some(at(5))), None, Some(Some(at(5)))];
    assert_eq!(indexer.ends(&ids).await, Ok(ends));
    let seen =
        [(1, 4), (2, 5), (3, 6), (4, 6), (9, 6), (2, 5)].map(|(number, time)| (uuid(number), at(time)));
    assert_eq!(indexer.revive_resources(&seen, at(20)).await, Ok(2));
    assert_eq!(indexer.revive_resources(&seen, at(30)).await, Ok(0));
    let ends = vec![Some(Some(at(5))), Some(None), Some(None), Some(None)];
    assert_eq!(indexer.ends(&[1, 2, 3, 4].map(uuid)).await, Ok(ends));
    let history = revisions(indexer, 2).await;
    let ends: Vec<_> = history.iter().map(|was| (was.revision_end, was.ended_at)).collect();
    assert_eq!(ends, [(Some(at(20)), Some(at(5))), (None, None)]);
    assert_eq!(history[1].revision_start, at(20));
    assert_eq!(history[0].attributes, history[1].attributes);
    assert_eq!(revisions(indexer, 1).await.len(), 1);
}

/// Only an explicit change removes the end of a resource.
pub(in crate::conformance) async fn an_end_stays(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let ended = NewResource { ended_at: Some(at(5)), ..new_resource(1) };
    assert_eq!(create_resources(indexer, vec![ended]).await, [None]);
    assert_eq!(create(indexer, vec![named_metric(1, Some(1), "cpu")]).await, [None]);
    assert_eq!(shown(indexer, 1).await.ended_at, Some(at(5)));
    updated(indexer, 1, metrics_change(9, true, &[("disk", creating(2))])).await;
    updated(indexer, 1, ResourceChange { user_id: Some(Some("u".to_owned())), ..change(9) }).await;
    assert_eq!(shown(indexer, 1).await.ended_at, Some(at(5)));
}

pub(in crate::conformance) async fn many_callers_at_once(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_type(indexer).await;
    // Pairs of callers want the same id: one of each gets it.
    let callers = (0..100).map(|number| {
        let metrics = vec![("cpu".to_owned(), creating(number))];
        create_resources(indexer, vec![NewResource { metrics, ..instance(number / 2) }])
    });
    let outcomes = join_all(callers).await.concat();
    for (number, pair) in outcomes.chunks(2).enumerate() {
        let refused: Vec<_> = pair.iter().flatten().cloned().collect();
        assert_eq!(refused, [IndexerError::ResourceAlreadyExists(uuid(number as u128))]);
    }
    // Changes of one resource are serialised.
    let changes = (0..20).map(|number| {
        let attributes = [("vcpus".into(), AttributeValue::Number(f64::from(number) + 0.5))].into();
        indexer.update_resource("instance", uuid(1), ResourceChange { attributes, ..change(number.into()) })
    });
    assert!(join_all(changes).await.iter().all(Result::is_ok));
    assert_eq!(revisions(indexer, 1).await.len(), 21);
    let ids: Vec<_> = (0..50).flat_map(|number| [uuid(number), uuid(number)]).collect();
    let deletions =
        join_all(ids.iter().map(async |id| indexer.delete_resources(&[*id]).await.remove(0))).await;
    for pair in deletions.chunks(2) {
        assert_ne!(pair[0].is_ok(), pair[1].is_ok(), "one of two concurrent deletions finds the resource");
    }
    assert_eq!(indexer.deleted_metrics(None, 1000).await.unwrap().len(), 50);
}

pub(in crate::conformance) async fn many_at_once(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_type(indexer).await;
    let count = 1_301;
    let new = (0..count).map(|number| {
        let metrics = vec![("cpu".to_owned(), creating(number))];
        NewResource { metrics, ..instance(number) }
    });
    assert_eq!(create_resources(indexer, new.collect()).await, vec![None; count as usize]);
    // Again, with a new one among them.
    let again = (0..count).map(|number| new_resource(if number == 700 { 5_000 } else { number })).collect();
    let outcomes = create_resources(indexer, again).await;
    let created: Vec<_> = outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_none()).collect();
    assert_eq!(created, [(700, &None)]);
    let ids: Vec<_> = (0..count).map(uuid).collect();
    let names: Vec<_> = ids.iter().map(|id| (*id, "cpu")).collect();
    assert!(indexer.named_metrics(&names).await.unwrap().iter().all(Option::is_some));
    let deleted = indexer.delete_resources(&ids).await;
    let expected: Vec<_> = (0..count).map(|number| Ok(vec![id(number)])).collect();
    assert_eq!(deleted, expected);
    assert_eq!(indexer.deleted_metrics(None, 10_000).await.unwrap().len(), count as usize);
    assert!(indexer.resource(GENERIC, uuid(5_000)).await.unwrap().is_some());
}

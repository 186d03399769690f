//! Metrics: creation, look-up, deletion.

use futures_util::future::join_all;
use gnudi_model::{Metric, MetricStatus, Timestamp};
use uuid::Uuid;

use super::{
    create, create_generic, create_low, id, named_metric, new_metric, policy,
    resource::{attaching, metrics_change, updated, with_metrics},
};
use crate::{
    Indexer, IndexerError, MetricFilter, MetricListing, MetricsChange, NewMetric, NewNamedMetric, Page,
};

fn taken(name: &str) -> IndexerError {
    IndexerError::NamedMetricAlreadyExists(name.to_owned())
}

pub(super) async fn is_kept_whole(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_generic(indexer, &[0]).await;
    assert_eq!(indexer.create_metrics(vec![]).await, []);
    let full = NewMetric {
        id: id(u128::MAX),
        creator: "user:project".to_owned(),
        name: Some("ó'dd; \u{0}\u{1F95F}".to_owned()),
        unit: Some("%".to_owned()),
        archive_policy_name: "low".to_owned(),
        resource_id: Some(Uuid::nil()),
        created_at: Timestamp::MAX,
        whole_name: None,
    };
    let expected = Metric {
        id: full.id,
        creator: full.creator.as_str().into(),
        name: full.name.as_deref().map(Into::into),
        unit: full.unit.as_deref().map(Into::into),
        archive_policy_name: "low".into(),
        resource_id: full.resource_id,
        status: MetricStatus::Active,
        created_at: full.created_at,
    };
    let bare = NewMetric { created_at: Timestamp::EPOCH, creator: String::new(), ..new_metric(0) };
    let created = indexer.create_metrics(vec![full.clone(), bare.clone()]).await;
    assert_eq!(**created[0].as_ref().unwrap(), expected);
    let found = indexer.metrics(&[full.id, bare.id]).await.unwrap();
    assert_eq!(**found[0].as_ref().unwrap(), expected);
    let found = found[1].as_ref().unwrap();
    assert_eq!((&found.name, &found.unit, found.resource_id), (&None, &None, None));
    assert_eq!((&*found.creator, found.created_at), ("", Timestamp::EPOCH));
}

pub(super) async fn whole_names_live_as_long_as_their_metrics(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_generic(indexer, &[7]).await;
    let whole = |number: u128| Some(format!("whole {number} {}\u{0}é", "x".repeat(5000)));
    let created = |number| {
        let new = NewNamedMetric { whole_name: whole(number), ..NewNamedMetric::new(id(number), "low") };
        MetricsChange::Create(new)
    };
    let cut = |number| NewMetric { whole_name: whole(number), ..new_metric(number) };
    let refused = NewMetric { archive_policy_name: "none".to_owned(), ..cut(2) };
    let outcomes = create(indexer, vec![cut(1), refused, new_metric(3)]).await;
    assert_eq!(outcomes.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let resource = with_metrics(8, &[("a", created(4)), ("b", created(5))]);
    assert!(indexer.create_resources(vec![resource]).await[0].is_ok());
    updated(indexer, 8, metrics_change(1, true, &[("c", created(6)), ("d", attaching(5))])).await;
    let ids: Vec<_> = (1..=7).map(id).collect();
    let expected = [whole(1), None, None, whole(4), None, whole(6), None];
    assert_eq!(indexer.whole_names(&ids).await.unwrap(), expected, "one that gets another name loses it");
    assert!(indexer.delete_metrics(&[id(1), id(3)]).await.iter().all(Result::is_ok));
    indexer.expunge_metrics(&[id(1), id(3), id(4)]).await.unwrap();
    let expected = [None, None, None, whole(4), None, whole(6), None];
    assert_eq!(indexer.whole_names(&ids).await.unwrap(), expected);
    assert_eq!(create(indexer, vec![new_metric(1)]).await, [None]);
    assert_eq!(indexer.whole_names(&[id(1)]).await.unwrap(), [None]);
    assert!(indexer.whole_names(&[]).await.unwrap().is_empty());
}

pub(super) async fn refusals_leave_neighbours_alone(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let unknown = NewMetric { archive_policy_name: "none".to_owned(), ..new_metric(2) };
    let twice = NewMetric { name: Some("other".to_owned()), ..new_metric(1) };
    let outcomes =
        create(indexer, vec![new_metric(1), unknown.clone(), new_metric(3), twice, new_metric(4), unknown])
            .await;
    let no_policy = Some(IndexerError::NoSuchArchivePolicy("none".to_owned()));
    assert_eq!(outcomes, [None, no_policy.clone(), None, Some(taken("other")), None, no_policy]);
    let found = indexer.metrics(&[id(1), id(2), id(3), id(4)]).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(found[0].as_ref().unwrap().name, None);
    assert_eq!(create(indexer, vec![new_metric(4), new_metric(5)]).await, [Some(taken("None")), None]);
}

pub(super) async fn names_are_unique_within_a_resource(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_generic(indexer, &[7, 8]).await;
    let outcomes = create(
        indexer,
        vec![
            named_metric(1, Some(7), "cpu"),
            named_metric(2, Some(7), "cpu"),
            named_metric(3, Some(8), "cpu"),
            named_metric(4, Some(7), "CPU"),
            named_metric(5, None, "cpu"),
            named_metric(6, None, "cpu"),
            NewMetric { resource_id: Some(Uuid::from_u128(7)), ..new_metric(7) },
            NewMetric { resource_id: Some(Uuid::from_u128(7)), ..new_metric(8) },
        ],
    )
    .await;
    assert_eq!(outcomes, [None, Some(taken("cpu")), None, None, None, None, None, None]);
    assert_eq!(create(indexer, vec![named_metric(9, Some(7), "cpu")]).await, [Some(taken("cpu"))]);
    // Deleting a metric frees its name.
    assert_eq!(indexer.delete_metrics(&[id(1)]).await, [Ok(())]);
    assert_eq!(create(indexer, vec![named_metric(9, Some(7), "cpu")]).await, [None]);
}

pub(super) async fn look_ups_answer_in_order(indexer: &dyn Indexer) {
    create_low(indexer).await;
    assert_eq!(create(indexer, vec![new_metric(2), new_metric(1)]).await, [None, None]);
    assert_eq!(indexer.metrics(&[]).await, Ok(vec![]));
    for _ in 0..2 {
        let found = indexer.metrics(&[id(2), id(9), id(1), id(2), id(8)]).await.unwrap();
        let ids: Vec<_> = found.iter().map(|metric| metric.as_ref().map(|metric| metric.id)).collect();
        assert_eq!(ids, [Some(id(2)), None, Some(id(1)), Some(id(2)), None]);
    }
    // A failed look-up succeeds once the metric exists.
    assert_eq!(create(indexer, vec![new_metric(9)]).await, [None]);
    assert!(indexer.metrics(&[id(9)]).await.unwrap()[0].is_some());
}

pub(super) async fn deletion_hides(indexer: &dyn Indexer) {
    create_low(indexer).await;
    assert_eq!(create(indexer, (1..=4).map(new_metric).collect()).await, vec![None; 4]);
    assert!(indexer.metrics(&[id(1), id(2)]).await.unwrap().iter().all(Option::is_some));
    let gone = |number| Err(IndexerError::NoSuchMetric(id(number)));
    assert_eq!(
        indexer.delete_metrics(&[id(2), id(9), id(3), id(2)]).await,
        [Ok(()), gone(9), Ok(()), gone(2)]
    );
    assert_eq!(indexer.delete_metrics(&[id(3)]).await, [gone(3)]);
    let found = indexer.metrics(&[id(1), id(2), id(3), id(4)]).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, true]);
    // Its id is not free before it is expunged.
    assert_eq!(create(indexer, vec![new_metric(2)]).await, [Some(taken("None"))]);

    let page = Page::first(10);
    let listing = async |status| {
        let filter = MetricFilter { status, ..MetricFilter::default() };
        let metrics = indexer.list_metrics(&MetricListing { filter, page: page.clone() }).await.unwrap();
        metrics.iter().map(|metric| (metric.id, metric.status)).collect::<Vec<_>>()
    };
    let (active, delete) = (MetricStatus::Active, MetricStatus::Delete);
    assert_eq!(listing(None).await, [(id(1), active), (id(4), active)]);
    assert_eq!(listing(Some(active)).await, [(id(1), active), (id(4), active)]);
    assert_eq!(listing(Some(delete)).await, [(id(2), delete), (id(3), delete)]);
    assert_eq!(indexer.deleted_metrics(None, 10).await, Ok(vec![id(2), id(3)]));
    assert_eq!(indexer.deleted_metrics(None, 1).await, Ok(vec![id(2)]));
    assert_eq!(indexer.deleted_metrics(Some(id(2)), 10).await, Ok(vec![id(3)]));
    assert_eq!(indexer.deleted_metrics(Some(id(3)), 10).await, Ok(vec![]));

    // Only deleted metrics are removed.
    indexer.expunge_metrics(&[id(3), id(1), id(9)]).await.unwrap();
    assert_eq!(indexer.deleted_metrics(None, 10).await, Ok(vec![id(2)]));
    assert!(indexer.metrics(&[id(1)]).await.unwrap()[0].is_some());
    assert_eq!(create(indexer, vec![new_metric(3)]).await, [None]);
    assert!(indexer.metrics(&[id(3)]).await.unwrap()[0].is_some());
}

pub(super) async fn many_callers_at_once(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_generic(indexer, &(0..50).collect::<Vec<_>>()).await;
    // Pairs of callers want the same name: one of each gets it.
    let callers = (0..100).map(|number| create(indexer, vec![named_metric(number, Some(number / 2), "cpu")]));
    let outcomes = join_all(callers).await.concat();
    assert_eq!(outcomes.len(), 100);
    for pair in outcomes.chunks(2) {
        let refused: Vec<_> = pair.iter().flatten().cloned().collect();
        assert_eq!(refused, [IndexerError::NamedMetricAlreadyExists("cpu".to_owned())]);
    }
    let created: Vec<_> =
        (0..100).filter(|number| outcomes[*number].is_none()).map(|n| id(n as u128)).collect();
    let deletions = join_all(created.iter().flat_map(|id| [*id, *id]).map(async |id| {
        let outcome = indexer.delete_metrics(&[id]).await;
        outcome == [Ok(())]
    }))
    .await;
    for pair in deletions.chunks(2) {
        assert_ne!(pair[0], pair[1], "one of two concurrent deletions finds the metric");
    }
    assert!(indexer.metrics(&created).await.unwrap().iter().all(Option::is_none));
}

pub(super) async fn many_at_once(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let count = 3_001;
    let ids: Vec<_> = (0..count).map(id).collect();
    assert_eq!(create(indexer, (0..count).map(new_metric).collect()).await, vec![None; count as usize]);
    assert!(indexer.metrics(&ids).await.unwrap().iter().all(Option::is_some));
    assert_eq!(indexer.delete_metrics(&ids).await, vec![Ok(()); count as usize]);
    assert_eq!(indexer.deleted_metrics(None, 10_000).await.unwrap(), ids);
    indexer.expunge_metrics(&ids).await.unwrap();
    assert_eq!(indexer.deleted_metrics(None, 10_000).await, Ok(vec![]));
}

pub(super) async fn moves_to_another_policy(indexer: &dyn Indexer) {
    create_low(indexer).await;
    create_generic(indexer, &[0]).await;
    indexer.create_archive_policy(policy("high", &[1])).await.unwrap();
    assert_eq!(create(indexer, vec![named_metric(1, Some(0), "a"), new_metric(2)]).await, [None, None]);
    let before = indexer.metrics(&[id(1)]).await.unwrap()[0].clone().unwrap();
    let generic = indexer.resource("generic", Uuid::nil()).await.unwrap().unwrap();
    assert_eq!(generic.metrics[0].archive_policy_name, "low");
    let moved = indexer.move_metric(id(1), "high").await.unwrap();
    assert_eq!(*moved, Metric { archive_policy_name: "high".into(), ..Metric::clone(&before) });
    assert_eq!(indexer.metrics(&[id(1)]).await.unwrap()[0].as_ref(), Some(&moved));
    assert_eq!(indexer.named_metrics(&[(Uuid::nil(), "a")]).await.unwrap()[0].as_ref(), Some(&moved));
    let generic = indexer.resource("generic", Uuid::nil()).await.unwrap().unwrap();
    assert_eq!(generic.metrics[0].archive_policy_name, "high");
    let (metric, policy) = indexer.current_metric(id(1)).await.unwrap().unwrap();
    assert_eq!((&metric, policy.name.as_str()), (&moved, "high"));
    assert_eq!(indexer.move_metric(id(1), "high").await, Ok(moved));
    let unknown = IndexerError::NoSuchArchivePolicy("none".to_owned());
    assert_eq!(indexer.move_metric(id(1), "none").await, Err(unknown));
    assert_eq!(indexer.move_metric(id(3), "low").await, Err(IndexerError::NoSuchMetric(id(3))));
    assert_eq!(indexer.current_metric(id(3)).await, Ok(None));
    // Each move is recorded, no refused one is.
    let moves = indexer.metric_moves(10).await.unwrap();
    assert_eq!(moves.iter().map(|moved| moved.metric).collect::<Vec<_>>(), [id(1), id(1)]);
    assert_eq!(indexer.metric_moves(1).await.unwrap(), moves[..1]);
    indexer.forget_moves(&moves[..1]).await.unwrap();
    assert_eq!(indexer.metric_moves(10).await.unwrap(), moves[1..]);
    indexer.forget_moves(&moves).await.unwrap();
    assert_eq!(indexer.metric_moves(10).await.unwrap(), []);
    // The former policy is free, the new one in use.
    let in_use = Err(IndexerError::ArchivePolicyInUse("high".to_owned()));
    assert_eq!(indexer.delete_archive_policy("high").await, in_use);
    assert_eq!(indexer.delete_metrics(&[id(1)]).await, [Ok(())]);
    assert_eq!(indexer.move_metric(id(1), "low").await, Err(IndexerError::NoSuchMetric(id(1))));
    assert_eq!(indexer.metrics(&[id(2)]).await.unwrap()[0].as_ref().unwrap().archive_policy_name, "low");
}

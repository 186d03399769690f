//! The contract of [`Resources`](crate::Resources) for the metrics of resources.

use gnudi_model::{Metric, MetricId, resource_type::GENERIC};

use super::{
    create, create_low, id, named_metric, new_metric, new_resource,
    resource::{
        at, attaching, create_resources, creating, metrics, metrics_change, refusal, revisions, updated,
        uuid, with_metrics,
    },
    shown,
};
use crate::{Indexer, IndexerError, MetricFilter, MetricListing, NewMetric, Page, ResourceListing};

pub(super) async fn named(indexer: &dyn Indexer, names: &[(u128, &str)]) -> Vec<Option<MetricId>> {
    let names: Vec<_> = names.iter().map(|(number, name)| (uuid(*number), *name)).collect();
    let found = indexer.named_metrics(&names).await.unwrap();
    found.iter().map(|metric| metric.as_ref().map(|metric| metric.id)).collect()
}

pub(in crate::conformance) async fn come_along(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let others = NewMetric { creator: "other".to_owned(), ..new_metric(2) };
    assert_eq!(create(indexer, vec![new_metric(1), others]).await, [None, None]);
    let new = with_metrics(1, &[("disk", attaching(1)), ("cpu", creating(3)), ("CPU", creating(4))]);
    let created = indexer.create_resources(vec![new]).await.remove(0).unwrap();
    assert_eq!(metrics(&created), [("CPU", id(4)), ("cpu", id(3)), ("disk", id(1))]);
    assert_eq!(indexer.resource(GENERIC, uuid(1)).await, Ok(Some(created.clone())));
    let metric = indexer.metrics(&[id(3), id(1)]).await.unwrap();
    let seen: Vec<&Metric> = metric.iter().map(|metric| &**metric.as_ref().unwrap()).collect();
    assert_eq!((seen[0].resource_id, seen[1].resource_id), (Some(uuid(1)), Some(uuid(1))));
    assert_eq!((&*seen[0].creator, seen[0].created_at), ("admin", at(0)));
    assert_eq!(seen[1].name.as_deref(), Some("disk"));
    assert_eq!(
        named(indexer, &[(1, "cpu"), (1, "none"), (2, "cpu"), (1, "disk"), (1, "cpu")]).await,
        [Some(id(3)), None, None, Some(id(1)), Some(id(3))]
    );
    assert_eq!(named(indexer, &[]).await, []);
    // A listing may be limited to some names, which are compared exactly.
    for (names, expected) in
        [(&["cpu", "none", "disk"][..], &["cpu", "disk"][..]), (&["Disk"], &[]), (&[], &[])]
    {
        let metric_names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        let listing = ResourceListing { metric_names, ..ResourceListing::of(GENERIC, at(0)) };
        let found = indexer.list_resources(&listing).await.unwrap();
        let found: Vec<_> = found[0].metrics.iter().filter_map(|metric| metric.name.as_deref()).collect();
        assert_eq!(found, expected);
    }
    // Another creator's metric, or a missing one, is rejected, with the whole resource.
    for (number, change) in [(2, attaching(2)), (9, attaching(9))] {
        let new = with_metrics(2, &[("mine", creating(5)), ("theirs", change)]);
        assert_eq!(
            create_resources(indexer, vec![new]).await,
            [Some(IndexerError::NoSuchMetric(id(number)))]
        );
        assert_eq!(indexer.resource(GENERIC, uuid(2)).await, Ok(None));
        assert_eq!(indexer.metrics(&[id(5)]).await, Ok(vec![None]));
    }
    // A metric can be moved from one resource to another.
    let new = with_metrics(2, &[("moved", attaching(1))]);
    let created = indexer.create_resources(vec![new]).await.remove(0).unwrap();
    assert_eq!(metrics(&created), [("moved", id(1))]);
    assert_eq!(metrics(&*shown(indexer, 1).await), [("CPU", id(4)), ("cpu", id(3))]);
    assert_eq!(named(indexer, &[(1, "disk"), (2, "disk"), (2, "moved")]).await, [None, None, Some(id(1))]);
}

pub(in crate::conformance) async fn need_their_resource(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let named = |number, resource| named_metric(number, Some(resource), "cpu");
    let missing = |resource| Some(IndexerError::NoSuchResource(uuid(resource)));
    assert_eq!(create_resources(indexer, vec![new_resource(1)]).await, [None]);
    let outcomes =
        create(indexer, vec![named(1, 9), named(2, 1), new_metric(3), named(4, 8), named(5, 1)]).await;
    let taken = Some(IndexerError::NamedMetricAlreadyExists("cpu".to_owned()));
    assert_eq!(outcomes, [missing(9), None, None, missing(8), taken]);
    assert_eq!(metrics(&*shown(indexer, 1).await), [("cpu", id(2))]);
    let filter = MetricFilter { resource_id: Some(uuid(1)), ..MetricFilter::default() };
    let page = Page::first(10);
    let listed = indexer.list_metrics(&MetricListing { filter, page }).await.unwrap();
    assert_eq!(listed.iter().map(|metric| metric.id).collect::<Vec<_>>(), [id(2)]);
    // A deleted metric is also removed from its resource.
    assert_eq!(indexer.delete_metrics(&[id(2)]).await, [Ok(())]);
    assert_eq!(metrics(&*shown(indexer, 1).await), []);
    assert_eq!(indexer.named_metrics(&[(uuid(1), "cpu")]).await, Ok(vec![None]));
    assert!(indexer.delete_resources(&[uuid(1)]).await[0].is_ok());
    assert_eq!(create(indexer, vec![named(6, 1)]).await, [missing(1)]);
}

pub(in crate::conformance) async fn are_added_or_replaced(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let new = vec![with_metrics(1, &[("a", creating(1)), ("b", creating(2))]), new_resource(2)];
    assert_eq!(create_resources(indexer, new).await, [None, None]);
    let others = NewMetric { creator: "other".to_owned(), ..new_metric(10) };
    assert_eq!(create(indexer, vec![new_metric(9), others]).await, [None, None]);

    let answer =
        updated(indexer, 1, metrics_change(1, true, &[("c", creating(3)), ("d", attaching(9))])).await;
    assert_eq!(metrics(&answer.resource), [("a", id(1)), ("b", id(2)), ("c", id(3)), ("d", id(9))]);
    assert_eq!((answer.detached, answer.resource.revision_start), (vec![], at(0)));
    assert_eq!(revisions(indexer, 1).await.len(), 1);
    // The same metric with another name.
    let answer = updated(indexer, 1, metrics_change(2, true, &[("e", attaching(9))])).await;
    assert_eq!(metrics(&answer.resource), [("a", id(1)), ("b", id(2)), ("c", id(3)), ("e", id(9))]);
    assert_eq!(named(indexer, &[(1, "d"), (1, "e")]).await, [None, Some(id(9))]);
    let refused = refusal(indexer, 1, metrics_change(3, true, &[("x", attaching(10))])).await;
    assert_eq!(refused, IndexerError::NoSuchMetric(id(10)));

    let answer =
        updated(indexer, 1, metrics_change(4, false, &[("a", attaching(1)), ("b", creating(4))])).await;
    assert_eq!(metrics(&answer.resource), [("a", id(1)), ("b", id(4))]);
    assert_eq!(answer.detached, [id(2), id(3), id(9)]);
    assert_eq!(named(indexer, &[(1, "a"), (1, "b"), (1, "c")]).await, [Some(id(1)), Some(id(4)), None]);
    // Detached metrics keep their names and stay active.
    let left = indexer.metrics(&[id(2), id(9)]).await.unwrap();
    let left: Vec<_> =
        left.iter().flatten().map(|metric| (metric.name.as_deref().unwrap(), metric.resource_id)).collect();
    assert_eq!(left, [("b", None), ("e", None)]);
    let answer = updated(indexer, 2, metrics_change(5, false, &[("b", attaching(4))])).await;
    assert_eq!((metrics(&answer.resource), answer.detached), (vec![("b", id(4))], vec![]));
    assert_eq!(metrics(&*shown(indexer, 1).await), [("a", id(1))]);
    let answer = updated(indexer, 1, metrics_change(6, false, &[])).await;
    assert_eq!((metrics(&answer.resource), answer.detached), (vec![], vec![id(1)]));
}

//! Listings of metrics: filters, orders, pages.

use gnudi_model::{Metric, MetricId, MetricStatus};
use uuid::Uuid;

use super::{create, create_generic, create_low, id, new_metric, new_resource, policy};
use crate::{
    Creators, Indexer, IndexerError, MetricFilter, MetricListing, MetricMarker, MetricPages, MetricScope,
    MetricSort, NewMetric, NewResource, Page, Pattern, SortDirection, SortKey,
};

/// Metrics that share each attribute with some others, and lack optional ones.
async fn populate(indexer: &dyn Indexer) {
    create_low(indexer).await;
    indexer.create_archive_policy(policy("high", &[1])).await.unwrap();
    let resource = |number: u128| (number % 4 == 1).then_some((30 - number) << 64);
    create_generic(indexer, &(0..24).filter_map(resource).collect::<Vec<_>>()).await;
    let metrics: Vec<_> = (0..24u128)
        .map(|number| NewMetric {
            // Not in the order of creation.
            id: id(number * 7 % 24 + 1),
            creator: ["admin", "Zoe", "u:p"][number as usize % 3].to_owned(),
            name: [None, Some("cpu"), Some("disk"), Some("Disk"), Some("")][number as usize % 5]
                .map(|name| if number < 20 { name.to_owned() } else { format!("{name}{number}") }),
            unit: [None, Some("%")][number as usize / 2 % 2].map(str::to_owned),
            archive_policy_name: ["low", "high"][number as usize / 3 % 2].to_owned(),
            resource_id: resource(number).map(Uuid::from_u128),
            ..new_metric(0)
        })
        .collect();
    assert_eq!(create(indexer, metrics).await, vec![None; 24]);
    assert_eq!(indexer.delete_metrics(&[id(5), id(12)]).await, [Ok(()), Ok(())]);
}

async fn list(indexer: &dyn Indexer, filter: MetricFilter, page: Page) -> Vec<MetricId> {
    let metrics = indexer.list_metrics(&MetricListing { filter, page }).await.unwrap();
    metrics.iter().map(|metric| metric.id).collect()
}

fn all() -> Page {
    Page::first(100)
}

/// Metrics of a project: those that it has created, and those of resources that it owns or has created.
pub(super) async fn scopes(indexer: &dyn Indexer) {
    create_low(indexer).await;
    let resource = |number, creator: &str, project: Option<&str>| NewResource {
        creator: creator.to_owned(),
        project_id: project.map(str::to_owned),
        ..new_resource(number)
    };
    let resources =
        vec![resource(1, "u:a", Some("b")), resource(2, "u:b", Some("a")), resource(3, "u:c", None)];
    assert!(indexer.create_resources(resources).await.iter().all(Result::is_ok));
    let metric = |number: u128, creator: &str, of: Option<u128>| NewMetric {
        creator: creator.to_owned(),
        name: Some(format!("m{number}")),
        resource_id: of.map(Uuid::from_u128),
        ..new_metric(number)
    };
    let metrics = vec![
        metric(1, "u:a", None),
        metric(2, "u:b", Some(1)),
        metric(3, "u:c", Some(2)),
        metric(4, "u:xa", Some(3)),
        metric(5, "a", None),
        metric(6, "v:a", Some(3)),
        metric(7, "u:%", None),
    ];
    assert_eq!(create(indexer, metrics).await, vec![None; 7]);
    let of = |project: &str| Some(Creators::Of(project.to_owned()));
    let owned = |project: &str| Some(project.to_owned());
    let nothing = MetricScope::default();
    for (scope, expected) in [
        (MetricScope { creators: of("a"), ..nothing.clone() }, &[1, 6][..]),
        (MetricScope { creators: of("%"), ..nothing.clone() }, &[7]),
        (MetricScope { creators: Some(Creators::Is("a".to_owned())), ..nothing.clone() }, &[5]),
        (MetricScope { resource_project_id: owned("a"), ..nothing.clone() }, &[3]),
        (MetricScope { resource_creators: of("a"), ..nothing.clone() }, &[2]),
        (MetricScope { creators: of("a"), resource_project_id: owned("a"), ..nothing.clone() }, &[1, 3, 6]),
        (
            MetricScope { creators: of("a"), resource_project_id: owned("a"), resource_creators: of("a") },
            &[1, 2, 3, 6],
        ),
        (nothing.clone(), &[]),
    ] {
        let filter = MetricFilter { scope: Some(scope.clone()), ..MetricFilter::default() };
        let expected: Vec<_> = expected.iter().copied().map(id).collect();
        assert_eq!(list(indexer, filter, all()).await, expected, "{scope:?}");
    }
    assert_eq!(indexer.delete_metrics(&[id(6)]).await, [Ok(())]);
    for (creators, expected) in [
        (Some(Creators::Of("a".to_owned())), 1),
        (Some(Creators::Of("_".to_owned())), 0),
        (Some(Creators::Is("a".to_owned())), 1),
        (None, list(indexer, MetricFilter::default(), all()).await.len() as u64),
    ] {
        assert_eq!(indexer.count_metrics(creators.as_ref()).await, Ok(expected), "{creators:?}");
    }
    // More creators than the steps that databases allow a recursive query by default.
    let many = (0..1_100).map(|number| metric(1_000 + number, &format!("user{number}:many"), None)).collect();
    assert_eq!(create(indexer, many).await, vec![None; 1_100]);
    let creators = Creators::Of("many".to_owned());
    assert_eq!(indexer.count_metrics(Some(&creators)).await, Ok(1_100));
}

pub(super) async fn filters(indexer: &dyn Indexer) {
    populate(indexer).await;
    let everything = MetricListing { filter: MetricFilter::default(), page: all() };
    let everything = indexer.list_metrics(&everything).await.unwrap();
    assert_eq!(everything.len(), 22);
    assert!(everything.is_sorted_by_key(|metric| metric.id));
    let expect = |accepts: &dyn Fn(&Metric) -> bool| -> Vec<MetricId> {
        everything.iter().filter(|metric| accepts(metric)).map(|metric| metric.id).collect()
    };
    let text = |text: &str| Some(text.to_owned());
    let none = MetricFilter::default();

    let filter = MetricFilter { creator: text("admin"), ..none.clone() };
    assert_eq!(list(indexer, filter, all()).await, expect(&|metric| metric.creator == "admin"));
    let filter = MetricFilter { name: text("disk"), ..none.clone() };
    let disks = expect(&|metric| metric.name.as_deref() == Some("disk"));
    assert!(!disks.is_empty());
    assert_eq!(list(indexer, filter, all()).await, disks);
    for pattern in ["disk", "%is%", "d_sk", "%"] {
        let filter = MetricFilter { name_like: Pattern::read(pattern), ..none.clone() };
        let likely = |name: &str| {
            if pattern == "%" {
                true
            } else if pattern == "%is%" {
                name.contains("is")
            } else {
                name == "disk"
            }
        };
        let expected = expect(&|metric| metric.name.as_deref().is_some_and(likely));
        assert!(expected.len() >= disks.len());
        assert_eq!(list(indexer, filter, all()).await, expected, "{pattern}");
    }
    let filter = MetricFilter { name: text(""), ..none.clone() };
    assert_eq!(list(indexer, filter, all()).await, expect(&|metric| metric.name.as_deref() == Some("")));
    let filter = MetricFilter { unit: text("%"), creator: text("Zoe"), ..none.clone() };
    let both = expect(&|metric| metric.unit.as_deref() == Some("%") && metric.creator == "Zoe");
    assert!(!both.is_empty());
    assert_eq!(list(indexer, filter, all()).await, both);
    let filter = MetricFilter { archive_policy_name: text("high"), ..none.clone() };
    assert_eq!(list(indexer, filter, all()).await, expect(&|metric| metric.archive_policy_name == "high"));
    let filter = MetricFilter { id: Some(id(7)), ..none.clone() };
    assert_eq!(list(indexer, filter, all()).await, [id(7)]);
    for nothing in [
        MetricFilter { id: Some(id(7)), name: text("none"), ..none.clone() },
        MetricFilter { id: Some(id(5)), ..none.clone() },
        MetricFilter { creator: text("ADMIN"), ..none.clone() },
        MetricFilter { name: text("dis%"), ..none.clone() },
        MetricFilter { name_like: Pattern::read("DIS%"), ..none.clone() },
    ] {
        assert_eq!(list(indexer, nothing, all()).await, []);
    }
    assert_eq!(list(indexer, none, Page { limit: 0, ..all() }).await, []);
}

/// Every order of one or two keys: pages of any size together are the whole listing.
pub(super) async fn pages_follow_each_other(indexer: &dyn Indexer) {
    populate(indexer).await;
    let mut orders: Vec<Vec<MetricSort>> = vec![vec![]];
    for (index, key) in SortKey::ALL.into_iter().enumerate() {
        for direction in SortDirection::ALL {
            let first = MetricSort { key, direction };
            // The second key varies with the first, so that each pair occurs in some direction.
            let second =
                MetricSort { key: SortKey::ALL[(index + 2) % 7], direction: SortDirection::ALL[index % 6] };
            orders.push(vec![first]);
            orders.push(vec![first, second]);
        }
    }
    for sorts in orders {
        let whole = list(indexer, MetricFilter::default(), Page { sorts: sorts.clone(), ..all() }).await;
        assert_eq!(whole.len(), 22, "{sorts:?}");
        for limit in [1, 5, 22] {
            let mut paged: Vec<MetricId> = Vec::new();
            loop {
                let page =
                    Page { limit, marker: paged.last().copied().map(MetricMarker::Id), sorts: sorts.clone() };
                let part = list(indexer, MetricFilter::default(), page).await;
                if part.is_empty() {
                    break;
                }
                assert!(part.len() <= limit);
                paged.extend(part);
            }
            assert_eq!(paged, whole, "{sorts:?} by {limit}");
        }
    }
}

pub(super) async fn refuses_strange_markers(indexer: &dyn Indexer) {
    populate(indexer).await;
    for marker in [id(1000), id(5)] {
        let page = Page { marker: Some(MetricMarker::Id(marker)), ..all() };
        let listing = MetricListing { filter: MetricFilter::default(), page };
        let refused = indexer.list_metrics(&listing).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("Invalid pagination: `Invalid marker: `{marker}''"));
        assert!(matches!(refused, IndexerError::InvalidPagination(_)));
    }
    // A deleted metric can be the marker of a listing of deleted ones.
    let deleted = MetricFilter { status: Some(MetricStatus::Delete), ..MetricFilter::default() };
    let behind = |marker| Page { marker: Some(MetricMarker::Id(marker)), ..all() };
    assert_eq!(list(indexer, deleted.clone(), behind(id(5))).await, [id(12)]);
    assert_eq!(list(indexer, deleted, behind(id(4))).await, [id(5), id(12)]);
    // A marker that does not match the filter is still a position.
    let filter = MetricFilter { creator: Some("admin".to_owned()), ..MetricFilter::default() };
    let whole = list(indexer, filter.clone(), all()).await;
    let outside =
        (1..24).map(id).find(|id| id.0.as_u128() != 5 && !whole.contains(id) && *id > whole[0]).unwrap();
    let expected: Vec<_> = whole.iter().copied().filter(|id| *id > outside).collect();
    assert_eq!(list(indexer, filter, behind(outside)).await, expected);
    // One outside of the scope is none.
    let scope = MetricScope { creators: Some(Creators::Is("Zoe".to_owned())), ..MetricScope::default() };
    let filter = MetricFilter { scope: Some(scope), ..MetricFilter::default() };
    let seen = list(indexer, filter.clone(), all()).await;
    assert_eq!(list(indexer, filter.clone(), behind(seen[0])).await, seen[1..]);
    let refused = indexer.list_metrics(&MetricListing { filter, page: behind(whole[0]) }).await;
    assert!(matches!(refused, Err(IndexerError::InvalidPagination(_))), "{refused:?}");
}

/// As when the last metric of a page is deleted before the next page is listed.
pub(super) async fn continues_behind_a_deleted_metric(indexer: &dyn Indexer) {
    populate(indexer).await;
    for sorts in
        ["id", "name", "name:desc", "resource_id"].map(|sort| vec![sort.parse::<MetricSort>().unwrap()])
    {
        let whole = list(indexer, MetricFilter::default(), Page { sorts: sorts.clone(), ..all() }).await;
        let page = Page { limit: 3, sorts, ..all() };
        let listing = MetricListing { filter: MetricFilter::default(), page: page.clone() };
        let last = indexer.list_metrics(&listing).await.unwrap().pop().unwrap();
        assert_eq!(indexer.delete_metrics(&[last.id]).await, [Ok(())]);
        let next = Page { limit: 100, marker: Some(MetricMarker::Listed(last)), ..page };
        assert_eq!(list(indexer, MetricFilter::default(), next).await, whole[3..]);
    }
    let (mut pages, mut found) = (MetricPages::new(3), 0);
    while let Some(page) = pages.next(indexer).await.unwrap() {
        found += page.len();
        let ids: Vec<_> = page.iter().map(|metric| metric.id).collect();
        assert!(indexer.delete_metrics(&ids).await.iter().all(Result::is_ok));
    }
    assert_eq!(found, 18);
}

//! The contract of [`Resources`](crate::Resources) for removing former revisions.

use super::{
    create_type, instance,
    resource::{at, change, create_resources, revisions, updated, uuid},
    shown, text,
};
use crate::{Filter, FilterValue, Indexer, ResourceChange, ResourceListing};

async fn with_host(indexer: &dyn Indexer, host: &str) -> usize {
    let filter = Filter::equal("host", FilterValue::Text(host.to_owned()));
    let listing =
        ResourceListing { filter: Some(filter), history: true, ..ResourceListing::of("instance", at(0)) };
    indexer.list_resources(&listing).await.unwrap().len()
}

pub(in crate::conformance) async fn former_revisions_are_removed(indexer: &dyn Indexer) {
    create_type(indexer).await;
    assert_eq!(create_resources(indexer, vec![instance(1), instance(2), instance(3)]).await, vec![None; 3]);
    for (number, second) in [(1, 10), (2, 20), (1, 30), (2, 40)] {
        let attributes = [("host".into(), text(&format!("h{second}")))].into();
        let change = ResourceChange { attributes, ..change(second) };
        indexer.update_resource("instance", uuid(number), change).await.unwrap();
    }
    let before = shown(indexer, 1).await;
    // A revision that ends exactly at the time stays, and so do current ones.
    assert_eq!(indexer.remove_revisions(at(10), 100).await, Ok(0));
    // The earliest are removed first.
    assert_eq!(indexer.remove_revisions(at(41), 3).await, Ok(3));
    let lengths = async || [revisions(indexer, 1).await.len(), revisions(indexer, 2).await.len()];
    assert_eq!(lengths().await, [1, 2]);
    assert_eq!((with_host(indexer, "h10").await, with_host(indexer, "h20").await), (0, 1));
    assert_eq!(indexer.remove_revisions(at(41), 0).await, Ok(0));
    assert_eq!(indexer.remove_revisions(at(41), 3).await, Ok(1));
    assert_eq!(indexer.remove_revisions(at(1_000_000), 3).await, Ok(0));
    assert_eq!((with_host(indexer, "h20").await, with_host(indexer, "h40").await), (0, 1));
    assert_eq!((lengths().await, revisions(indexer, 3).await.len()), ([1, 1], 1));
    assert_eq!(shown(indexer, 1).await, before);
    // New revisions can be added.
    updated(indexer, 1, ResourceChange { user_id: Some(None), ..change(50) }).await;
    assert_eq!(lengths().await, [2, 1]);
    // More than one transaction removes.
    for second in 100..700 {
        let user_id = Some(Some(format!("u{second}")));
        updated(indexer, 3, ResourceChange { user_id, ..change(second) }).await;
    }
    assert_eq!(indexer.remove_revisions(at(650), 1_000).await, Ok(551));
    assert_eq!(revisions(indexer, 3).await.len(), 51);
}

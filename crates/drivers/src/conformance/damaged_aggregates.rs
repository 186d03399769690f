//! The rules of [`AggregateStore`] for damage: it is reported at each read, no older version is returned
//! instead, and its neighbours are whole.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::aggregates::{apply, everything, head, key, metric, range, write};
use crate::aggregates::{AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError};

/// A store whose bytes a test can change.
#[async_trait]
pub trait Damageable {
    type Store: AggregateStore;

    /// Opens or creates the store, without anything cached.
    async fn open(&self) -> Arc<Self::Store>;

    /// Flips a bit of a stored value, wherever its bytes are ([`hurt`]).
    async fn damage(&self, value: &[u8]);
}

/// The bytes with one bit of the value flipped; `None` if they do not contain it.
pub fn hurt(bytes: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let at = bytes.windows(value.len()).position(|window| window == value)?;
    let mut hurt = bytes.to_vec();
    hurt[at + value.len() / 2] ^= 1;
    Some(hurt)
}

/// Runs all tests on a driver; each call of `make` must give an empty place.
pub async fn damaged_aggregates<D: Damageable>(make: impl AsyncFn() -> D) {
    a_damaged_head_is_told(&make().await).await;
    a_damaged_block_is_told(&make().await).await;
    what_is_damaged_can_go(&make().await).await;
}

/// Unique values.
fn text(what: &str) -> String {
    format!("<{what}>{}", "-".repeat(40))
}

/// Two passes over three metrics; the second replaces each head.
async fn two_passes(store: &dyn AggregateStore) {
    for (round, first) in [("old", 0), ("new", 60)] {
        let writes = (1..=3).map(|id| {
            let block = text(&format!("{round} block {id}"));
            let head = text(&format!("{round} head {id}"));
            write(id, &head, &[(key(id, first, first + 59), block.as_str())])
        });
        apply(store, writes.collect()).await;
        store.sync().await.unwrap();
    }
}

async fn blocks(store: &dyn AggregateStore, range: BlockRange) -> Blocks {
    store.read_blocks(&[range]).await.remove(0).unwrap()
}

fn keys(blocks: &Blocks) -> Vec<BlockKey> {
    blocks.whole.iter().map(|(key, _)| *key).collect()
}

async fn is_damaged(store: &dyn AggregateStore, id: u128) -> bool {
    match store.read_heads(&[metric(id)]).await.remove(0) {
        Err(StoreError::Damaged(place)) => {
            assert!(!place.is_empty());
            true
        }
        Ok(_) => false,
        Err(error) => panic!("neither there nor damaged: {error}"),
    }
}

async fn a_damaged_head_is_told<D: Damageable>(place: &D) {
    two_passes(&*place.open().await).await;
    place.damage(text("new head 2").as_bytes()).await;
    for _ in 0..2 {
        let store = place.open().await;
        for _ in 0..2 {
            assert!(is_damaged(&*store, 2).await, "at each read, also after a restart");
            for id in [1, 3] {
                assert_eq!(head(&*store, id).await, Some(text(&format!("new head {id}"))));
            }
        }
        let heads = store.read_heads(&[metric(1), metric(2), metric(3), metric(4)]).await;
        let told = heads.iter().map(Result::is_ok).collect::<Vec<_>>();
        assert_eq!(told, [true, false, true, true], "an answer for each");
        assert_eq!(keys(&blocks(&*store, everything(2)).await), [key(2, 0, 59), key(2, 60, 119)]);
    }
    let store = place.open().await;
    apply(&*store, vec![write(2, &text("another"), &[])]).await;
    assert_eq!(head(&*store, 2).await, Some(text("another")), "what is written is whole");
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(head(&*place.open().await, 2).await, Some(text("another")));
}

async fn a_damaged_block_is_told<D: Damageable>(place: &D) {
    two_passes(&*place.open().await).await;
    place.damage(text("old block 2").as_bytes()).await;
    for _ in 0..2 {
        let store = place.open().await;
        for _ in 0..2 {
            let found = blocks(&*store, everything(2)).await;
            assert_eq!((keys(&found), found.damaged.len()), (vec![key(2, 60, 119)], 1));
            let found = blocks(&*store, range(2, 60, 500)).await;
            assert_eq!((keys(&found), found.damaged.len()), (vec![key(2, 60, 119)], 0), "beside it");
            let found = blocks(&*store, range(2, 30, 59)).await;
            assert_eq!((keys(&found), found.damaged.len()), (vec![], 1));
        }
        assert_eq!(head(&*store, 2).await, Some(text("new head 2")));
        for id in [1, 3] {
            let found = blocks(&*store, everything(id)).await;
            assert_eq!((keys(&found).len(), found.damaged.len()), (2, 0), "a neighbour");
        }
        let listed = store.list_blocks(&[everything(2)]).await.remove(0).unwrap();
        assert_eq!(listed, [key(2, 0, 59), key(2, 60, 119)], "so that it can expire");
    }
}

async fn what_is_damaged_can_go<D: Damageable>(place: &D) {
    two_passes(&*place.open().await).await;
    for damaged in ["old block 1", "old block 2", "new head 3"] {
        place.damage(text(damaged).as_bytes()).await;
    }
    let store = place.open().await;
    let expired = vec![key(1, 0, 59)];
    apply(&*store, vec![MetricWrite { expired, ..write(1, "head", &[]) }]).await;
    apply(&*store, vec![write(2, "head", &[(key(2, 0, 59), "again")])]).await;
    store.delete(Fence::EVERYTHING, &[metric(3)]).await.remove(0).unwrap();
    store.sync().await.unwrap();
    drop(store);
    let store = place.open().await;
    let found = blocks(&*store, everything(1)).await;
    assert_eq!((keys(&found), found.damaged.len()), (vec![key(1, 60, 119)], 0), "expired");
    let found = blocks(&*store, everything(2)).await;
    assert_eq!((keys(&found).len(), found.damaged.len()), (2, 0), "written again");
    assert_eq!(found.whole[0].1, Bytes::from_static(b"again"));
    assert_eq!(head(&*store, 3).await, None, "deleted");
    assert_eq!(blocks(&*store, everything(3)).await, Blocks::default());
}

//! The rules of [`AggregateStore`].

use std::{num::NonZeroU16, sync::Arc};

use bytes::Bytes;
use gnudi_model::{MetricId, Sack, SackCount, SackId, Timespan, Timestamp};
use uuid::Uuid;

use super::movable::a_closed_store_takes_nothing;
use crate::aggregates::{AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError};

/// Runs all tests on a driver; each call of `make` must give an empty one.
pub async fn aggregates<D: AggregateStore>(make: impl AsyncFn() -> Arc<D>) {
    empty(&*make().await).await;
    heads_are_replaced(&*make().await).await;
    ranges_select_by_bucket(&*make().await).await;
    one_range_never_sees_another(&*make().await).await;
    expired_blocks_go(&*make().await).await;
    blocks_are_divided_and_joined(&*make().await).await;
    deleting_leaves_nothing(&*make().await).await;
    many_at_once(&*make().await).await;
    a_lower_token_writes_nothing(&*make().await).await;
    fences_follow_a_split(&*make().await).await;
    a_closed_store_takes_nothing(&*make().await).await;
}

pub(super) fn metric(id: u128) -> MetricId {
    MetricId(Uuid::from_u128(id))
}

/// A block of buckets `first..=last`, in seconds, of one-second buckets.
pub(super) fn key(id: u128, first: i64, last: i64) -> BlockKey {
    let (first, last) = (Timestamp::from_secs(first), Timestamp::from_secs(last));
    BlockKey { metric: metric(id), granularity: Timespan::from_secs(1), first, last }
}

pub(super) fn range(id: u128, from: i64, to: i64) -> BlockRange {
    let (from, to) = (Timestamp::from_secs(from), Timestamp::from_secs(to));
    BlockRange { metric: metric(id), granularity: Timespan::from_secs(1), from, to }
}

pub(super) fn everything(id: u128) -> BlockRange {
    BlockRange { from: Timestamp(i64::MIN), to: Timestamp::MAX, ..range(id, 0, 0) }
}

pub(super) fn write(id: u128, head: &str, blocks: &[(BlockKey, &str)]) -> MetricWrite {
    MetricWrite {
        metric: metric(id),
        blocks: blocks.iter().map(|(key, text)| (*key, Bytes::copy_from_slice(text.as_bytes()))).collect(),
        expired: Vec::new(),
        head: Bytes::copy_from_slice(head.as_bytes()),
    }
}

pub(super) async fn apply(store: &dyn AggregateStore, writes: Vec<MetricWrite>) {
    let count = writes.len();
    let answers = store.write(Fence::EVERYTHING, writes).await;
    assert_eq!(answers.len(), count, "one answer per item");
    for answer in answers {
        answer.unwrap();
    }
}

pub(super) async fn head(store: &dyn AggregateStore, id: u128) -> Option<String> {
    let mut answers = store.read_heads(&[metric(id)]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0).unwrap().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// The blocks that a range reads, compared with those that it lists.
async fn read(store: &dyn AggregateStore, range: BlockRange) -> Vec<(BlockKey, String)> {
    let mut blocks = store.read_blocks(&[range]).await;
    let mut keys = store.list_blocks(&[range]).await;
    assert_eq!((blocks.len(), keys.len()), (1, 1));
    let Blocks { whole: blocks, damaged } = blocks.remove(0).unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    let listed = keys.remove(0).unwrap();
    assert_eq!(blocks.iter().map(|(key, _)| *key).collect::<Vec<_>>(), listed);
    blocks.into_iter().map(|(key, bytes)| (key, String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

async fn empty(store: &dyn AggregateStore) {
    assert_eq!(head(store, 1).await, None);
    assert_eq!(read(store, everything(1)).await, []);
    apply(store, Vec::new()).await;
    assert!(store.read_heads(&[]).await.is_empty());
    assert!(store.delete(Fence::EVERYTHING, &[metric(1)]).await.remove(0).is_ok());
    store.sync().await.unwrap();
}

async fn heads_are_replaced(store: &dyn AggregateStore) {
    apply(store, vec![write(1, "one", &[]), write(2, "two", &[]), write(1, "one again", &[])]).await;
    assert_eq!(head(store, 1).await.as_deref(), Some("one again"));
    apply(store, vec![write(2, "", &[])]).await;
    store.sync().await.unwrap();
    let heads = store.read_heads(&[metric(2), metric(3), metric(1), metric(2)]).await;
    let heads: Vec<_> = heads.into_iter().map(Result::unwrap).collect();
    let two = Some(Bytes::new());
    assert_eq!(heads, [two.clone(), None, Some(Bytes::from_static(b"one again")), two]);
    store.raise(Fence::EVERYTHING).await.unwrap();
    apply(store, vec![write(3, "three", &[])]).await;
    let own = store.read_own_heads(Fence::EVERYTHING, &[metric(4), metric(3)]).await;
    let own: Vec<_> = own.into_iter().map(Result::unwrap).collect();
    assert_eq!(own, [None, Some(Bytes::from_static(b"three"))]);
}

async fn ranges_select_by_bucket(store: &dyn AggregateStore) {
    let (a, b, c) = (key(1, 0, 59), key(1, 60, 100), key(1, 200, 259));
    apply(store, vec![write(1, "h", &[(c, "c"), (a, "a")])]).await;
    apply(store, vec![write(1, "h", &[(b, "b")])]).await;
    let names =
        |blocks: Vec<(BlockKey, String)>| blocks.into_iter().map(|(_, text)| text).collect::<String>();
    for (from, to, wanted) in [
        (0, 0, "a"),
        (59, 60, "ab"),
        (60, 60, "b"),
        (100, 100, "b"),
        (101, 199, ""),
        (101, 200, "c"),
        (30, 230, "abc"),
        (259, 1000, "c"),
        (260, 1000, ""),
        (-5, -1, ""),
        (230, 30, ""),
    ] {
        assert_eq!(names(read(store, range(1, from, to)).await), wanted, "{from}..={to}");
    }
    assert_eq!(names(read(store, everything(1)).await), "abc");
    apply(store, vec![write(1, "h", &[(b, "B")])]).await;
    assert_eq!(names(read(store, everything(1)).await), "aBc", "a block of the same key is replaced");
}

async fn one_range_never_sees_another(store: &dyn AggregateStore) {
    let coarse = BlockKey { granularity: Timespan::from_secs(60), ..key(1, 0, 59) };
    apply(store, vec![write(1, "h", &[(key(1, 0, 59), "fine"), (coarse, "coarse")])]).await;
    apply(store, vec![write(2, "h", &[(key(2, 0, 59), "other")])]).await;
    assert_eq!(read(store, everything(1)).await, [(key(1, 0, 59), "fine".to_owned())]);
    let of_coarse = BlockRange { granularity: Timespan::from_secs(60), ..everything(1) };
    assert_eq!(read(store, of_coarse).await, [(coarse, "coarse".to_owned())]);
    assert_eq!(read(store, everything(2)).await, [(key(2, 0, 59), "other".to_owned())]);
    assert_eq!(read(store, everything(0)).await, []);
    assert_eq!(read(store, everything(3)).await, []);
}

async fn expired_blocks_go(store: &dyn AggregateStore) {
    let (a, b, c) = (key(1, 0, 9), key(1, 10, 19), key(1, 20, 29));
    apply(store, vec![write(1, "h", &[(a, "a"), (b, "b")])]).await;
    let expired = vec![a, key(1, 500, 509)];
    apply(store, vec![MetricWrite { expired, ..write(1, "h2", &[(c, "c")]) }]).await;
    assert_eq!(read(store, everything(1)).await, [(b, "b".to_owned()), (c, "c".to_owned())]);
    assert_eq!(head(store, 1).await.as_deref(), Some("h2"));
}

/// A removed block may overlap what replaced it: neither hides the other from a read of its beginning, be they in one page
/// of a table or in several.
async fn blocks_are_divided_and_joined(store: &dyn AggregateStore) {
    for (id, bytes) in [(1, 1), (2, 20_000)] {
        let whole = key(id, 10, 100);
        let parts = [(10, 40), (50, 60), (62, 65), (70, 80), (85, 100)].map(|(from, to)| key(id, from, to));
        let [of_whole, of_part, of_joined] = ["w", "p", "j"].map(|text| text.repeat(bytes));
        let is_read = async |from, to, expected: &[(BlockKey, &String)]| {
            let found = read(store, range(id, from, to)).await;
            let found: Vec<_> = found.iter().map(|(key, text)| (*key, text)).collect();
            assert!(found == expected, "{from} to {to}, blocks of {bytes} bytes");
        };
        apply(store, vec![write(id, "h1", &[(whole, &*of_whole)])]).await;
        store.sync().await.unwrap();
        let divided = write(id, "h2", &parts.map(|part| (part, &*of_part)));
        apply(store, vec![MetricWrite { expired: vec![whole], ..divided }]).await;
        is_read(10, 30, &[(parts[0], &of_part)]).await;
        is_read(45, 45, &[]).await;
        is_read(82, 90, &[(parts[4], &of_part)]).await;
        let joined = write(id, "h3", &[(whole, &*of_joined)]);
        apply(store, vec![MetricWrite { expired: parts.to_vec(), ..joined }]).await;
        is_read(10, 30, &[(whole, &of_joined)]).await;
        is_read(45, 45, &[(whole, &of_joined)]).await;
    }
}

async fn deleting_leaves_nothing(store: &dyn AggregateStore) {
    for id in 1..=3 {
        apply(store, vec![write(id, "h", &[(key(id, 0, 9), "a"), (key(id, 10, 19), "b")])]).await;
    }
    let answers = store.delete(Fence::EVERYTHING, &[metric(1), metric(9), metric(3)]).await;
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(Result::is_ok));
    for (id, there) in [(1, false), (2, true), (3, false)] {
        assert_eq!(head(store, id).await.is_some(), there, "head of {id}");
        assert_eq!(read(store, everything(id)).await.len(), if there { 2 } else { 0 }, "blocks of {id}");
    }
    apply(store, vec![write(1, "new", &[(key(1, 30, 39), "n")])]).await;
    assert_eq!(head(store, 1).await.as_deref(), Some("new"));
    assert_eq!(read(store, everything(1)).await, [(key(1, 30, 39), "n".to_owned())], "old blocks are back");
}

async fn many_at_once(store: &dyn AggregateStore) {
    let text = "x".repeat(700);
    for round in 0..4 {
        let writes = (0..300u128)
            .map(|id| {
                let first = round * 60;
                write(id, &format!("{round} {text}"), &[(key(id, first, first + 59), text.as_str())])
            })
            .collect();
        apply(store, writes).await;
        store.sync().await.unwrap();
    }
    let metrics: Vec<MetricId> = (0..300).map(metric).collect();
    for answer in store.read_heads(&metrics).await {
        assert!(answer.unwrap().unwrap().starts_with(b"3 "));
    }
    let ranges: Vec<BlockRange> = (0..300).map(|id| range(id, 60, 179)).collect();
    for (id, answer) in store.read_blocks(&ranges).await.into_iter().enumerate() {
        let keys: Vec<BlockKey> = answer.unwrap().whole.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [key(id as u128, 60, 119), key(id as u128, 120, 179)]);
    }
}

fn fence(count: u16, id: u16, token: u64) -> Fence {
    Fence { sack: Sack { count: SackCount(NonZeroU16::new(count).unwrap()), id: SackId(id) }, token }
}

/// Whether the store accepts a write of a metric's head under the fence; verifies the effect.
async fn takes(store: &dyn AggregateStore, fence: Fence, id: u128, text: &str) -> bool {
    let before = head(store, id).await;
    let block = key(id, 0, 59);
    let answer = store.write(fence, vec![write(id, text, &[(block, text)])]).await.remove(0);
    match answer {
        Ok(()) => {
            assert_eq!(head(store, id).await.as_deref(), Some(text));
            assert_eq!(read(store, everything(id)).await, [(block, text.to_owned())]);
            true
        }
        Err(StoreError::Fenced { fence: named, .. }) => {
            assert_eq!(named, fence);
            assert_eq!(head(store, id).await, before, "a refused write was carried out");
            assert!(read(store, everything(id)).await.iter().all(|(_, block)| block != text));
            assert!(matches!(store.delete(fence, &[metric(id)]).await[0], Err(StoreError::Fenced { .. })));
            assert_eq!(head(store, id).await, before, "a refused deletion was carried out");
            false
        }
        Err(error) => panic!("neither taken nor fenced: {error}"),
    }
}

async fn a_lower_token_writes_nothing(store: &dyn AggregateStore) {
    let (first, second) = (fence(4, 1, 7), fence(4, 1, 9));
    store.raise(first).await.unwrap();
    assert!(takes(store, first, 5, "first").await);
    store.raise(second).await.unwrap();
    assert!(!takes(store, first, 5, "too late").await);
    assert!(takes(store, second, 5, "second").await);
    assert!(takes(store, fence(4, 2, 1), 6, "another sack").await);
    assert!(matches!(store.raise(first).await, Err(StoreError::Fenced { held: 9, .. })));
    store.raise(second).await.expect("raising the same again changes nothing");
    assert!(takes(store, second, 5, "second again").await);
}

/// The metrics 1 and 5 are in sack 1 of 4, in 1 and in 5 of 8.
async fn fences_follow_a_split(store: &dyn AggregateStore) {
    let (old, low, high) = (fence(4, 1, 3), fence(8, 1, 11), fence(8, 5, 10));
    store.raise(old).await.unwrap();
    assert!(takes(store, old, 1, "old").await);
    store.raise(low).await.unwrap();
    store.raise(high).await.unwrap();
    assert!(!takes(store, old, 1, "too late").await);
    assert!(!takes(store, old, 5, "too late").await);
    assert!(takes(store, low, 1, "low").await);
    assert!(takes(store, high, 5, "high").await);
}

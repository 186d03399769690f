//! Metrics, blocks and random passes for tests of aggregate stores.

use bytes::Bytes;
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
};
use gnudi_model::{MetricId, Timespan, Timestamp};
use uuid::Uuid;

use super::random::Random;

const GRANULARITIES: [i64; 2] = [1, 60];

pub fn metric(id: usize) -> MetricId {
    MetricId(Uuid::from_u128(id as u128))
}

/// One-second buckets, `first..=first + 59`.
pub fn key(id: usize, first: i64) -> BlockKey {
    let (first, last) = (Timestamp::from_secs(first), Timestamp::from_secs(first + 59));
    BlockKey { metric: metric(id), granularity: Timespan::from_secs(1), first, last }
}

/// All blocks of [`key`]'s granularity.
pub fn all_blocks(id: usize) -> BlockRange {
    BlockRange::all(metric(id), Timespan::from_secs(1))
}

pub fn write(id: usize, head: &str, blocks: &[(BlockKey, &str)]) -> MetricWrite {
    let blocks = blocks.iter().map(|(key, text)| (*key, Bytes::copy_from_slice(text.as_bytes()))).collect();
    let head = Bytes::copy_from_slice(head.as_bytes());
    MetricWrite { metric: metric(id), blocks, expired: Vec::new(), head }
}

pub async fn head(store: &dyn AggregateStore, id: usize) -> Result<Option<String>, StoreError> {
    let head = store.read_heads(&[metric(id)]).await.remove(0)?;
    Ok(head.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

pub async fn blocks(store: &dyn AggregateStore, id: usize) -> Vec<String> {
    let blocks = store.read_blocks(&[all_blocks(id)]).await.remove(0).unwrap();
    blocks.whole.into_iter().map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()).collect()
}

/// Longer than a page.
pub const LARGE_HEAD_BYTES: usize = 5000;

pub fn large_head(id: usize) -> Bytes {
    vec![id as u8; LARGE_HEAD_BYTES].into()
}

/// Writes a large head of a new metric.
pub async fn write_large(store: &dyn AggregateStore, id: usize) -> Result<(), StoreError> {
    store.write(Fence::EVERYTHING, vec![MetricWrite::of_head(metric(id), large_head(id))]).await.remove(0)
}

/// Writes large heads of new metrics, one by one.
pub async fn write_each(store: &dyn AggregateStore, ids: impl IntoIterator<Item = usize>) {
    for id in ids {
        write_large(store, id).await.unwrap();
    }
}

/// Whether the metric has its large head; it must not have another one.
pub async fn is_large_there(store: &dyn AggregateStore, id: usize) -> bool {
    let head = store.read_heads(&[metric(id)]).await.remove(0).unwrap();
    assert!(head.as_ref().is_none_or(|head| *head == large_head(id)), "another head of {id}");
    head.is_some()
}

/// Asserts that all these metrics have their large heads.
pub async fn assert_each_there(store: &dyn AggregateStore, ids: impl IntoIterator<Item = usize>) {
    for id in ids {
        assert!(is_large_there(store, id).await, "{id}");
    }
}

/// Number of places where a metric's blocks are damaged or may be lost.
pub async fn damaged_blocks(store: &dyn AggregateStore, id: usize) -> usize {
    store.read_blocks(&[all_blocks(id)]).await.remove(0).unwrap().damaged.len()
}

/// Random blocks divide a time of eight parts, each of 60 buckets: into blocks of one part or of four.
const PARTS: usize = 8;
const BLOCK_PARTS: [usize; 2] = [1, 4];

/// The block of a number among those of so many parts, in buckets of this width.
fn block_of(id: usize, width: i64, parts: usize, number: usize) -> BlockKey {
    let (first, end) = ((number * parts) as i64 * 60 * width, ((number + 1) * parts) as i64 * 60 * width);
    BlockKey {
        metric: metric(id),
        granularity: Timespan(width),
        first: Timestamp(first),
        last: Timestamp(end - width),
    }
}

fn random_block_of(random: &mut Random, id: usize, parts: usize) -> BlockKey {
    block_of(id, GRANULARITIES[random.below(2)], parts, random.below(PARTS / parts))
}

/// A block of one part: these do not overlap.
pub fn random_block(random: &mut Random, id: usize) -> BlockKey {
    random_block_of(random, id, 1)
}

/// A block of one part or several.
fn random_long_block(random: &mut Random, id: usize) -> BlockKey {
    let parts = BLOCK_PARTS[random.below(2)];
    random_block_of(random, id, parts)
}

fn overlaps(one: &BlockKey, other: &BlockKey) -> bool {
    one.granularity == other.granularity && one.first <= other.last && other.first <= one.last
}

/// All random blocks that a metric may have.
fn possible_blocks(id: usize) -> Vec<BlockKey> {
    let mut possible = Vec::new();
    for width in GRANULARITIES {
        for parts in BLOCK_PARTS {
            possible.extend((0..PARTS / parts).map(|number| block_of(id, width, parts, number)));
        }
    }
    possible
}

pub fn random_bytes(random: &mut Random, length_max: usize) -> Bytes {
    let (length, seed) = (random.below(length_max), random.below(256));
    (0..length).map(|at| (at + seed) as u8).collect()
}

/// With blocks and a head of at most these sizes. As in a pass the blocks replace all that they overlap: blocks are divided
/// and joined.
pub fn random_write(random: &mut Random, id: usize, block_max: usize, head_max: usize) -> MetricWrite {
    let mut blocks: Vec<(BlockKey, Bytes)> = Vec::new();
    for _ in 0..random.below(4) {
        let key = random_long_block(random, id);
        if blocks.iter().all(|(other, _)| !overlaps(other, &key)) {
            blocks.push((key, random_bytes(random, block_max)));
        }
    }
    let is_replaced = |key: &BlockKey| blocks.iter().any(|(written, _)| overlaps(written, key));
    let mut expired: Vec<BlockKey> = possible_blocks(id).into_iter().filter(is_replaced).collect();
    expired.extend((0..random.below(3)).map(|_| random_long_block(random, id)));
    expired.retain(|key| blocks.iter().all(|(written, _)| written != key));
    MetricWrite { metric: metric(id), blocks, expired, head: random_bytes(random, head_max) }
}

/// The blocks of a range; none may be damaged.
pub fn whole(blocks: Blocks) -> Vec<(BlockKey, Bytes)> {
    assert!(blocks.damaged.is_empty(), "{:?}", blocks.damaged);
    blocks.whole
}

pub type Everything = (Vec<Option<Bytes>>, Vec<Vec<(BlockKey, Bytes)>>);

/// A store's contents for some metrics, or the first failure.
pub async fn everything(store: &dyn AggregateStore, ids: &[usize]) -> Result<Everything, StoreError> {
    let metrics: Vec<MetricId> = ids.iter().copied().map(metric).collect();
    let heads = store.read_heads(&metrics).await.into_iter().collect::<Result<_, _>>()?;
    let mut ranges = Vec::new();
    for metric in metrics {
        for width in GRANULARITIES {
            let granularity = Timespan(width);
            let short = [(0, 10 * width), (70 * width, 80 * width), (59, 60), (5, 3)];
            for (from, to) in [(i64::MIN, i64::MAX), (100 * width, 200 * width)].into_iter().chain(short) {
                ranges.push(BlockRange { metric, granularity, from: Timestamp(from), to: Timestamp(to) });
            }
        }
    }
    let read = store.read_blocks(&ranges).await.into_iter();
    let blocks = read.map(|blocks| blocks.map(whole)).collect::<Result<Vec<_>, _>>()?;
    for (blocks, keys) in blocks.iter().zip(store.list_blocks(&ranges).await) {
        assert_eq!(blocks.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys?);
    }
    Ok((heads, blocks))
}

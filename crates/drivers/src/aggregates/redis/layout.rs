//! The layout: names of keys, and the bytes of values.
//!
//! ```text
//! {prefix:ag}:r           the cluster's id, the number of shards, the state, the store's identity
//! {prefix:ag:S}:f, :c     of shard S: the fences, COUNT:SACK to token, and the counts of sacks among them
//! {prefix:ag:S}:w         of each lease the write before which none is accepted, COUNT:SACK to TOKEN:NUMBER
//! {prefix:ag:S}:h         the heads, by metric
//! {prefix:ag:S}:i:METRIC  the names of a metric's blocks, sorted
//! {prefix:ag:S}:b:METRIC  the blocks by name
//! {prefix:ag:S}:damaged   what could not be read, by metric and name
//! ```
//!
//! A metric's id is its 16 bytes, a block's name what follows the metric in [`Key`]. A value is a CRC32C,
//! little-endian, and the bytes.

use bytes::Bytes;
use gnudi_model::{MetricId, Timestamp};
use uuid::Uuid;

use crate::{
    aggregates::{BlockKey, StoreState, key::Key},
    clients::redis::Tag,
};

/// The newest layout that this program reads.
pub(super) const FORMAT: u32 = 2;

/// The layout to write. Programs that know no states must not open a store that is not in use.
pub(crate) fn format(state: StoreState) -> u32 {
    if state == StoreState::InUse { 1 } else { FORMAT }
}

const METRIC_BYTES: usize = 16;

/// The metric of a field in a shard's heads; `None` if it is no id.
pub(crate) fn metric(field: &[u8]) -> Option<MetricId> {
    Uuid::from_slice(field).ok().map(MetricId)
}

pub(crate) fn root_tag(prefix: &str) -> Tag {
    Tag::new(&format!("{prefix}:ag"))
}

pub(crate) fn shard_tags(prefix: &str, shards: u16) -> Vec<Tag> {
    (0..shards).map(|shard| Tag::new(&format!("{prefix}:ag:{shard}"))).collect()
}

/// The name of a block, without its metric.
pub(crate) fn name(key: &BlockKey) -> Vec<u8> {
    Key::block(key).bytes()[METRIC_BYTES..].to_vec()
}

/// The block of a name; `None` if it is no name.
pub(crate) fn block(metric: MetricId, name: &[u8]) -> Option<BlockKey> {
    let mut bytes = Vec::with_capacity(METRIC_BYTES + name.len());
    bytes.extend_from_slice(metric.0.as_bytes());
    bytes.extend_from_slice(name);
    Key::from_bytes(bytes.try_into().ok()?).as_block()
}

/// The key of the set of a metric's block names.
pub(crate) fn index_key(tag: &Tag, metric: MetricId) -> Vec<u8> {
    [tag.name.as_bytes(), b":i:", metric.0.as_bytes()].concat()
}

/// The key of a metric's blocks.
pub(crate) fn blocks_key(tag: &Tag, metric: MetricId) -> Vec<u8> {
    [tag.name.as_bytes(), b":b:", metric.0.as_bytes()].concat()
}

/// A time as in names.
pub(crate) fn time(time: Timestamp) -> [u8; 8] {
    (time.0 as u64 ^ 1 << 63).to_be_bytes()
}

/// A value with its checksum.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(4 + bytes.len());
    sealed.extend_from_slice(&crc_fast::crc32_iscsi(bytes).to_le_bytes());
    sealed.extend_from_slice(bytes);
    sealed
}

/// The value without its checksum; `None` if it is damaged.
pub(crate) fn opened(value: &Bytes) -> Option<Bytes> {
    let checksum = value.first_chunk::<4>()?;
    let bytes = value.slice(4..);
    (crc_fast::crc32_iscsi(&bytes) == u32::from_le_bytes(*checksum)).then_some(bytes)
}

//! Manifests: the contents of a shard, version by version.
//!
//! An object holds a manifest twice, each copy with its length and CRC32C, since nothing else records which
//! tables are valid: if one copy is damaged, that is reported and the other one used.
//!
//! ```text
//! twice: 0 magic "gnudiman" | 8 length u32 | 12 CRC32C of the text u32 | 16 text, JSON
//! ```

use bytes::Bytes;
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    aggregates::{key::Key, table::levels::Levels},
    fence::Fence,
    segments::frame::u32_at,
};

/// Versions per era. Old versions are removed by eras, the oldest first.
pub const ERA_VERSIONS: u64 = 32;
const MAGIC: &[u8; 8] = b"gnudiman";
const HEADER_BYTES: usize = 16;

/// An object with a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableObject {
    pub name: String,
    pub bytes: u64,
    /// Where index, filter and footer begin.
    pub entries_end: u64,
    /// The metrics of the first and of the last entry.
    pub first: MetricId,
    pub last: MetricId,
}

/// The output of one write or merge: tables with disjoint keys, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub tables: Vec<TableObject>,
}

impl Run {
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// The tables that may contain the metric: more than one only if it exceeds the size of a table.
    pub fn tables_of(&self, metric: MetricId) -> &[TableObject] {
        // Keys have the order of tables.
        let metric = Key::head(metric);
        let start = self.tables.partition_point(|table| Key::head(table.last) < metric);
        let end = self.tables.partition_point(|table| Key::head(table.first) <= metric);
        &self.tables[start..end.max(start)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    count: SackCountText,
    id: u16,
    token: u64,
}

type SackCountText = std::num::NonZeroU16;

impl From<Fence> for Raised {
    fn from(Fence { sack, token }: Fence) -> Self {
        Self { count: sack.count.0, id: sack.id.0, token }
    }
}

impl From<Raised> for Fence {
    fn from(raised: Raised) -> Self {
        let sack = Sack { count: SackCount(raised.count), id: SackId(raised.id) };
        Fence { sack, token: raised.token }
    }
}

/// A table that no later version names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Garbage {
    pub name: String,
    pub since_ms: u64,
}

/// The versions from `first` up to the next era's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Era {
    pub first: u64,
    /// The id of manifest `first`.
    pub id: Uuid,
    pub began_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u64,
    /// Distinguishes this manifest from others of the same version.
    pub id: Uuid,
    pub runs: Levels<Run>,
    pub fences: Vec<Raised>,
    pub garbage: Vec<Garbage>,
    /// Eras with versions not yet removed, oldest first; the last one is this manifest's.
    pub eras: Vec<Era>,
    /// Tables written before this time (Unix, ms) may not be added any more: they may have been removed.
    pub floor_ms: u64,
}

impl Manifest {
    /// The next version, unchanged but for its name.
    pub fn next(&self, id: Uuid, now_ms: u64) -> Self {
        let mut next = Manifest { version: self.version + 1, id, ..self.clone() };
        if self.version.is_multiple_of(ERA_VERSIONS) {
            next.eras.push(Era { first: next.version, id, began_ms: now_ms });
        }
        next
    }

    /// The previous era, or the first. While its first manifest exists, no version of this era can have been
    /// removed. `None` for version 0.
    pub fn guard(&self) -> Option<Era> {
        let before = self.eras.len().saturating_sub(2);
        self.eras.get(before).copied()
    }

    /// The oldest era and the first version after it, if its second successor began at least `age_ms` ago.
    pub fn outdated(&self, now_ms: u64, age_ms: u64) -> Option<(Era, u64)> {
        let after_next = self.eras.get(2)?;
        (after_next.began_ms.saturating_add(age_ms) <= now_ms).then(|| (self.eras[0], self.eras[1].first))
    }

    /// Whether the table is valid or not yet removed garbage.
    pub fn knows(&self, table: &str) -> bool {
        let mut tables = self.runs.all().flat_map(|run| &run.tables);
        tables.any(|object| object.name == table) || self.garbage.iter().any(|garbage| garbage.name == table)
    }

    /// The higher token that fences this one off.
    pub fn held(&self, fence: Fence) -> Option<u64> {
        fence.held_by(self.fences.iter().map(|raised| Fence::from(*raised)))
    }

    /// Drops fences that the new one covers: every write that one of them refuses, the new one refuses, too.
    pub fn raise(&mut self, fence: Fence) {
        self.fences.retain(|raised| {
            let other = Fence::from(*raised);
            let covers = other.sack.count.get().is_multiple_of(fence.sack.count.get())
                && other.sack.intersects(fence.sack);
            !covers || other.token > fence.token
        });
        self.fences.push(fence.into());
    }

    pub fn encode(&self) -> Bytes {
        Self::encode_text(&serde_json::to_vec(self).expect("a manifest is plain data"))
    }

    pub fn encode_text(text: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(2 * (HEADER_BYTES + text.len()));
        for _ in 0..2 {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc_fast::crc32_iscsi(text).to_le_bytes());
            bytes.extend_from_slice(text);
        }
        bytes.into()
    }

    /// The manifest, and whether both copies are valid; `None` if neither is.
    pub fn decode(bytes: &[u8]) -> Option<(Self, bool)> {
        let copies = [bytes, &bytes[bytes.len() / 2..]].map(copy);
        let sound = copies.iter().all(Option::is_some);
        copies.into_iter().flatten().next().map(|manifest| (manifest, sound))
    }
}

fn copy(bytes: &[u8]) -> Option<Manifest> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let text = rest.get(..u32_at(header, 8) as usize)?;
    let right = header.starts_with(MAGIC) && u32_at(header, 12) == crc_fast::crc32_iscsi(text);
    let manifest: Manifest = right.then(|| serde_json::from_slice(text).ok())??;
    let is_within = |run: &Run| run.tables.iter().all(|table| table.entries_end <= table.bytes);
    let is_sound = manifest.runs.all().all(is_within);
    is_sound.then_some(manifest)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn fence(count: u16, id: u16, token: u64) -> Fence {
        Fence { sack: Sack { count: SackCount(NonZeroU16::new(count).unwrap()), id: SackId(id) }, token }
    }

    /// Version `version` of a chain that grew by one each second.
    fn grown(version: u64) -> Manifest {
        (0..version).fold(Manifest::default(), |manifest, at| {
            manifest.next(Uuid::from_u128(u128::from(at) + 1), 1000 * (at + 1))
        })
    }

    #[test]
    fn one_damaged_copy_is_no_loss() {
        let mut manifest = grown(3);
        manifest.raise(fence(8, 3, 7));
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Some((manifest.clone(), true)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 4;
            assert_eq!(Manifest::decode(&damaged), Some((manifest.clone(), false)), "byte {at}");
        }
        let mut damaged = bytes.to_vec();
        damaged[20] ^= 1;
        damaged[bytes.len() / 2 + 20] ^= 1;
        assert_eq!(Manifest::decode(&damaged), None);
        assert_eq!(Manifest::decode(b""), None);
    }

    #[test]
    fn the_guard_is_in_the_era_before() {
        assert_eq!(grown(0).guard(), None);
        assert_eq!(grown(1).guard().unwrap().first, 1);
        assert_eq!(grown(32).guard().unwrap().first, 1);
        assert_eq!(grown(33).guard().unwrap().first, 1);
        assert_eq!(grown(65).guard().unwrap(), Era { first: 33, id: Uuid::from_u128(33), began_ms: 33_000 });
        assert_eq!(grown(64).outdated(u64::MAX, 0), None);
        assert_eq!(grown(65).outdated(75_000, 10_000).map(|(era, end)| (era.first, end)), Some((1, 33)));
        assert_eq!(grown(65).outdated(74_999, 10_000), None);
    }

    #[test]
    fn a_fence_replaces_those_that_it_covers() {
        let mut manifest = Manifest::default();
        manifest.raise(fence(4, 1, 3));
        manifest.raise(fence(8, 1, 5));
        manifest.raise(fence(8, 5, 6));
        assert_eq!(manifest.fences.len(), 3);
        manifest.raise(fence(4, 1, 9));
        assert_eq!(manifest.fences, [fence(4, 1, 9).into()]);
        assert_eq!(manifest.held(fence(8, 5, 8)), Some(9));
        assert_eq!(manifest.held(fence(8, 4, 8)), None);
    }
}

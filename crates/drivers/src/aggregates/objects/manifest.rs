//! Manifests: the contents of a shard, version by version.
//!
//! An object holds a manifest twice, since nothing else records which tables are valid: if one copy is damaged, that is
//! reported and the other one used. The table that the version adds may precede it: a pass is one request then.
//!
//! ```text
//! table or nothing | text, JSON | text again | trailer | trailer again
//! trailer: 0 magic "gnudimft" | 8 length of the text u32 | 12 CRC32C of the text u32
//! ```
//!
//! Stores of format versions 3 and 4 (`format`) began without tables in manifests:
//!
//! ```text
//! twice: 0 magic "gnudiman" | 8 length u32 | 12 CRC32C of the text u32 | 16 text, JSON
//! ```

use std::{borrow::Cow, collections::HashSet, num::NonZeroU16};

use bytes::Bytes;
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::names;
use crate::{
    aggregates::{key::Key, table::levels::Levels},
    fence::Fence,
    segments::frame::u32_at,
};

/// Versions per era. Old versions are removed by eras, the oldest first.
pub const ERA_VERSIONS: u64 = 32;
const MAGIC: &[u8; 8] = b"gnudimft";
/// The magic of format versions 3 and 4: a header before each copy, and no table.
const FIRST_MAGIC: &[u8; 8] = b"gnudiman";
/// The length of a trailer, and of such a header.
const TRAILER_BYTES: usize = 16;

/// A table, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableObject {
    /// The name of its object, unless it lies in a manifest's.
    pub name: String,
    /// The version whose object begins with the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    pub bytes: u64,
    /// Where index, filter and footer begin.
    pub entries_end: u64,
    /// The metrics of the first and of the last entry.
    pub first: MetricId,
    pub last: MetricId,
}

impl TableObject {
    /// The name of the object that begins with the table.
    pub fn object(&self) -> Cow<'_, str> {
        match self.version {
            None => Cow::Borrowed(&self.name),
            Some(version) => Cow::Owned(names::manifest_beside(&self.name, version)),
        }
    }
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
    count: NonZeroU16,
    id: u16,
    token: u64,
}

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
    /// See [`TableObject::version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Unix time in ms, by the clock of the machine that merged it. Only earlier programs use it.
    pub since_ms: u64,
}

/// The versions from `first` up to the next era's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Era {
    pub first: u64,
    /// The id of manifest `first`.
    pub id: Uuid,
    /// Like [`Garbage::since_ms`].
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
    /// Tables with an earlier time in their name (Unix, ms) may not be added any more: they may have been removed.
    pub floor_ms: u64,
    /// When orphans were last searched for (Unix, ms): a new shard has none. 0 if the last writer was a program that
    /// did not record it.
    #[serde(default)]
    pub swept_ms: u64,
}

impl Manifest {
    /// The next version, unchanged but for its name.
    pub fn next(&self, id: Uuid, now_ms: u64) -> Self {
        let mut next = Manifest { version: self.version + 1, id, ..self.clone() };
        if self.version == 0 {
            next.swept_ms = now_ms;
        }
        if self.version.is_multiple_of(ERA_VERSIONS) {
            next.eras.push(Era { first: next.version, id, began_ms: now_ms });
        }
        next
    }

    /// Whether this version marks an era. Such an object has no table: it is removed with its era, whatever uses its table.
    pub fn begins_era(&self) -> bool {
        self.eras.last().is_some_and(|era| era.first == self.version)
    }

    /// The versions whose objects hold tables that are valid, or that were so lately.
    pub fn versions_with_tables(&self) -> HashSet<u64> {
        let valid = self.runs.all().flat_map(|run| &run.tables).filter_map(|table| table.version);
        valid.chain(self.garbage.iter().filter_map(|garbage| garbage.version)).collect()
    }

    /// Tells whether nobody needs a version's object: its era is removed, and its table, if any, was not
    /// valid lately.
    pub fn unused_versions(&self) -> impl Fn(u64) -> bool {
        let first = self.eras.first().map_or(0, |era| era.first);
        let with_tables = self.versions_with_tables();
        move |version| version < first && !with_tables.contains(&version)
    }

    /// The table in this version's object.
    pub fn own_table(&self) -> Option<&TableObject> {
        let mut tables = self.runs.all().flat_map(|run| &run.tables);
        tables.find(|table| table.version == Some(self.version))
    }

    /// The previous era, or the first. While its first manifest exists, no version of this era can have been
    /// removed. `None` for version 0.
    pub fn guard(&self) -> Option<Era> {
        let before = self.eras.len().saturating_sub(2);
        self.eras.get(before).copied()
    }

    /// The eras with two successors at least, oldest first: they are removed after a time.
    pub fn outdated(&self) -> &[Era] {
        &self.eras[..self.eras.len().saturating_sub(2)]
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

    /// The version's object: the table, which may be empty, and the manifest.
    pub fn encode(&self, table: &[u8]) -> Bytes {
        Self::encode_text(table, &serde_json::to_vec(self).expect("a manifest is plain data"))
    }

    pub fn encode_text(table: &[u8], text: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(table.len() + 2 * (text.len() + TRAILER_BYTES));
        bytes.extend_from_slice(table);
        for _ in 0..2 {
            bytes.extend_from_slice(text);
        }
        for _ in 0..2 {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc_fast::crc32_iscsi(text).to_le_bytes());
        }
        bytes.into()
    }

    /// `None` if both copies are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Decoded> {
        decode_behind_table(bytes).or_else(|| decode_first_format(bytes))
    }

    fn of_text(text: &[u8]) -> Option<Self> {
        let manifest: Manifest = serde_json::from_slice(text).ok()?;
        let is_within = |run: &Run| run.tables.iter().all(|table| table.entries_end <= table.bytes);
        let is_sound = manifest.runs.all().all(is_within);
        is_sound.then_some(manifest)
    }
}

/// A version's object.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    pub manifest: Manifest,
    /// Whether both copies are valid.
    pub is_sound: bool,
    /// Where the table ends.
    pub table_bytes: usize,
}

fn decode_behind_table(bytes: &[u8]) -> Option<Decoded> {
    let (rest, trailers) = bytes.split_at_checked(bytes.len().checked_sub(2 * TRAILER_BYTES)?)?;
    let (one, other) = trailers.split_at(TRAILER_BYTES);
    let decode = |trailer: &[u8]| {
        let length = u32_at(trailer, 8) as usize;
        if length == 0 || !trailer.starts_with(MAGIC) {
            return None;
        }
        let table_bytes = rest.len().checked_sub(2 * length)?;
        let copies = rest[table_bytes..].chunks_exact(length);
        let valid = copies.filter(|text| crc_fast::crc32_iscsi(text) == u32_at(trailer, 12));
        let valid: Vec<&[u8]> = valid.collect();
        let manifest = Manifest::of_text(valid.first()?)?;
        Some(Decoded { manifest, is_sound: one == other && valid.len() == 2, table_bytes })
    };
    decode(one).or_else(|| decode(other))
}

fn decode_first_format(bytes: &[u8]) -> Option<Decoded> {
    let copy = |bytes: &[u8]| {
        let (header, rest) = bytes.split_at_checked(TRAILER_BYTES)?;
        let text = rest.get(..u32_at(header, 8) as usize)?;
        let is_valid = header.starts_with(FIRST_MAGIC) && u32_at(header, 12) == crc_fast::crc32_iscsi(text);
        is_valid.then(|| Manifest::of_text(text))?
    };
    let copies = [bytes, &bytes[bytes.len() / 2..]].map(copy);
    let is_sound = copies.iter().all(Option::is_some);
    let manifest = copies.into_iter().flatten().next()?;
    Some(Decoded { manifest, is_sound, table_bytes: 0 })
}

#[cfg(test)]
mod tests {
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

    fn in_first_format(manifest: &Manifest) -> Vec<u8> {
        let text = serde_json::to_vec(manifest).unwrap();
        let (length, crc) = ((text.len() as u32).to_le_bytes(), crc_fast::crc32_iscsi(&text).to_le_bytes());
        [FIRST_MAGIC, &length[..], &crc, &text].concat().repeat(2)
    }

    #[test]
    fn one_damaged_copy_is_no_loss() {
        let mut manifest = grown(3);
        manifest.raise(fence(8, 3, 7));
        let table = b"a table";
        let with_table = (manifest.encode(table).to_vec(), table.len());
        let objects = [with_table, (manifest.encode(b"").to_vec(), 0), (in_first_format(&manifest), 0)];
        for (bytes, table_bytes) in objects {
            let decoded = |is_sound| Some(Decoded { manifest: manifest.clone(), is_sound, table_bytes });
            assert_eq!(Manifest::decode(&bytes), decoded(true));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert_eq!(Manifest::decode(&damaged), decoded(at < table_bytes), "byte {at}");
            }
            let mut damaged = bytes.clone();
            let text = serde_json::to_vec(&manifest).unwrap().len();
            damaged[table_bytes + TRAILER_BYTES + 2] ^= 1;
            damaged[table_bytes + TRAILER_BYTES + 2 + text] ^= 1;
            damaged[table_bytes + TRAILER_BYTES + 2 + text + TRAILER_BYTES] ^= 1;
            assert_eq!(Manifest::decode(&damaged), None);
        }
        assert_eq!(Manifest::decode(b""), None);
    }

    #[test]
    fn the_first_version_of_an_era_is_known() {
        let first: Vec<u64> = (0..70).filter(|version| grown(*version).begins_era()).collect();
        assert_eq!(first, [1, 33, 65]);
    }

    #[test]
    fn the_search_for_orphans_is_due_where_none_is_recorded() {
        let manifest = grown(3);
        assert_eq!(manifest.swept_ms, 1000, "a new shard has none");
        let mut text = serde_json::to_value(&manifest).unwrap();
        text.as_object_mut().unwrap().remove("swept_ms");
        let earlier = Manifest::encode_text(b"", text.to_string().as_bytes());
        let manifest = Manifest { swept_ms: 0, ..manifest };
        assert_eq!(Manifest::decode(&earlier).unwrap().manifest, manifest);
    }

    #[test]
    fn the_guard_is_in_the_era_before() {
        assert_eq!(grown(0).guard(), None);
        assert_eq!(grown(1).guard().unwrap().first, 1);
        assert_eq!(grown(32).guard().unwrap().first, 1);
        assert_eq!(grown(33).guard().unwrap().first, 1);
        assert_eq!(grown(65).guard().unwrap(), Era { first: 33, id: Uuid::from_u128(33), began_ms: 33_000 });
        let outdated = |version| grown(version).outdated().iter().map(|era| era.first).collect::<Vec<_>>();
        assert_eq!((outdated(0), outdated(64)), (vec![], vec![]));
        assert_eq!((outdated(65), outdated(97)), (vec![1], vec![1, 33]));
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

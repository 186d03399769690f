//! Names of the objects.
//!
//! ```text
//! aggregates/format                                    what this is, and whose
//! aggregates/identity                                  tells it from other stores of the cluster
//! aggregates/state                                     whether it is in use, once a move had to do with it
//! aggregates/shard/<shard>/hint                        where to begin to look for the newest manifest
//! aggregates/shard/<shard>/manifest/<version>
//! aggregates/shard/<shard>/table/<milliseconds>-<id>
//! aggregates/quarantine/<shard>-<milliseconds>-<id>-<offset>
//! ```
//!
//! Numbers in names are hexadecimal, most of fixed length, so that names sort like their numbers.

use uuid::Uuid;

pub const FORMAT: &str = "aggregates/format";
pub const IDENTITY: &str = "aggregates/identity";
pub const STATE: &str = "aggregates/state";

pub fn hint(shard: u16) -> String {
    format!("aggregates/shard/{shard}/hint")
}

pub fn manifests(shard: u16) -> String {
    format!("aggregates/shard/{shard}/manifest/")
}

pub fn manifest(shard: u16, version: u64) -> String {
    format!("aggregates/shard/{shard}/manifest/{version:016x}")
}

/// Of the shard of a table.
pub fn manifest_beside(table: &str, version: u64) -> String {
    let (shard, _) = table.rsplit_once("/table/").unwrap_or((table, ""));
    format!("{shard}/manifest/{version:016x}")
}

/// The inverse of [`manifest`].
pub fn version_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.rsplit('/').next()?, 16).ok()
}

pub fn tables(shard: u16) -> String {
    format!("aggregates/shard/{shard}/table/")
}

/// Of a table written at this time, in milliseconds since 1970.
pub fn table(shard: u16, now_ms: u64, id: Uuid) -> String {
    format!("aggregates/shard/{shard}/table/{now_ms:012x}-{}", id.simple())
}

/// When the table was written, or the floor then if that was later.
pub fn written_ms(table: &str) -> Option<u64> {
    let (written_ms, _) = table.rsplit('/').next()?.split_once('-')?;
    u64::from_str_radix(written_ms, 16).ok()
}

/// Of a copy of damaged bytes found in an object.
pub fn quarantine(object: &str, offset: u64) -> String {
    let object = object.strip_prefix("aggregates/shard/").unwrap_or(object);
    format!("aggregates/quarantine/{}-{offset}", object.replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_were_made_of() {
        assert_eq!(version_of(&manifest(3, 0xabc)), Some(0xabc));
        assert!(manifest(3, 9) < manifest(3, 10) && manifest(3, 10).starts_with(&manifests(3)));
        let name = table(7, 1_700_000_000_000, Uuid::from_u128(5));
        assert_eq!(written_ms(&name), Some(1_700_000_000_000));
        assert!(name.starts_with(&tables(7)));
        assert_eq!(manifest_beside(&name, 9), manifest(7, 9));
        assert!(quarantine(&name, u64::MAX).len() < 200);
        assert_eq!(version_of("aggregates/shard/3/manifest/x"), None);
        assert_eq!(written_ms("aggregates/shard/3/table/5"), None);
    }
}

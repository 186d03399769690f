//! Groups of tooz, `OpenStack`'s library for membership: gnudi's members appear in Ceilometer's group, and
//! vice versa. Keys and values are those of tooz 9 (`tooz/drivers/redis.py`, `etcd3gw.py`).
//!
//! `ring` decides which member owns what. The caller decides how often to poll, and what to do with the
//! result.

mod etcd;
mod redis;
pub mod ring;

use async_trait::async_trait;
use serde::Deserialize;

use super::CoordinationError;
pub use etcd::EtcdGroups;
pub use redis::RedisGroups;

/// This member's capabilities, as `MessagePack`: `{"weight": 1}`.
const CAPABILITIES: &[u8] = b"\x81\xa6weight\x01";

/// A member that is considered alive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMember {
    pub id: Vec<u8>,
    /// Its share of the work.
    pub weight: u32,
}

impl GroupMember {
    /// `capabilities`: as stored by the member; the weight defaults to 1.
    fn new(id: Vec<u8>, capabilities: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Capabilities {
            weight: Option<u32>,
        }
        let told = rmp_serde::from_slice::<Capabilities>(capabilities).ok();
        GroupMember { id, weight: told.and_then(|told| told.weight).unwrap_or(1) }
    }
}

/// A member's client of the groups.
#[async_trait]
pub trait Groups: Send + Sync {
    /// Sends a heartbeat.
    async fn beat(&self) -> Result<(), CoordinationError>;

    /// Joins a group, and creates it if missing. No error if already joined.
    async fn join(&self, group: &str) -> Result<(), CoordinationError>;

    /// Leaves these groups, which must be all that were joined.
    async fn leave(&self, groups: &[String]) -> Result<(), CoordinationError>;

    /// The group's members; none if there is no such group. Lacks this member if another one removed it as
    /// dead.
    async fn members(&self, group: &str) -> Result<Vec<GroupMember>, CoordinationError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read() {
        let weight = |capabilities: &[u8]| GroupMember::new(Vec::new(), capabilities).weight;
        assert_eq!(weight(CAPABILITIES), 1);
        assert_eq!(weight(b"\x82\xa6weight\x03\xa1x\xc0"), 3);
        assert_eq!(
            (weight(b"\x80"), weight(b"\xc0"), weight(b""), weight(b"\x81\xa6weight\xff")),
            (1, 1, 1, 1)
        );
    }
}

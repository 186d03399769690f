//! Groups as tooz has them, the library by which `OpenStack`'s programs find each other: a member here is one of Ceilometer's group, and
//! the other way round. The names of keys and the forms of values are those of tooz 9 (`tooz/drivers/redis.py`, `etcd3gw.py`).
//!
//! `ring` decides which member has what. How often to look, and what to do with what is found, is the caller's business.

mod etcd;
mod redis;
pub mod ring;

use async_trait::async_trait;
use serde::Deserialize;

use super::CoordinationError;
pub use etcd::EtcdGroups;
pub use redis::RedisGroups;

/// What this member tells of itself, as `MessagePack`: `{"weight": 1}`.
const CAPABILITIES: &[u8] = b"\x81\xa6weight\x01";

/// One that is alive, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMember {
    pub id: Vec<u8>,
    /// How many shares of the work it has.
    pub weight: u32,
}

impl GroupMember {
    /// `capabilities` are what a member tells of itself; one that tells no weight has 1.
    fn new(id: Vec<u8>, capabilities: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Capabilities {
            weight: Option<u32>,
        }
        let told = rmp_serde::from_slice::<Capabilities>(capabilities).ok();
        GroupMember { id, weight: told.and_then(|told| told.weight).unwrap_or(1) }
    }
}

/// A process's view of the groups, as the member that it was opened as.
#[async_trait]
pub trait Groups: Send + Sync {
    /// Says that this member is alive, for another while.
    async fn beat(&self) -> Result<(), CoordinationError>;

    /// Becomes a member of a group, which begins to exist where there is none. No error where it is a member already.
    async fn join(&self, group: &str) -> Result<(), CoordinationError>;

    /// Ends the membership of these groups, which are all that were joined.
    async fn leave(&self, groups: &[String]) -> Result<(), CoordinationError>;

    /// The ids of a group's members; none where there is no such group. This member is missing where another one has removed it as dead.
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

//! Reads of damaged metrics: refused, or answered with what is left.
//!
//! The stores report which items damage may have affected. Reads that may lack points are refused: those of a
//! range with a damaged block, and those of a range that starts before the head's loss. Later data is complete.

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange, Blocks, StoreError};
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::{CodecError, head::Head};

use crate::{EngineError, Result};

/// A metric's head as the store answers; `None` if it has none.
pub(crate) type StoredHead = Result<Option<Bytes>, StoreError>;

/// A stored head, `None` if there is none; or why it is damaged. A head that a newer program wrote is an error instead:
/// it is intact, so it must be neither replaced nor left out.
pub(crate) fn decode(stored: &StoredHead) -> Result<Result<Option<Head>, String>> {
    match stored {
        Ok(None) => Ok(Ok(None)),
        Ok(Some(bytes)) => Ok(decode_head(bytes)?.map(Some).map_err(|error| error.to_string())),
        Err(StoreError::Damaged(place)) => Ok(Err(place.clone())),
        Err(error) => Err(error.clone().into()),
    }
}

/// A head, or why it is damaged; an error as [`decode`].
pub(crate) fn decode_head(bytes: &Bytes) -> Result<Result<Head, CodecError>, StoreError> {
    match Head::decode(bytes) {
        Err(CodecError::Version(found @ 1..)) => {
            Err(StoreError::Io(of_newer_program("a metric's state has", found)))
        }
        decoded => Ok(decoded),
    }
}

/// The outcome of work with blocks, or why some of them are damaged. As with heads ([`decode`]), a block that a newer
/// program wrote is an error.
pub(crate) fn of_blocks<T>(outcome: Result<Result<T, CodecError>, String>) -> Result<Result<T, String>> {
    match outcome {
        Ok(Err(CodecError::Version(found @ 1..))) => {
            Err(StoreError::Io(of_newer_program("a block has", found)).into())
        }
        Ok(done) => Ok(done.map_err(|error| error.to_string())),
        Err(reason) => Ok(Err(reason)),
    }
}

/// The outcome of work with blocks of a metric; an error if some of them are damaged ([`of_blocks`]).
pub(crate) fn undamaged<T>(metric: MetricId, outcome: Result<Result<T, CodecError>, String>) -> Result<T> {
    of_blocks(outcome)?.map_err(|reason| EngineError::Damaged { metric, reason })
}

/// The error text for intact data that a newer program wrote; `what` begins the sentence.
pub(crate) fn of_newer_program(what: &str, found: u8) -> String {
    format!(
        "{what} format version {found}, which this program does not know: run the program that wrote it, or a newer one"
    )
}

/// The operator's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Reads of damaged data fail, and say where the damage is.
    #[default]
    Refuse,
    /// Reads return what is left.
    Serve,
}

impl OnDamage {
    /// A metric's head; `None` if it has none.
    pub(crate) fn head(self, metric: MetricId, stored: &StoredHead) -> Result<Option<Head>> {
        match decode(stored)? {
            Ok(head) => Ok(head),
            Err(reason) if self == OnDamage::Refuse => {
                Err(damaged(metric, &format!("its newest state is damaged ({reason})")))
            }
            // Its blocks are left.
            Err(_) => Ok(Some(Head::new())),
        }
    }

    /// The blocks of a range of a metric with this head.
    pub(crate) fn blocks(
        self,
        range: &BlockRange,
        head: &Head,
        found: Result<Blocks, StoreError>,
    ) -> Result<Vec<(BlockKey, Bytes)>> {
        let Blocks { whole, damaged: places } = Blocks::of_answer(found)?;
        if self == OnDamage::Serve {
            return Ok(whole);
        }
        if let Some(place) = places.first() {
            return Err(damaged(range.metric, &format!("older aggregates are damaged ({place})")));
        }
        match head.lost_before().filter(|lost_before| range.from < *lost_before) {
            Some(found) => Err(damaged(range.metric, &lost_text(found))),
            None => Ok(whole),
        }
    }
}

fn lost_text(found: Timestamp) -> String {
    format!("its state was found damaged at {}, and what starts before is not complete", found.to_iso())
}

fn damaged(metric: MetricId, what: &str) -> EngineError {
    let reason = format!("{what}; with [storage] damaged_metrics = serve it is answered with what is left");
    EngineError::Damaged { metric, reason }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::granularities_of;

    /// CRC32C, bit by bit.
    fn checksum(bytes: &[u8]) -> u32 {
        let bit = |sum: u32, _| (sum >> 1) ^ (0x82F6_3B78 * (sum & 1));
        !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), bit))
    }

    /// A head or block with format version 200.
    pub(crate) fn newer(known: &[u8]) -> Vec<u8> {
        let mut newer = known.to_vec();
        let body = newer.len() - 4;
        assert_eq!(newer[body..], checksum(&newer[..body]).to_le_bytes());
        newer[0] = 200;
        let sum = checksum(&newer[..body]).to_le_bytes();
        newer[body..].copy_from_slice(&sum);
        newer
    }

    pub(crate) fn newer_head() -> Vec<u8> {
        newer(&Head::new().encoded())
    }

    #[test]
    fn a_head_of_a_newer_program_is_no_damage() {
        let mut damaged = newer_head();
        damaged[0] = 201;
        let damaged = Bytes::from(damaged);
        assert!(matches!(granularities_of(&damaged), Ok(None)));
        assert!(matches!(granularities_of(&newer_head().into()), Err(StoreError::Io(_))));
        assert!(decode(&Ok(Some(damaged))).unwrap().is_err());
        let stored = Ok(Some(Bytes::from(newer_head())));
        let refused = decode(&stored).unwrap_err();
        assert!(matches!(refused, EngineError::Store(StoreError::Io(_))), "{refused}");
        let metric = MetricId(uuid::Uuid::from_u128(7));
        for on_damage in [OnDamage::Refuse, OnDamage::Serve] {
            let refused = on_damage.head(metric, &stored).unwrap_err().to_string();
            assert!(refused.contains("format version 200, which this program does not know"), "{refused}");
        }
    }
}

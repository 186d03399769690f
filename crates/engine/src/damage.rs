//! What is read of a metric of which something is damaged: nothing, or what is left.
//!
//! The stores report damage and hold it against the items that it may have hit. What is refused is what may lack points: a range of
//! time in which a block is damaged, or one from before the head was. What came later is whole.

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange, Blocks, StoreError};
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::head::Head;

use crate::{EngineError, Result};

/// As the operator has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Reads of what is damaged fail, and say where it is.
    #[default]
    Refuse,
    /// Reads are answered with what is left.
    Serve,
}

impl OnDamage {
    /// The head that was read of a metric; `None` where it has none.
    pub(crate) fn head(
        self,
        metric: MetricId,
        stored: Result<Option<Bytes>, StoreError>,
    ) -> Result<Option<Head>> {
        let reason = match stored {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => match Head::decode(&bytes) {
                Ok(head) => return Ok(Some(head)),
                Err(error) => error.to_string(),
            },
            Err(StoreError::Damaged(place)) => place,
            Err(error) => return Err(error.into()),
        };
        match self {
            OnDamage::Refuse => Err(damaged(metric, &format!("its newest state is damaged ({reason})"))),
            // Its blocks are left.
            OnDamage::Serve => Ok(Some(Head::new())),
        }
    }

    /// The blocks that were read of a range of a metric with this head.
    pub(crate) fn blocks(
        self,
        range: &BlockRange,
        head: &Head,
        found: Result<Blocks, StoreError>,
    ) -> Result<Vec<(BlockKey, Bytes)>> {
        let Blocks { whole, damaged: places } = match found {
            Err(StoreError::Damaged(place)) => Blocks { whole: Vec::new(), damaged: vec![place] },
            found => found?,
        };
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

//! Reads of damaged metrics: refused, or answered with what is left.
//!
//! The stores report which items damage may have affected. Refused are reads that may lack points: a range
//! with a damaged block, or one that starts before the head's loss. Later data is complete.

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange, Blocks, StoreError};
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::head::Head;

use crate::{EngineError, Result};

/// A stored head, `None` if there is none; or why it cannot be read.
pub(crate) fn decode(stored: &Result<Option<Bytes>, StoreError>) -> Result<Result<Option<Head>, String>> {
    match stored {
        Ok(None) => Ok(Ok(None)),
        Ok(Some(bytes)) => Ok(Head::decode(bytes).map(Some).map_err(|error| error.to_string())),
        Err(StoreError::Damaged(place)) => Ok(Err(place.clone())),
        Err(error) => Err(error.clone().into()),
    }
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
    pub(crate) fn head(
        self,
        metric: MetricId,
        stored: &Result<Option<Bytes>, StoreError>,
    ) -> Result<Option<Head>> {
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

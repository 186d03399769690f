//! Which log this server holds: its identity lies in the record of the sacks.
//!
//! Positions follow the server's clock, so those of a server that was emptied, or holds an older copy, are above the ones before by
//! themselves. Above those of a log in another store they are raised.

use gnudi_model::SackCount;
use redis::Value;
use uuid::Uuid;

use super::Store;
use crate::{
    clients::redis::{Call, Confirm, Tag},
    incoming::{
        IncomingError, Position,
        registry::{LogRegistry, RegisteredLog, succeed, unavailable},
    },
};

/// Scripts count in doubles.
const POSITION_MAX: Position = Position(1 << 53);

/// How many sacks a new log has: as many as the one before.
pub(super) async fn sacks(
    registry: &dyn LogRegistry,
    configured: SackCount,
) -> Result<SackCount, IncomingError> {
    let log = registry.newest_log().await.map_err(|error| unavailable(&error))?;
    Ok(log.map_or(configured, |log| log.sacks))
}

impl Store {
    /// Registers the log of this server as the one that is followed, unless it is; and has its positions be above those of the ones
    /// before.
    pub(super) async fn register(&self, registry: &dyn LogRegistry) -> Result<(), IncomingError> {
        let identity = self.identity().await?;
        let place = format!("{}, prefix {}", self.client.place(), self.options.prefix);
        let log = loop {
            match registry.newest_log().await.map_err(|error| unavailable(&error))? {
                Some(log) if log.identity == identity => break log,
                Some(log) => {
                    let found = format!("another log ({identity})");
                    succeed(registry, &log, &log.successor(identity, place.clone()), &found).await?;
                }
                None => {
                    let log = RegisteredLog {
                        generation: 1,
                        identity,
                        place: place.clone(),
                        sacks: self.numbering().count,
                        first: Position(0),
                        floor: Position(0),
                        reached: Position(0),
                    };
                    registry.register_log(&log).await.map_err(|error| unavailable(&error))?;
                }
            }
        };
        if log.first >= POSITION_MAX {
            return Err(IncomingError::Io(format!(
                "positions in Redis end below {}, and those before have come to {}",
                POSITION_MAX.0, log.first.0
            )));
        }
        let sacks = self.numbering().count;
        let raised = registry.raise_log(log.generation, Position(0), Position(0), sacks).await;
        raised.map_err(|error| unavailable(&error))?;
        if log.first > Position(0) {
            let raise =
                |tag: &Tag| Call::script(&self.scripts.raise, tag).key(tag.key(":m")).arg(log.first.0);
            self.all(Confirm::Replicas, self.tags.iter().map(raise).collect()).await?;
        }
        Ok(())
    }

    /// The identity that the first to ask gave the log.
    async fn identity(&self) -> Result<Uuid, IncomingError> {
        let key = || self.root_tag.key(":r");
        let name = Call::command("HSETNX", &self.root_tag)
            .key(key())
            .arg("identity")
            .arg(Uuid::new_v4().to_string());
        let ask = Call::command("HGET", &self.root_tag).key(key()).arg("identity");
        self.all(Confirm::Replicas, vec![name]).await?;
        let answer: Value = self.all(Confirm::Master, vec![ask]).await?.remove(0);
        let text: Option<String> = redis::from_redis_value(answer).unwrap_or_default();
        text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            IncomingError::Unavailable(format!("{}: the log has no identity", self.client.place()))
        })
    }
}

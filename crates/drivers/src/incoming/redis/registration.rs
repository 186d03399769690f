//! Registers this server's log: its identity is in the record of the sack count.
//!
//! Positions follow the server's clock, so those of an emptied server, or of an older copy, are above earlier
//! ones anyway. Above positions of a log in another store they are raised, and stay so while this process runs,
//! whatever the server loses (`Store::passed`). The floor in the registry is kept far ahead, by more than a failover
//! adds.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use redis::Value;
use uuid::Uuid;

use super::{Store, numbering::LANE};
use crate::{
    clients::redis::{Call, ClientError, Confirm, Tag},
    incoming::{
        IncomingError, Position, Result,
        registry::{AHEAD_OF_CLOCK, LogRegistry, RegisteredLog, above_clock, succeed},
    },
};

/// Scripts compute with doubles.
const POSITION_MAX: Position = Position(1 << 53);
/// How often the floor is raised.
const FLOOR_DELAY: Duration = Duration::from_secs(2);

impl Store {
    /// Registers this server's log as the followed one, unless it is already, and raises its positions above
    /// those of earlier logs.
    pub(super) async fn register(&self, registry: &dyn LogRegistry) -> Result<RegisteredLog> {
        let identity = self.identity().await?;
        let place = format!("{}, prefix {}", self.client.place(), self.options.prefix);
        let log = loop {
            match registry.newest_log().await? {
                Some(log) if log.identity == identity => break log,
                Some(log) => {
                    let found = format!("another log ({identity})");
                    succeed(registry, &log, &log.successor(identity, place.clone()), &found).await?;
                }
                None => {
                    let (place, sacks) = (place.clone(), self.numbering().units());
                    let log = RegisteredLog::beginning(identity, place, sacks, Position(0));
                    registry.register_log(&log).await?;
                }
            }
        };
        if log.first >= POSITION_MAX {
            return Err(IncomingError::Io(format!(
                "positions in Redis end below {}, and those before have come to {}",
                POSITION_MAX.0, log.first.0
            )));
        }
        self.passed.fetch_max(log.first.max(log.reached).0, Ordering::Relaxed);
        if log.first > Position(0) {
            let raise =
                |tag: &Tag| Call::script(&self.scripts.raise, tag).key(tag.key(":m")).arg(log.first.0);
            self.any(Confirm::Replicas, raise).await?;
        }
        self.raise_floor(registry, &log).await?;
        Ok(log)
    }

    /// Keeps the floor ahead of the positions. If another log is followed by now, appends are refused from
    /// then on.
    async fn raise_floor(&self, registry: &dyn LogRegistry, log: &RegisteredLog) -> Result<()> {
        let last = |tag: &Tag| Call::command("HGET", tag).key(tag.key(":m")).arg("last");
        let mut reached = 0;
        for answer in self.any(Confirm::Master, last).await? {
            let last: Option<u64> = redis::from_redis_value(answer)
                .map_err(|error| IncomingError::Unavailable(format!("{}: {error}", self.client.place())))?;
            reached = reached.max(last.unwrap_or(0));
        }
        self.passed.fetch_max(reached, Ordering::Relaxed);
        let floor = Position(reached + AHEAD_OF_CLOCK.as_micros() as u64).max(above_clock());
        // During a split that from before it: a start that finds no record must not take the split for settled.
        let (reached, sacks) = (Position(reached), self.numbering().units());
        let raised = registry.raise_log(&RegisteredLog { sacks, floor, reached, ..log.clone() }).await?;
        if !raised && self.replaced.get().is_none() {
            let reason = format!("another log has replaced log {log}");
            tracing::error!(
                "{}: {reason}: nothing is accepted until this process restarts",
                self.client.place()
            );
            let _ = self.replaced.set(reason);
        }
        Ok(())
    }

    /// Calls to all groups: the answers of those whose node responds, at least one. For the others the registry knows what
    /// they had reached, and appends go on above that (`Store::passed`).
    async fn any<'a>(&'a self, confirm: Confirm, call: impl Fn(&'a Tag) -> Call) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        let mut down = None;
        for answer in self.client.call(LANE, confirm, self.tags.iter().map(call).collect()).await {
            match answer {
                Err(error @ ClientError::Unavailable(_)) => down = Some(error),
                answer => values.push(answer?),
            }
        }
        match down {
            Some(error) if values.is_empty() => Err(error.into()),
            _ => Ok(values),
        }
    }

    /// Raises the floor regularly until the driver is dropped.
    pub(super) async fn keep_ahead(store: Weak<Store>, registry: Arc<dyn LogRegistry>, log: RegisteredLog) {
        loop {
            tokio::time::sleep(FLOOR_DELAY).await;
            let Some(store) = store.upgrade() else { return };
            if let Err(error) = store.raise_floor(&*registry, &log).await {
                tracing::debug!(%error, "the floor of positions is not raised");
            }
        }
    }

    /// The log's identity, created by the first caller.
    async fn identity(&self) -> Result<Uuid> {
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

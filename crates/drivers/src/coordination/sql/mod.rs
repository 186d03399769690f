//! Coordination on the indexer's database: `PostgreSQL`, `MySQL` or `MariaDB`.
//!
//! Every change of ownership first updates the single row of `gnudi_token`, and so waits for other changes:
//! there are no deadlocks among them, and the counter in that row orders all ownerships. Only renewals do
//! without. The transaction that holds this row removes expired sessions before it takes their sacks; a removed
//! session cannot be renewed. Times are the database's. Tokens follow its clock in microseconds if that is ahead,
//! so that they grow even after a restored backup.
//!
//! Numbers are part of a statement's text, which both dialects accept; external input is bound.
//! `connections.rs` has the connections and their timeouts, `operations.rs` the statements of a coordinator,
//! `claims.rs` those of an arbiter, `logs.rs` those of a log registry.

mod claims;
mod connections;
mod logs;
mod operations;
mod schema;

use std::time::Duration;

use async_trait::async_trait;
use gnudi_model::Sack;
use gnudi_sql::ServerOptions;
use uuid::Uuid;

use super::{Arbiter, CoordinationError, Coordinator, Member, Ownership, Session};
use crate::{
    OpenError,
    incoming::registry::{LogRegistry, RegisteredLog},
};
use connections::Connections;

/// Settings of the database.
#[derive(Clone, Debug)]
pub struct SqlCoordinatorOptions {
    /// Its `timeout` limits a call; the database also rolls back transactions of clients that are gone or
    /// suspended for about that long.
    pub database: ServerOptions,
    /// Maximum number of connections.
    pub connections_max: usize,
}

impl SqlCoordinatorOptions {
    pub fn new(database: ServerOptions) -> Self {
        SqlCoordinatorOptions { database, connections_max: 4 }
    }
}

/// A process's client of the sessions, ownerships and claims in a database.
pub struct SqlCoordinator {
    connections: Connections,
}

/// The claim of the cluster that the tables belong to. Names of objects have slashes.
const CLUSTER: &str = "cluster";

impl SqlCoordinator {
    /// Creates missing tables; safe concurrently. Refuses those of another cluster: each would leave sacks to the members
    /// of the other, which never process them.
    pub async fn open(options: &SqlCoordinatorOptions, cluster: Uuid) -> Result<Self, OpenError> {
        let place = options.database.place();
        let failed =
            |error: CoordinationError| OpenError::Engine { engine: place.clone(), reason: error.to_string() };
        let connections = Connections::new(options);
        connections.run(schema::Create).await.map_err(failed)?;
        let own = cluster.to_string();
        let claim = claims::Claim { name: CLUSTER, value: &own };
        let found = connections.run(claim).await.map_err(failed)?;
        match Uuid::parse_str(&found) {
            Ok(found) if found == cluster => Ok(SqlCoordinator { connections }),
            Ok(found) => Err(OpenError::OtherCluster { place, found, own: cluster }),
            Err(_) => {
                let reason = format!("the id of its cluster is none: {found:?}");
                Err(OpenError::Engine { engine: place, reason })
            }
        }
    }
}

#[async_trait]
impl Coordinator for SqlCoordinator {
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        self.connections.run(operations::Join { name, about, ttl }).await
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        let renewed = self.connections.run(operations::Renew { session, about }).await?;
        if renewed { Ok(()) } else { Err(CoordinationError::Expired) }
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.connections.run(operations::Leave { session }).await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        self.connections.run(operations::Members).await
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        self.connections.run(operations::Acquire { session, sacks }).await?.ok_or(CoordinationError::Expired)
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        if sacks.is_empty() {
            return Ok(());
        }
        self.connections.run(operations::Release { session, sacks }).await
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        self.connections.run(operations::Ownerships).await
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        let past = i64::try_from(past).ok().filter(|past| *past < i64::MAX / 2);
        let past = past.ok_or_else(|| CoordinationError::Unavailable("no token is that high".to_owned()))?;
        self.connections.run(operations::AdvanceTokens { past }).await
    }
}

#[async_trait]
impl Arbiter for SqlCoordinator {
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError> {
        self.connections.run(claims::Claim { name, value }).await
    }

    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError> {
        self.connections.run(claims::Claimed { names }).await
    }

    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError> {
        self.connections.run(claims::Unclaim { names }).await
    }
}

#[async_trait]
impl LogRegistry for SqlCoordinator {
    async fn newest_log(&self) -> Result<Option<RegisteredLog>, CoordinationError> {
        self.connections.run(logs::Newest).await
    }

    async fn register_log(&self, log: &RegisteredLog) -> Result<(), CoordinationError> {
        self.connections.run(logs::Register(log)).await
    }

    async fn raise_log(&self, log: &RegisteredLog) -> Result<bool, CoordinationError> {
        self.connections.run(logs::Raise(log)).await
    }
}

//! Open connections that are not in use.
//!
//! None is kept for long: behind a virtual address or a proxy it may lead to a server that is no longer the primary, whose
//! reads succeed and are outdated.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{Connection, Connector, Purpose};

/// Older connections are not used again: bounds how long reads go to a former primary. Connecting takes milliseconds.
pub(crate) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);

/// An open connection, with what decides whether it is used again.
#[derive(Debug)]
pub struct OpenConnection {
    pub connection: Connection,
    /// When it began to connect.
    pub(crate) since: Instant,
    pub(crate) generation: u64,
}

#[derive(Debug, Default)]
pub struct IdleConnections(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<OpenConnection>,
    /// How often [`IdleConnections::forget`] was called. Connections of earlier generations are not kept.
    generation: u64,
}

impl IdleConnections {
    /// An idle connection, if there is any. Closes those that are too old.
    pub fn take(&self, now: Instant) -> Option<OpenConnection> {
        let mut idle = self.0.lock();
        let is_old =
            |open: &mut OpenConnection| now.saturating_duration_since(open.since) >= CONNECTION_AGE_MAX;
        for old in idle.connections.extract_if(.., is_old) {
            // Nobody waits for the server.
            tokio::spawn(old.connection.close());
        }
        idle.connections.pop()
    }

    /// A new connection.
    pub async fn connect(
        &self,
        connector: &Connector,
        purpose: Purpose,
    ) -> Result<OpenConnection, sqlx::Error> {
        let generation = self.0.lock().generation;
        let since = Instant::now();
        let connection = connector.connect(purpose).await?;
        Ok(OpenConnection { connection, since, generation })
    }

    /// Keeps a connection that is no longer in use, unless it is lost or forgotten.
    pub fn keep(&self, open: OpenConnection) {
        let mut idle = self.0.lock();
        if open.generation == idle.generation && !open.connection.is_lost() {
            idle.connections.push(open);
        }
    }

    /// Drops the idle connections.
    pub fn clear(&self) {
        self.0.lock().connections.clear();
    }

    /// Drops the idle connections, and those in use once they no longer are.
    pub fn forget(&self) {
        let mut idle = self.0.lock();
        idle.connections.clear();
        idle.generation += 1;
    }

    pub async fn close(&self) {
        let idle = std::mem::take(&mut self.0.lock().connections);
        for open in idle {
            open.connection.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{DatabaseOptions, SqliteOptions};

    #[tokio::test]
    async fn a_connection_is_used_until_it_is_old() {
        let folder = TempDir::new().unwrap();
        let options = SqliteOptions::new(folder.path().join("index"));
        let connector = Connector::new(&DatabaseOptions::from(&options));
        let start = Instant::now();
        let idle = IdleConnections::default();
        for since in [start, start + CONNECTION_AGE_MAX / 2] {
            let connection = connector.connect(Purpose::Read).await.unwrap();
            idle.keep(OpenConnection { connection, since, generation: 0 });
        }
        let left_at = |now: Instant| {
            idle.take(now).into_iter().for_each(|open| idle.keep(open));
            idle.0.lock().connections.len()
        };
        assert_eq!(left_at(start), 2);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX / 2), 2);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX), 1);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX * 2), 0);
    }
}

//! The schema's versions, oldest first, and the way from one to the next.
//!
//! Each version is a file of statements, applied once, in a transaction that also writes down its number. A file that
//! was released is never changed. There is no way back: a program that meets a newer schema than it knows refuses it.

use sqlx::{Executor, SqliteConnection};

use super::OpenError;

/// Number and statements of each version.
const MIGRATIONS: &[(i64, &str)] = &[(1, include_str!("sqlite/0001_metadata.sql"))];

/// Brings the schema up to date. Several processes may try at once.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    migrate_with(connection, MIGRATIONS).await
}

async fn migrate_with(
    connection: &mut SqliteConnection,
    migrations: &'static [(i64, &'static str)],
) -> Result<(), OpenError> {
    connection.execute("BEGIN IMMEDIATE").await?;
    match migrate_in_transaction(connection, migrations).await {
        Ok(()) => {
            connection.execute("COMMIT").await?;
            Ok(())
        }
        Err(error) => {
            // The caller drops the connection, which also ends the transaction.
            connection.execute("ROLLBACK").await.ok();
            Err(error)
        }
    }
}

async fn migrate_in_transaction(
    connection: &mut SqliteConnection,
    migrations: &'static [(i64, &'static str)],
) -> Result<(), OpenError> {
    connection
        .execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)")
        .await?;
    let found: Option<i64> =
        sqlx::query_scalar("SELECT MAX(version) FROM schema_version").fetch_one(&mut *connection).await?;
    let found = found.unwrap_or(0);
    let known = migrations.last().map_or(0, |(version, _)| *version);
    if found > known {
        return Err(OpenError::SchemaTooNew { found, known });
    }
    for (version, statements) in migrations.iter().filter(|(version, _)| *version > found) {
        connection.execute(*statements).await?;
        sqlx::query("INSERT INTO schema_version (version) VALUES (?)")
            .bind(version)
            .execute(&mut *connection)
            .await?;
        tracing::info!(version, "index schema upgraded");
    }
    Ok(())
}

//! The schema's versions, oldest first, and the way from one to the next.
//!
//! Each version is a file of statements, applied once, in a transaction that also writes down its number. A file that
//! was released is never changed. There is no way back: a program that meets a newer schema than it knows refuses it.

use sqlx::{Executor, SqliteConnection};

use super::OpenError;

/// Number and statements of each version.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("sqlite/0001_metadata.sql")),
    (2, include_str!("sqlite/0002_resources.sql")),
    (3, include_str!("sqlite/0003_names_of_resources.sql")),
];

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

#[cfg(test)]
mod tests {
    use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

    use super::*;

    const TWO: &[(i64, &str)] = &[
        (1, "CREATE TABLE a (x BIGINT); INSERT INTO a (x) VALUES (1)"),
        (2, "ALTER TABLE a ADD COLUMN y BIGINT"),
    ];
    const BROKEN: &[(i64, &str)] =
        &[TWO[0], TWO[1], (3, "CREATE TABLE b (x BIGINT); CREATE TABLE b (x BIGINT)")];

    async fn connection() -> SqliteConnection {
        SqliteConnectOptions::new().in_memory(true).connect().await.unwrap()
    }

    async fn version(connection: &mut SqliteConnection) -> i64 {
        sqlx::query_scalar("SELECT MAX(version) FROM schema_version").fetch_one(connection).await.unwrap()
    }

    #[tokio::test]
    async fn versions_follow_each_other_once() {
        let mut connection = connection().await;
        migrate_with(&mut connection, &TWO[..1]).await.unwrap();
        for _ in 0..2 {
            migrate_with(&mut connection, TWO).await.unwrap();
            assert_eq!(version(&mut connection).await, 2);
        }
        let rows: Vec<(i64, Option<i64>)> =
            sqlx::query_as("SELECT x, y FROM a").fetch_all(&mut connection).await.unwrap();
        assert_eq!(rows, [(1, None)]);
        let refused = migrate_with(&mut connection, &TWO[..1]).await.unwrap_err();
        assert!(matches!(refused, OpenError::SchemaTooNew { found: 2, known: 1 }), "{refused}");
    }

    #[tokio::test]
    async fn a_version_that_fails_leaves_nothing() {
        let mut connection = connection().await;
        migrate_with(&mut connection, &TWO[..1]).await.unwrap();
        migrate_with(&mut connection, BROKEN).await.unwrap_err();
        assert_eq!(version(&mut connection).await, 1);
        connection.execute("SELECT y FROM a").await.unwrap_err();
        connection.execute("SELECT x FROM b").await.unwrap_err();
        migrate_with(&mut connection, TWO).await.unwrap();
    }

    #[test]
    fn numbers_ascend() {
        assert!(MIGRATIONS.is_sorted_by(|a, b| a.0 < b.0));
    }
}

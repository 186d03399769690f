//! Versions of the schema, and the migrations.
//!
//! Each version is a file of statements, applied once, in a transaction that also records its number. `MySQL` has no
//! transactional DDL: there each statement is applied separately, and statements that an interrupted program has
//! already applied are skipped. A released file is never changed. The first file creates the whole schema of its
//! version; databases of earlier, unreleased versions are refused. There are no downgrades: a program refuses a schema
//! that is newer than it knows.

use sqlx::mysql::MySqlDatabaseError;
use uuid::Uuid;

use super::{Connection, Dialect, OpenError, Statement, id_at};

type Migrations = &'static [(i64, &'static str)];

macro_rules! versions {
    ($folder:literal) => {
        &[
            (5, include_str!(concat!($folder, "/0005_schema.sql"))),
            (6, include_str!(concat!($folder, "/0006_import.sql"))),
            (7, include_str!(concat!($folder, "/0007_raw.sql"))),
            (8, include_str!(concat!($folder, "/0008_annotations.sql"))),
            (9, include_str!(concat!($folder, "/0009_late.sql"))),
            (10, include_str!(concat!($folder, "/0010_whole_names.sql"))),
            (11, include_str!(concat!($folder, "/0011_conversions.sql"))),
            (12, include_str!(concat!($folder, "/0012_moves.sql"))),
        ]
    };
}

/// Number and statements of each version.
const fn migrations_of(dialect: Dialect) -> Migrations {
    match dialect {
        Dialect::Sqlite => versions!("sqlite"),
        Dialect::Postgres => versions!("postgres"),
        Dialect::Mysql => versions!("mysql"),
    }
}

/// The newest version that this program knows.
pub(super) fn known_version(dialect: Dialect) -> i64 {
    newest_of(migrations_of(dialect))
}

fn newest_of(migrations: Migrations) -> i64 {
    migrations.last().map_or(0, |(version, _)| *version)
}

/// How long to wait for the lock of another migration.
const LOCK_SECONDS: u32 = 600;

/// Migrates the schema to the latest version. Several processes may do so concurrently.
pub(super) async fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    migrate_with(connection, migrations_of(connection.dialect())).await
}

async fn migrate_with(connection: &mut Connection, migrations: Migrations) -> Result<(), OpenError> {
    if connection.dialect() == Dialect::Mysql {
        return migrate_by_statements(connection, migrations).await;
    }
    connection
        .run(match connection.dialect() {
            // "gnudi" in bytes, and a number different from the writers' lock.
            Dialect::Postgres => "BEGIN; SELECT pg_advisory_xact_lock(113724113578242)",
            _ => "BEGIN IMMEDIATE",
        })
        .await?;
    match migrate_in_transaction(connection, migrations).await {
        Ok(()) => Ok(connection.run("COMMIT").await?),
        Err(error) => {
            // The caller drops the connection, which also ends the transaction.
            connection.run("ROLLBACK").await.ok();
            Err(error)
        }
    }
}

async fn migrate_in_transaction(
    connection: &mut Connection,
    migrations: Migrations,
) -> Result<(), OpenError> {
    for (version, statements) in missing(connection, migrations).await? {
        connection.run(statements).await?;
        set_version(connection, *version).await?;
    }
    Ok(())
}

/// The version table of Alembic, which Gnocchi and most other services use.
const ALEMBIC: &str = "alembic_version";
/// Tables that Gnocchi also has.
const NAMES_SHARED_WITH_GNOCCHI: [&str; 5] =
    ["archive_policy", "archive_policy_rule", "metric", "resource", "resource_type"];

/// Refuses a database of another program, before anything is written to it. Returns whether there is a table of versions.
async fn refuse_other_programs(connection: &mut Connection) -> Result<bool, OpenError> {
    let select = connection.statement(match connection.dialect() {
        Dialect::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
        Dialect::Postgres => {
            "SELECT convert_to(CAST(table_name AS TEXT), 'UTF8') FROM information_schema.tables \
             WHERE table_schema = current_schema() ORDER BY table_name"
        }
        Dialect::Mysql => {
            "SELECT CAST(table_name AS BINARY) FROM information_schema.tables \
             WHERE table_schema = DATABASE() ORDER BY table_name"
        }
    });
    let rows = connection.fetch_all(select).await?;
    let tables = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<&str>, _>>()?;
    let has = |name: &str| tables.contains(&name);
    let shared: Vec<&str> = NAMES_SHARED_WITH_GNOCCHI.into_iter().filter(|name| has(name)).collect();
    let has_versions = has("schema_version");
    if !has(ALEMBIC) && (has_versions || shared.is_empty()) {
        return Ok(has_versions);
    }
    let is_gnocchis = has(ALEMBIC) && shared.len() == NAMES_SHARED_WITH_GNOCCHI.len();
    let alembic = has(ALEMBIC).then_some(ALEMBIC);
    let tables = alembic.into_iter().chain(shared).collect::<Vec<_>>().join(", ");
    let program = if is_gnocchis { "Gnocchi" } else { "another program" };
    Err(OpenError::OtherProgram { program, tables })
}

/// Whether the database has gnudi's schema; `None` if unknown.
pub(super) async fn is_prepared(connection: &mut Connection) -> Result<Option<bool>, OpenError> {
    refuse_other_programs(connection).await?;
    // A one-row table that exists in every version of the schema.
    let select = connection.statement("SELECT version FROM resource_type_version");
    Ok(match connection.fetch_optional(select).await {
        Ok(_) => Some(true),
        Err(error) if gnudi_sql::is_missing_table(&error) => Some(false),
        Err(_) => None,
    })
}

/// The migrations that were not applied yet.
async fn missing(
    connection: &mut Connection,
    migrations: Migrations,
) -> Result<impl Iterator<Item = &'static (i64, &'static str)> + use<>, OpenError> {
    // Even if the table exists, creating it needs a permission, and blocks a whole cluster of Galera for a moment.
    if !refuse_other_programs(connection).await? {
        let create = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)";
        connection.run(create).await?;
    }
    let select = connection.statement("SELECT MAX(version) FROM schema_version");
    let found: Option<i64> = connection.fetch_one(select).await?.try_get(0)?;
    let found = found.unwrap_or(0);
    let known = newest_of(migrations);
    if found > known {
        return Err(OpenError::SchemaTooNew { found, known });
    }
    let oldest = migrations.first().map_or(0, |(version, _)| *version);
    if (1..oldest).contains(&found) {
        return Err(OpenError::SchemaTooOld { found, oldest });
    }
    Ok(migrations.iter().filter(move |(version, _)| *version > found))
}

async fn set_version(connection: &mut Connection, version: i64) -> Result<(), OpenError> {
    let insert = connection.statement(match connection.dialect() {
        // The locks of a cluster's nodes do not exclude each other.
        Dialect::Mysql => "INSERT IGNORE INTO schema_version (version) VALUES (?)",
        _ => "INSERT INTO schema_version (version) VALUES (?)",
    });
    connection.execute(insert.bind(version)).await?;
    tracing::info!(version, "index schema upgraded");
    Ok(())
}

/// The id of the index's cluster, set at random by the first caller.
pub(super) async fn cluster_id(connection: &mut Connection) -> Result<Uuid, OpenError> {
    const SELECT: &str = "SELECT id FROM cluster";
    let mut row = connection.fetch_optional(connection.statement(SELECT)).await?;
    if row.is_none() {
        let insert = connection.statement(match connection.dialect() {
            Dialect::Mysql => "INSERT IGNORE INTO cluster (only_one, id) VALUES (1, ?)",
            _ => "INSERT INTO cluster (only_one, id) VALUES (1, ?) ON CONFLICT DO NOTHING",
        });
        connection.execute(insert.bind(Uuid::new_v4())).await?;
        row = connection.fetch_optional(connection.statement(SELECT)).await?;
    }
    let row = row.ok_or(gnudi_sql::Error::RowNotFound)?;
    Ok(id_at(&row, 0)?)
}

/// Holds a lock of the session, which ends with it. Without one, concurrent programs repeat each other's statements, as
/// after an interruption.
async fn migrate_by_statements(connection: &mut Connection, migrations: Migrations) -> Result<(), OpenError> {
    let lock = format!("SELECT GET_LOCK(CONCAT('gnudi:', MD5(DATABASE())), {LOCK_SECONDS})");
    let taken = match connection.fetch_one(Statement::new(Dialect::Mysql, lock)).await {
        Err(error) if has_number(&error, &NO_LOCKS) => {
            return migrate_statements(connection, migrations).await;
        }
        taken => taken?,
    };
    if taken.try_get::<Option<i64>>(0)? != Some(1) {
        let reason = "another program has been changing the schema for a long time".to_owned();
        return Err(OpenError::Database { path: String::new(), reason });
    }
    let migrated = migrate_statements(connection, migrations).await;
    connection.run("DO RELEASE_LOCK(CONCAT('gnudi:', MD5(DATABASE())))").await?;
    migrated
}

async fn migrate_statements(connection: &mut Connection, migrations: Migrations) -> Result<(), OpenError> {
    for (version, statements) in missing(connection, migrations).await? {
        for statement in statements_of(statements) {
            match connection.run(statement).await {
                Err(error) if has_number(&error, &APPLIED) => {}
                applied => applied?,
            }
        }
        set_version(connection, *version).await?;
    }
    Ok(())
}

/// Statements end with a line; comments between them belong to the next one.
fn statements_of(file: &'static str) -> impl Iterator<Item = &'static str> {
    let is_statement =
        |text: &&str| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with("--"));
    let ends = file.lines().filter(|line| line.ends_with(';') && !line.trim_start().starts_with("--"));
    let offset = |line: &str| line.as_ptr() as usize - file.as_ptr() as usize + line.len();
    let mut start = 0;
    let pieces = ends.map(offset).map(move |end| {
        let piece = &file[start..end];
        start = end;
        piece
    });
    pieces.filter(is_statement)
}

/// The statement was applied before.
const APPLIED: [u16; 4] = [1050, 1060, 1061, 1091];
/// A cluster of Galera has no locks of sessions: Percona's in its default mode, and some versions of `MariaDB`.
const NO_LOCKS: [u16; 2] = [1105, 1235];

fn has_number(error: &gnudi_sql::Error, numbers: &[u16]) -> bool {
    let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| numbers.contains(&error.number()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_sql::{Connector, DatabaseOptions, Purpose, SqliteOptions};

    const TWO: &[(i64, &str)] = &[
        (1, "CREATE TABLE a (x BIGINT); INSERT INTO a (x) VALUES (1)"),
        (2, "ALTER TABLE a ADD COLUMN y BIGINT"),
    ];
    const BROKEN: &[(i64, &str)] =
        &[TWO[0], TWO[1], (3, "CREATE TABLE b (x BIGINT); CREATE TABLE b (x BIGINT)")];

    async fn connection() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::Sqlite(SqliteOptions::new(folder.path().join("index")));
        let connection = Connector::new(&options).connect(Purpose::Migrate).await.unwrap();
        (folder, connection)
    }

    async fn version(connection: &mut Connection) -> i64 {
        let select = connection.statement("SELECT MAX(version) FROM schema_version");
        connection.fetch_one(select).await.unwrap().try_get(0).unwrap()
    }

    #[tokio::test]
    async fn versions_follow_each_other_once() {
        let (_folder, mut connection) = connection().await;
        migrate_with(&mut connection, &TWO[..1]).await.unwrap();
        for _ in 0..2 {
            migrate_with(&mut connection, TWO).await.unwrap();
            assert_eq!(version(&mut connection).await, 2);
        }
        let row = connection.fetch_one(connection.statement("SELECT x, y FROM a")).await.unwrap();
        assert_eq!((row.try_get(0).ok(), row.try_get::<Option<i64>>(1).ok()), (Some(1), Some(None)));
        let refused = migrate_with(&mut connection, &TWO[..1]).await.unwrap_err();
        assert!(matches!(refused, OpenError::SchemaTooNew { found: 2, known: 1 }), "{refused}");
    }

    #[tokio::test]
    async fn versions_before_the_first_file_are_refused() {
        let (_folder, mut connection) = connection().await;
        migrate_with(&mut connection, &TWO[..1]).await.unwrap();
        let refused = migrate_with(&mut connection, &TWO[1..]).await.unwrap_err();
        assert!(matches!(refused, OpenError::SchemaTooOld { found: 1, oldest: 2 }), "{refused}");
        assert_eq!(version(&mut connection).await, 1);
    }

    #[tokio::test]
    async fn a_version_that_fails_leaves_nothing() {
        let (_folder, mut connection) = connection().await;
        migrate_with(&mut connection, &TWO[..1]).await.unwrap();
        migrate_with(&mut connection, BROKEN).await.unwrap_err();
        assert_eq!(version(&mut connection).await, 1);
        connection.run("SELECT y FROM a").await.unwrap_err();
        connection.run("SELECT x FROM b").await.unwrap_err();
        migrate_with(&mut connection, TWO).await.unwrap();
    }

    #[test]
    fn numbers_ascend() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
            let numbers: Vec<_> = migrations_of(dialect).iter().map(|(version, _)| *version).collect();
            assert_eq!(numbers, (5..=12).collect::<Vec<_>>(), "{dialect:?}");
        }
    }

    #[test]
    fn files_are_cut_into_statements() {
        let file = "-- One; two;\nCREATE TABLE a (\n    -- Here; too\n    x INT\n);\n\nINSERT INTO a VALUES (1);\n-- End\n";
        let statements: Vec<_> = statements_of(file).collect();
        assert_eq!(statements.len(), 2, "{statements:?}");
        assert!(statements[0].contains("CREATE TABLE") && statements[1].trim_start().starts_with("INSERT"));
    }
}

//! Verifies a closed index file of `SQLite`, without changing it, and repairs it.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use futures_util::TryStreamExt as _;
use gnudi_model::{MetricId, MetricStatus};
use gnudi_sql::{reason, sqlite};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use uuid::Uuid;

use super::{Dialect, OpenError, SqlIndexer, migrations};

/// Maximum number of faults reported.
const FAULTS_MAX: usize = 100;
/// The suffix of the copy that a repair works on.
const MENDING_SUFFIX: &str = ".mending";

/// The findings in an index.
#[derive(Debug, Default)]
pub struct FileCheck {
    /// Empty if there are none.
    pub faults: Vec<String>,
    /// Whether the only faults are dangling references; the file itself is intact.
    pub is_file_whole: bool,
    pub cluster_id: Option<Uuid>,
    /// All metrics, by id; `None` if they cannot be read.
    pub metrics: Option<Vec<(MetricId, MetricStatus)>>,
}

impl FileCheck {
    /// Notes that a query failed. Of the faults that make a file unreadable the first one is enough.
    fn unreadable(&mut self, error: &gnudi_sql::Error) {
        if self.is_file_whole {
            self.is_file_whole = false;
            self.faults.push(reason(error));
        }
    }
}

impl SqlIndexer {
    /// Checks the index `path`: its structure and references, and reads the metrics' ids. If it has a log, copies of
    /// both in the temporary directory are read.
    ///
    /// # Errors
    /// If a newer program wrote it: what this one misses there is no damage.
    pub async fn check_file(path: &Path) -> Result<FileCheck, OpenError> {
        let failed = |error: io::Error| OpenError::Database {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        if let Some(fault) = sqlite::file_fault(path).map_err(failed)? {
            return Ok(FileCheck { faults: vec![fault], ..FileCheck::default() });
        }
        let copy = Copy::of(path).map_err(failed)?;
        let options = match &copy {
            Some(copy) => SqliteConnectOptions::new().filename(copy.path()),
            // Without a log the file is immutable: no lock is needed.
            None => SqliteConnectOptions::new().filename(path).read_only(true).immutable(true),
        };
        let mut found = FileCheck::default();
        match options.create_if_missing(false).disable_statement_logging().connect().await {
            Ok(mut connection) => {
                let checked = check(&mut connection, &mut found).await;
                connection.close().await.ok();
                checked?;
            }
            Err(error) => found.faults.push(reason(&error)),
        }
        Ok(found)
    }

    /// Rebuilds a damaged file from the rows of its tables, in a copy which then replaces the file; `keep` is called
    /// before. Fails, and leaves the file unchanged, if not all rows can be read.
    pub async fn repair_file(
        path: &Path,
        keep: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), OpenError> {
        let failed = |reason: String| OpenError::Database { path: path.display().to_string(), reason };
        let mut mending = path.as_os_str().to_owned();
        mending.push(MENDING_SUFFIX);
        let mending = PathBuf::from(mending);
        let mended = match rebuild(path, &mending).await {
            Ok(()) => Self::check_file(&mending).await?.is_file_whole,
            Err(error) => {
                tracing::warn!("the index cannot be rebuilt: {}", reason(&error));
                false
            }
        };
        if !mended {
            fs::remove_file(&mending).ok();
            return Err(failed("it cannot be repaired: restore it from a backup of this store".to_owned()));
        }
        let replace = || {
            fs::File::open(&mending)?.sync_all()?;
            keep(path)?;
            fs::rename(&mending, path)?;
            path.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
        };
        replace().map_err(|error| failed(error.to_string()))
    }
}

/// Keeps the highest numbers that were given, also to rows that are gone: a new attribute with the number of a deleted
/// one would get its values.
const KEEP_NUMBERS: &str = "INSERT INTO main.sqlite_sequence (name, seq) \
         SELECT name, 0 FROM damaged.sqlite_sequence WHERE name NOT IN (SELECT name FROM main.sqlite_sequence); \
     UPDATE main.sqlite_sequence SET seq = MAX(seq, COALESCE((SELECT MAX(given.seq) \
         FROM damaged.sqlite_sequence AS given WHERE given.name = sqlite_sequence.name), 0))";

/// Builds the new index `to` from the rows of the tables of `from`; its indexes are not read.
async fn rebuild(from: &Path, to: &Path) -> Result<(), gnudi_sql::Error> {
    if let Err(error) = fs::remove_file(to)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error.into());
    }
    let open = |path: &Path| SqliteConnectOptions::new().filename(path).disable_statement_logging();
    // As at any start: afterwards one file is the whole index.
    let mut damaged = open(from).connect().await?;
    let folded = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut damaged).await;
    let schema = sqlx::query_as::<_, (String, String, String)>(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type <> 'table', rowid",
    );
    let schema = schema.fetch_all(&mut damaged).await;
    damaged.close().await?;
    folded?;
    let mut connection = open(to).create_if_missing(true).foreign_keys(false).connect().await?;
    sqlx::query("ATTACH ? AS damaged")
        .bind(from.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await?;
    sqlx::raw_sql("BEGIN").execute(&mut connection).await?;
    for (kind, name, sql) in schema? {
        // Also statements of earlier versions: those that the file has.
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        if kind == "table" {
            let name = name.replace('"', "\"\"");
            // With a condition, since otherwise SQLite would copy its indexes as they are.
            let copy = format!(
                "INSERT INTO main.\"{name}\" SELECT * FROM damaged.\"{name}\" NOT INDEXED WHERE true"
            );
            sqlx::raw_sql(AssertSqlSafe(copy)).execute(&mut connection).await?;
        }
    }
    sqlx::raw_sql(KEEP_NUMBERS).execute(&mut connection).await?;
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await
}

async fn check(connection: &mut SqliteConnection, found: &mut FileCheck) -> Result<(), OpenError> {
    let version = sqlx::query_scalar::<_, Option<i64>>("SELECT MAX(version) FROM schema_version");
    let version = version.fetch_one(&mut *connection).await.ok().flatten().unwrap_or(0);
    let known = migrations::known_version(Dialect::Sqlite);
    if version > known {
        return Err(OpenError::SchemaTooNew { found: version, known });
    }
    found.is_file_whole = true;
    let texts =
        sqlx::query_scalar::<_, String>("PRAGMA integrity_check(100)").fetch_all(&mut *connection).await;
    match texts {
        Ok(texts) => found.faults.extend(texts.into_iter().filter(|text| text != "ok")),
        Err(error) => found.faults.push(reason(&error)),
    }
    found.is_file_whole &= found.faults.is_empty();
    match sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut *connection).await {
        Ok(rows) => {
            let name =
                |row: &sqlx::sqlite::SqliteRow, at: usize| row.try_get::<String, _>(at).unwrap_or_default();
            let fault =
                |row| format!("a row of {} refers to one of {} that is gone", name(row, 0), name(row, 2));
            found.faults.extend(rows.iter().take(FAULTS_MAX).map(fault));
        }
        Err(error) => found.unreadable(&error),
    }
    let id =
        sqlx::query_scalar::<_, Vec<u8>>("SELECT id FROM cluster").fetch_optional(&mut *connection).await;
    found.cluster_id = id.ok().flatten().and_then(|id| Uuid::from_slice(&id).ok());
    match metrics(connection).await {
        Ok(metrics) => found.metrics = Some(metrics),
        Err(error) => found.unreadable(&error),
    }
    Ok(())
}

async fn metrics(
    connection: &mut SqliteConnection,
) -> Result<Vec<(MetricId, MetricStatus)>, gnudi_sql::Error> {
    let mut metrics = Vec::new();
    let mut rows = sqlx::query("SELECT id, status FROM metric ORDER BY id").fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let id = Uuid::from_slice(row.try_get(0)?).map_err(|error| gnudi_sql::Error::Decode(error.into()))?;
        let status = if row.try_get::<i64, _>(1)? == 0 { MetricStatus::Active } else { MetricStatus::Delete };
        metrics.push((MetricId(id), status));
    }
    drop(rows);
    metrics.sort_unstable_by_key(|(metric, _)| *metric);
    Ok(metrics)
}

/// A copy of an index with a log, since reading would modify both.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    /// `None` where there is no log.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let log = sqlite::log_path(path);
        if !fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Ok(None);
        }
        let copy = Self { dir: std::env::temp_dir().join(format!("gnudi-verify-{}", Uuid::new_v4())) };
        // As secret as the data directory, also if it is left over: a kill leaves it.
        fs::DirBuilder::new().mode(0o700).create(&copy.dir)?;
        fs::copy(path, copy.path())?;
        fs::copy(&log, sqlite::log_path(&copy.path()))?;
        Ok(Some(copy))
    }

    fn path(&self) -> PathBuf {
        self.dir.join("index")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_copy_is_readable_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("indexer.sqlite");
        fs::write(&path, "index").unwrap();
        assert!(Copy::of(&path).unwrap().is_none(), "there is no log");
        fs::write(sqlite::log_path(&path), "log").unwrap();
        let copy = Copy::of(&path).unwrap().unwrap();
        assert_eq!(fs::metadata(&copy.dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_to_string(copy.path()).unwrap(), "index");
    }
}

//! Classifies database errors.

use std::io;

use sqlx::{
    error::DatabaseError,
    mysql::MySqlDatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

/// `SQLITE_FULL`; also a `write` that failed for lack of space.
const SQLITE_FULL: &str = "13";
/// `SQLITE_IOERR_SHMSIZE`: no space to enlarge the WAL's index.
const SQLITE_IOERR_SHMSIZE: &str = "4874";

/// `SQLITE_IOERR`: the low byte of its extended codes.
const SQLITE_IOERR: u32 = 10;

/// `SQLITE_BUSY`: another connection holds a lock.
const SQLITE_BUSY: &str = "5";

/// `SQLITE_INTERRUPT`: the statement was stopped.
const SQLITE_INTERRUPT: &str = "9";

/// The disk is full.
const POSTGRES_NO_SPACE: &str = "53100";
/// Classes of codes: connections, resources, intervention of the operator (which includes timeouts of statements).
const POSTGRES_UNAVAILABLE_CLASSES: [&str; 3] = ["08", "53", "57"];
/// Further codes: a lock took too long (55P03), a transaction was idle or ran for too long (25P03, 25P04), the database is
/// gone (3D000).
const POSTGRES_UNAVAILABLE: [&str; 4] = ["55P03", "25P03", "25P04", "3D000"];
/// The server is no longer the primary.
const POSTGRES_NO_PRIMARY: &str = "25006";
/// Codes, or prefixes of codes, of errors that end the session. An error of severity FATAL does so, too, but not all proxies
/// pass the severity on.
const POSTGRES_ENDED: [&str; 4] = ["08", "57P", "25P03", "25P04"];
/// A serialization failure; a deadlock.
const POSTGRES_CONTENDED: [&str; 2] = ["40001", "40P01"];

/// The disk or a table is full.
const MYSQL_NO_SPACE: [u16; 2] = [1021, 1114];
/// Too many connections, of all or of the user (1040, 1203, 1226); the host is blocked after failed ones (1129); the
/// server stops, is offline, or has ended the session or the statement (1053, 1077, 1317, 1927, 3032); a statement took
/// too long (1969, 3024); the database is gone (1049); a member that leaves its replication group cannot commit (3100).
const MYSQL_UNAVAILABLE: [u16; 13] =
    [1040, 1203, 1226, 1129, 1053, 1077, 1317, 1927, 3032, 1969, 3024, 1049, 3100];
/// The server is no longer the primary.
const MYSQL_NO_PRIMARY: [u16; 3] = [1290, 1792, 1836];
/// `MySQL`: the server has closed a connection that was idle for `wait_timeout` (4031, since 8.0.24), or an operator has
/// ended the session (3169). Both: the server has `max_prepared_stmt_count` statements (1461); those of a connection go
/// with it.
const MYSQL_ENDED: [u16; 3] = [4031, 3169, 1461];
/// `MariaDB`: a statement took too long. Its `SQLSTATE` is that of ended sessions (70100), but the session goes on.
const MARIADB_TOO_LONG: u16 = 1969;
/// A lock took too long; a deadlock; another member of the replication group was first (3101).
const MYSQL_CONTENDED: [u16; 3] = [1205, 1213, 3101];
/// The `SQLSTATE` of a communication failure.
const MYSQL_LOST: &str = "08S01";

/// What happened, with the database's code. Contains neither the database's address nor values of rows.
pub fn reason(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(database) => match code(database) {
            Some(code) => format!("{} (code {code})", database.message()),
            None => database.message().to_owned(),
        },
        None => error.to_string(),
    }
}

/// Whether a [`reason`] is permanent: wrong login, host that may not connect, missing database, or no permission.
pub fn is_lasting(reason: &str) -> bool {
    const CODES: [&str; 12] =
        ["28P01", "28000", "3D000", "42501", "1044", "1045", "1049", "1130", "1142", "1143", "1227", "1698"];
    CODES.iter().any(|code| reason.ends_with(&format!("(code {code})")))
}

fn code(error: &dyn DatabaseError) -> Option<String> {
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        Some(error) => Some(error.number().to_string()),
        None => error.code().map(Into::into),
    }
}

/// The caller's possible reaction to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The disk or a quota is full.
    NoSpace,
    /// The server does not respond, or is not the primary: retry later.
    Unavailable,
    /// Conflict with another transaction: retry the same one at once.
    Contended,
    Other,
}

pub fn class(error: &sqlx::Error) -> Class {
    let Some(database) = error.as_database_error() else {
        let is_away = matches!(
            error,
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut
        );
        return if is_away { Class::Unavailable } else { Class::Other };
    };
    if let Some(error) = database.try_downcast_ref::<MySqlDatabaseError>() {
        return match error.number() {
            number if MYSQL_NO_SPACE.contains(&number) => Class::NoSpace,
            number if MYSQL_UNAVAILABLE.contains(&number) => Class::Unavailable,
            number if MYSQL_NO_PRIMARY.contains(&number) || MYSQL_ENDED.contains(&number) => {
                Class::Unavailable
            }
            number if MYSQL_CONTENDED.contains(&number) => Class::Contended,
            _ if error.code() == Some(MYSQL_LOST) => Class::Unavailable,
            _ => Class::Other,
        };
    }
    let code = database.code().unwrap_or_default();
    if database.try_downcast_ref::<PgDatabaseError>().is_none() {
        let is_full = matches!(&*code, SQLITE_FULL | SQLITE_IOERR_SHMSIZE);
        return if is_full { Class::NoSpace } else { Class::Other };
    }
    match &*code {
        POSTGRES_NO_SPACE => Class::NoSpace,
        code if POSTGRES_CONTENDED.contains(&code) => Class::Contended,
        code if POSTGRES_UNAVAILABLE_CLASSES.iter().any(|class| code.starts_with(class)) => {
            Class::Unavailable
        }
        code if POSTGRES_UNAVAILABLE.contains(&code) || code == POSTGRES_NO_PRIMARY => Class::Unavailable,
        _ => Class::Other,
    }
}

pub fn is_unique_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

pub fn is_foreign_key_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_foreign_key_violation)
}

/// Whether it is a disk error of `SQLite`.
pub fn is_io_error(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == SQLITE_IOERR)
}

pub fn is_busy(error: &sqlx::Error) -> bool {
    has_code(error, SQLITE_BUSY)
}

/// Whether `SQLite` stopped the statement, since a progress handler asked for it.
pub fn is_interrupted(error: &sqlx::Error) -> bool {
    has_code(error, SQLITE_INTERRUPT)
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(code))
}

/// Whether a statement refers to a missing table.
pub fn is_missing_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| matches!(&*code, "42P01" | "42S02"))
}

/// Whether the connection is unusable: it has ended, or its server is no longer the primary, which a new connection may
/// reach.
pub fn is_lost(error: &sqlx::Error) -> bool {
    let Some(database) = error.as_database_error() else {
        return matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_));
    };
    if let Some(error) = database.try_downcast_ref::<PgDatabaseError>() {
        let is_fatal = matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic);
        let has_ended = POSTGRES_ENDED.iter().any(|codes| error.code().starts_with(codes));
        return is_fatal || has_ended || error.code() == POSTGRES_NO_PRIMARY;
    }
    let Some(error) = database.try_downcast_ref::<MySqlDatabaseError>() else { return false };
    // Servers terminate sessions (08S01), and MariaDB terminates running statements at shutdown (70100).
    let has_ended = match error.code() {
        Some(MYSQL_LOST) => true,
        Some("70100") => error.number() != MARIADB_TOO_LONG,
        _ => MYSQL_ENDED.contains(&error.number()),
    };
    has_ended || MYSQL_NO_PRIMARY.contains(&error.number())
}

/// Whether the two sides did not agree on TLS.
pub(crate) fn is_handshake(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_lasting;

    #[test]
    fn a_login_that_is_refused_stays_so_and_a_server_that_starts_does_not() {
        for (reason, expected) in [
            ("password authentication failed for user \"u\" (code 28P01)", true),
            ("Access denied for user 'u'@'h' (using password: YES) (code 1045)", true),
            ("database \"d\" does not exist (code 3D000)", true),
            ("the database system is starting up (code 57P03)", false),
            ("Connection refused (os error 111)", false),
            ("a text that speaks of code 1045", false),
        ] {
            assert_eq!(is_lasting(reason), expected, "{reason}");
        }
    }
}

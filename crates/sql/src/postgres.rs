//! `PostgreSQL`: connecting, and binding values.

use std::{fmt::Write, time::Duration};

use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions, Executor, PgConnection, Postgres, Row as _,
    postgres::{PgArguments, PgConnectOptions, PgSslMode},
    query::Query,
};

use crate::{
    Purpose, Statement, Value,
    error::is_handshake,
    options::{Host, ServerOptions, TlsMode, with_options},
};

pub(crate) use crate::Row::Postgres as row;

pub(crate) fn connect_options(options: &ServerOptions) -> PgConnectOptions {
    // PgBouncer refuses a connection that begins with this setting: it is set later.
    let connect =
        PgConnectOptions::new_without_pgpass().application_name("gnudi").extra_float_digits(None::<i8>);
    let connect = match &options.host {
        Host::Tcp(name, port) => connect.host(name).port(*port),
        Host::Socket(folder, port) => connect.socket(folder).port(*port),
    };
    let mode = match options.tls.mode {
        // As libpq: the server has no TLS on its socket.
        _ if matches!(options.host, Host::Socket(..)) => PgSslMode::Disable,
        TlsMode::Disabled => PgSslMode::Disable,
        TlsMode::Preferred => PgSslMode::Prefer,
        TlsMode::Required => PgSslMode::Require,
        TlsMode::VerifyCa => PgSslMode::VerifyCa,
        TlsMode::VerifyIdentity => PgSslMode::VerifyFull,
    };
    with_options!(connect.ssl_mode(mode), options, ssl_root_cert)
}

pub(crate) async fn connect(
    options: &PgConnectOptions,
    purpose: Purpose,
    limit: Duration,
) -> Result<PgConnection, sqlx::Error> {
    let mut connection = match options.connect().await {
        Err(error) if is_handshake(&error) && matches!(options.get_ssl_mode(), PgSslMode::Prefer) => {
            tracing::debug!(%error, "a connection to the database goes on without TLS");
            options.clone().ssl_mode(PgSslMode::Disable).connect().await?
        }
        connected => connected?,
    };
    let limit_ms = limit.as_millis();
    let limits = match purpose {
        // The user's or the database's limits are for short statements.
        Purpose::Migrate => "SET statement_timeout = 0; SET lock_timeout = 0; ".to_owned(),
        // A process suspended in a transaction loses it, so that others can write.
        Purpose::Read | Purpose::Write | Purpose::Coordinate => format!(
            "SET statement_timeout = {limit_ms}; SET lock_timeout = {limit_ms}; \
             SET idle_in_transaction_session_timeout = {limit_ms}; "
        ),
    };
    let read_only = if purpose == Purpose::Read { "SET default_transaction_read_only = on; " } else { "" };
    // Overrides the database's settings. Before PostgreSQL 12 numbers that are read as texts would lack digits.
    let session = format!(
        "{limits}{read_only}SET default_transaction_isolation = 'read committed'; SET extra_float_digits = 2"
    );
    connection.execute(AssertSqlSafe(session)).await?;
    Ok(connection)
}

/// The server's process that executes this. Not prepared: other connections' statements may have the same names there.
pub(crate) async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    connection.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)
}

pub(crate) fn query(statement: Statement) -> Query<'static, Postgres, PgArguments> {
    let sql = numbered(statement.sql(), statement.values.len());
    let mut arguments = PgArguments::default();
    for value in statement.values {
        let added = match value {
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::IntegerColumn(numbers) => arguments.add(numbers),
            Value::BytesColumn(list) => arguments.add(list),
            bytes => arguments.add(bytes.into_bytes()),
        };
        added.expect("plain values can be bound");
    }
    sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(statement.is_kept)
}

/// Replaces question marks by numbered parameters, except in quotes: a name or a text may have some.
fn numbered(sql: &str, marks: usize) -> String {
    let mut text = String::with_capacity(sql.len() + marks * 4);
    let (mut number, mut quote) = (0, None);
    for (index, part) in sql.split('?').enumerate() {
        if index > 0 && quote.is_some() {
            text.push('?');
        } else if index > 0 {
            number += 1;
            write!(text, "${number}").expect("a string takes all");
        }
        let quotes = part.bytes().filter(|byte| matches!(byte, b'"' | b'\''));
        quote = quotes.fold(quote, |open, found| match open {
            None => Some(found),
            Some(open) if open == found => None,
            open => open,
        });
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DatabaseOptions;

    #[test]
    fn a_socket_has_no_tls() {
        let url = "postgresql://me@/index?sslmode=require";
        let DatabaseOptions::Server(options) = DatabaseOptions::from_url(url).unwrap() else {
            panic!("{url}")
        };
        assert!(matches!(connect_options(&options).get_ssl_mode(), PgSslMode::Disable));
    }

    #[test]
    fn marks_are_numbered() {
        assert_eq!(numbered("SELECT 1", 0), "SELECT 1");
        assert_eq!(numbered("?, (?, ?)", 3), "$1, ($2, $3)");
        // A doubled quote within quotes, and a quote of the other kind.
        let quoted = r#"a."up?", a."""?'", '?''"?', "#;
        assert_eq!(numbered(&format!("?, {quoted}?"), 2), format!("$1, {quoted}$2"));
    }
}

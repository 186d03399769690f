//! `MySQL` and `MariaDB`: connecting, and binding values.

use std::time::Duration;

use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions, Executor, MySql, MySqlConnection,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlDatabaseError, MySqlSslMode},
    query::Query,
};

use crate::{
    Purpose, Statement, Value,
    error::is_handshake,
    options::{Host, ServerOptions, TlsMode, with_options},
};

pub(crate) use crate::Row::Mysql as row;

/// Maximum steps of a recursive query, the highest that there is. Beyond the default of 1000 `MariaDB` leaves out the
/// other rows, with no more than a warning, and `MySQL` fails.
const RECURSIONS_MAX: u32 = u32::MAX;

const UNKNOWN_VARIABLE: u16 = 1193;

pub(crate) fn connect_options(options: &ServerOptions) -> MySqlConnectOptions {
    let connect = match &options.host {
        Host::Tcp(name, port) => MySqlConnectOptions::new().host(name).port(*port),
        Host::Socket(file, _) => MySqlConnectOptions::new().socket(file),
    };
    let mode = match options.tls.mode {
        TlsMode::Disabled => MySqlSslMode::Disabled,
        TlsMode::Preferred => MySqlSslMode::Preferred,
        TlsMode::Required => MySqlSslMode::Required,
        TlsMode::VerifyCa => MySqlSslMode::VerifyCa,
        TlsMode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
    };
    with_options!(connect.ssl_mode(mode), options, ssl_ca)
}

pub(crate) async fn connect(
    options: &MySqlConnectOptions,
    purpose: Purpose,
    limit: Duration,
) -> Result<MySqlConnection, sqlx::Error> {
    let mut connection = match options.connect().await {
        Err(error) if is_handshake(&error) && matches!(options.get_ssl_mode(), MySqlSslMode::Preferred) => {
            tracing::debug!(%error, "a connection to the database goes on without TLS");
            options.clone().ssl_mode(MySqlSslMode::Disabled).connect().await?
        }
        connected => connected?,
    };
    let seconds = limit.as_secs().max(1);
    // Strict mode, since otherwise values that are too long are truncated. Autocommit, since servers may be configured
    // without it, and then lose single statements. The first comment is for MariaDB, the second for MySQL: a process
    // suspended in a transaction loses it, so that others can write.
    let limits = match purpose {
        // The server's limit is for short statements.
        Purpose::Migrate => {
            " /*M!, SESSION max_statement_time = 0 */ /*!80000, SESSION max_execution_time = 0 */".to_owned()
        }
        Purpose::Read | Purpose::Write => format!(
            ", SESSION innodb_lock_wait_timeout = {seconds} \
             /*M!, SESSION idle_transaction_timeout = {seconds}, SESSION max_statement_time = {seconds}, \
             SESSION max_recursive_iterations = {RECURSIONS_MAX} */ \
             /*!80000, SESSION wait_timeout = {}, SESSION max_execution_time = {}, \
             SESSION cte_max_recursion_depth = {RECURSIONS_MAX} */",
            seconds * 6,
            seconds * 1000
        ),
        Purpose::Coordinate => {
            format!(", SESSION innodb_lock_wait_timeout = {seconds}, SESSION wait_timeout = {}", seconds * 2)
        }
    };
    let access = if purpose == Purpose::Read { ", READ ONLY" } else { "" };
    let session = format!(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1{limits}; \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED{access}"
    );
    connection.execute(AssertSqlSafe(session)).await?;
    see_other_nodes(&mut connection).await?;
    Ok(connection)
}

/// On a cluster of Galera, statements and transactions wait for what other nodes have committed before. Behind a
/// balancer connections lead to several nodes: without it a worker drops the measures of a metric that was just created
/// on another node, and a cache reads again what an entry of the feed has invalidated. Other servers lack the variable.
async fn see_other_nodes(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let Err(error) = connection.execute("SET SESSION wsrep_sync_wait = 7").await else { return Ok(()) };
    let refusal = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    if refusal.is_some_and(|refusal| refusal.number() == UNKNOWN_VARIABLE) { Ok(()) } else { Err(error) }
}

pub(crate) fn query(statement: Statement) -> Query<'static, MySql, MySqlArguments> {
    let is_kept = statement.is_kept;
    let (sql, values) = statement.into_parts();
    let mut arguments = MySqlArguments::default();
    for value in values {
        let added = match value {
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::IntegerColumn(_) | Value::BytesColumn(_) => {
                unreachable!("columns are for another database")
            }
            bytes => arguments.add(bytes.into_bytes()),
        };
        added.expect("plain values can be bound");
    }
    sqlx::query_with(sql, arguments).persistent(is_kept)
}

//! Creates the tables, unless they exist: what would be repeated needs the permissions of their owner.

use async_trait::async_trait;

use gnudi_sql::{Connection, Dialect, Error, is_missing_table};

use super::connections::{Operation, begin, commit, no_server, once};

/// "gnudi" in bytes; differs from the locks of the index.
const LOCK: &str = "SELECT pg_advisory_xact_lock(113724113578307)";

/// Texts are bytes, and so compared bytewise.
const POSTGRES: [&str; 7] = [
    "CREATE TABLE IF NOT EXISTS gnudi_token (one BIGINT PRIMARY KEY, last BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS gnudi_session (id BIGINT PRIMARY KEY, name BYTEA NOT NULL UNIQUE, about BYTEA NOT NULL, \
     ttl_us BIGINT NOT NULL, until_us BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS gnudi_sack_owner (sacks BIGINT NOT NULL, sack BIGINT NOT NULL, session BIGINT NOT NULL, \
     token BIGINT NOT NULL, PRIMARY KEY (sacks, sack))",
    "CREATE INDEX IF NOT EXISTS gnudi_sack_owner_session ON gnudi_sack_owner (session)",
    "CREATE TABLE IF NOT EXISTS gnudi_claim (name BYTEA PRIMARY KEY, value BYTEA NOT NULL)",
    "CREATE TABLE IF NOT EXISTS gnudi_incoming_log (generation BIGINT PRIMARY KEY, identity BYTEA NOT NULL, \
     place BYTEA NOT NULL, sacks BIGINT NOT NULL, first_position BIGINT NOT NULL, floor_position BIGINT NOT NULL, \
     reached_position BIGINT NOT NULL)",
    "INSERT INTO gnudi_token (one, last) VALUES (1, 0) ON CONFLICT (one) DO NOTHING",
];

const MYSQL: [&str; 6] = [
    "CREATE TABLE IF NOT EXISTS gnudi_token (one BIGINT PRIMARY KEY, last BIGINT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS gnudi_session (id BIGINT PRIMARY KEY, name VARBINARY(512) NOT NULL UNIQUE, \
     about LONGBLOB NOT NULL, ttl_us BIGINT NOT NULL, until_us BIGINT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS gnudi_sack_owner (sacks BIGINT NOT NULL, sack BIGINT NOT NULL, session BIGINT NOT NULL, \
     token BIGINT NOT NULL, PRIMARY KEY (sacks, sack), KEY gnudi_sack_owner_session (session)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS gnudi_claim (name VARBINARY(1024) PRIMARY KEY, value LONGBLOB NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS gnudi_incoming_log (generation BIGINT PRIMARY KEY, identity VARBINARY(64) NOT NULL, \
     place LONGBLOB NOT NULL, sacks BIGINT NOT NULL, first_position BIGINT NOT NULL, floor_position BIGINT NOT NULL, \
     reached_position BIGINT NOT NULL) ENGINE=InnoDB",
    "INSERT INTO gnudi_token (one, last) VALUES (1, 0) ON DUPLICATE KEY UPDATE one = one",
];

/// A row if there is nothing to create.
const IS_READY: &str = "SELECT t.last FROM gnudi_token t LEFT JOIN gnudi_session ON 1 = 0 \
    LEFT JOIN gnudi_sack_owner ON 1 = 0 LEFT JOIN gnudi_claim ON 1 = 0 LEFT JOIN gnudi_incoming_log ON 1 = 0";

pub(super) struct Create;

#[async_trait]
impl Operation for Create {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        match connection.fetch_optional(once(connection, IS_READY)).await {
            Ok(Some(_)) => return Ok(()),
            Err(error) if !is_missing_table(&error) => return Err(error),
            Ok(None) | Err(_) => {}
        }
        let statements: &[&'static str] = match connection.dialect() {
            Dialect::Postgres => &POSTGRES,
            Dialect::Mysql => &MYSQL,
            Dialect::Sqlite => no_server(),
        };
        begin(connection).await?;
        if connection.dialect() == Dialect::Postgres {
            // Concurrent creation of a table fails there, despite IF NOT EXISTS.
            connection.run(LOCK).await?;
        }
        for statement in statements {
            connection.run(statement).await?;
        }
        commit(connection).await
    }
}

//! The statements of an arbiter.

use std::collections::HashMap;

use async_trait::async_trait;

use gnudi_sql::{Connection, Error, Statement};

use super::connections::{Operation, on_conflict_ignore, once};

/// Maximum number of names in a statement.
const NAMES_AT_ONCE_MAX: usize = 1000;

pub(super) struct Claim<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
}

#[async_trait]
impl Operation for Claim<'_> {
    type Answer = String;

    async fn run(&self, connection: &mut Connection) -> Result<String, Error> {
        // Waits for a concurrent claim of the same name.
        let unless_claimed = on_conflict_ignore(connection, "name");
        let insert = format!("INSERT INTO gnudi_claim (name, value) VALUES (?, ?){unless_claimed}");
        let insert = once(connection, insert).bind(self.name).bind(self.value);
        loop {
            connection.execute(insert.clone()).await?;
            let select = connection.statement("SELECT value FROM gnudi_claim WHERE name = ?");
            // Otherwise it was unclaimed in between.
            if let Some(row) = connection.fetch_optional(select.bind(self.name)).await? {
                return row.try_get(0);
            }
        }
    }
}

pub(super) struct Claimed<'a> {
    pub(super) names: &'a [String],
}

#[async_trait]
impl Operation for Claimed<'_> {
    type Answer = Vec<Option<String>>;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, Error> {
        let mut values = HashMap::new();
        for names in self.names.chunks(NAMES_AT_ONCE_MAX) {
            let select = among(connection, "SELECT name, value FROM gnudi_claim WHERE name IN ", names);
            for row in connection.fetch_all(select).await? {
                values.insert(row.try_get::<String>(0)?, row.try_get::<String>(1)?);
            }
        }
        Ok(self.names.iter().map(|name| values.get(name).cloned()).collect())
    }
}

pub(super) struct Unclaim<'a> {
    pub(super) names: &'a [String],
}

#[async_trait]
impl Operation for Unclaim<'_> {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        for names in self.names.chunks(NAMES_AT_ONCE_MAX) {
            let delete = among(connection, "DELETE FROM gnudi_claim WHERE name IN ", names);
            connection.execute(delete).await?;
        }
        Ok(())
    }
}

/// A statement that ends with a list of names.
fn among(connection: &Connection, sql: &str, names: &[String]) -> Statement {
    let marks = vec!["?"; names.len()].join(",");
    names.iter().fold(once(connection, format!("{sql}({marks})")), Statement::bind)
}

//! The statements of an arbiter.

use std::collections::HashMap;

use async_trait::async_trait;

use super::connections::{Connection, Operation};

/// How many names one statement has at most.
const NAMES_AT_ONCE_MAX: usize = 1000;

pub(super) struct Claim<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
}

#[async_trait]
impl Operation for Claim<'_> {
    type Answer = String;

    async fn run(&self, connection: &mut Connection) -> Result<String, sqlx::Error> {
        // Waits for another that claims the same name just now.
        let unless_claimed = match connection {
            Connection::Postgres(_) => "ON CONFLICT (name) DO NOTHING",
            Connection::MySql(_) => "ON DUPLICATE KEY UPDATE name = name",
        };
        let insert = format!("INSERT INTO gnudi_claim (name, value) VALUES (?, ?) {unless_claimed}");
        loop {
            connection.execute(&insert, &[self.name, self.value]).await?;
            let rows = connection.rows("SELECT value FROM gnudi_claim WHERE name = ?", &[self.name]).await?;
            // Otherwise it was given up between the two.
            if let Some(row) = rows.first() {
                return row.text(0);
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

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, sqlx::Error> {
        let mut values = HashMap::new();
        for names in self.names.chunks(NAMES_AT_ONCE_MAX) {
            let select = format!("SELECT name, value FROM gnudi_claim WHERE name IN ({})", marks(names));
            for row in connection.rows(&select, &texts(names)).await? {
                values.insert(row.text(0)?, row.text(1)?);
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

    async fn run(&self, connection: &mut Connection) -> Result<(), sqlx::Error> {
        for names in self.names.chunks(NAMES_AT_ONCE_MAX) {
            let delete = format!("DELETE FROM gnudi_claim WHERE name IN ({})", marks(names));
            connection.execute(&delete, &texts(names)).await?;
        }
        Ok(())
    }
}

fn marks(names: &[String]) -> String {
    vec!["?"; names.len()].join(",")
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

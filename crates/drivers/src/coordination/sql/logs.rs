//! The statements of a registry of logs.

use std::num::NonZeroU16;

use async_trait::async_trait;
use gnudi_model::SackCount;
use uuid::Uuid;

use super::connections::{Connection, Operation, Row};
use crate::incoming::{Position, registry::RegisteredLog};

const COLUMNS: &str = "generation, identity, place, sacks, first_position, floor_position, reached_position";

pub(super) struct Newest;

#[async_trait]
impl Operation for Newest {
    type Answer = Option<RegisteredLog>;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, sqlx::Error> {
        let select = format!("SELECT {COLUMNS} FROM gnudi_incoming_log ORDER BY generation DESC LIMIT 1");
        connection.rows(&select, &[]).await?.first().map(log_of).transpose()
    }
}

fn log_of(row: &Row) -> Result<RegisteredLog, sqlx::Error> {
    let identity = Uuid::parse_str(&row.text(1)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let sacks = u16::try_from(row.sure(3)?).ok().and_then(NonZeroU16::new).ok_or(sqlx::Error::RowNotFound)?;
    let position = |column| row.sure(column).map(|position| Position(position as u64));
    Ok(RegisteredLog {
        generation: row.sure(0)? as u64,
        identity,
        place: row.text(2)?,
        sacks: SackCount(sacks),
        first: position(4)?,
        floor: position(5)?,
        reached: position(6)?,
    })
}

pub(super) struct Register<'a>(pub(super) &'a RegisteredLog);

#[async_trait]
impl Operation for Register<'_> {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), sqlx::Error> {
        let unless_registered = match connection {
            Connection::Postgres(_) => "ON CONFLICT (generation) DO NOTHING",
            Connection::MySql(_) => "ON DUPLICATE KEY UPDATE generation = generation",
        };
        let RegisteredLog { generation, identity, place, sacks, first, floor, reached } = self.0;
        let insert = format!(
            "INSERT INTO gnudi_incoming_log ({COLUMNS}) VALUES ({generation}, ?, ?, {}, {}, {}, {}) {unless_registered}",
            sacks.get(),
            first.0,
            floor.0,
            reached.0
        );
        connection.execute(&insert, &[&identity.to_string(), place]).await.map(|_| ())
    }
}

/// Answers whether the generation is the newest.
pub(super) struct Raise {
    pub(super) generation: u64,
    pub(super) reached: Position,
    pub(super) floor: Position,
    pub(super) sacks: SackCount,
}

#[async_trait]
impl Operation for Raise {
    type Answer = bool;

    async fn run(&self, connection: &mut Connection) -> Result<bool, sqlx::Error> {
        let Raise { generation, reached, floor, sacks } = self;
        let raise = format!(
            "UPDATE gnudi_incoming_log SET reached_position = GREATEST(reached_position, {}), \
             floor_position = GREATEST(floor_position, {}), sacks = GREATEST(sacks, {}) WHERE generation = {generation}",
            reached.0,
            floor.0,
            sacks.get()
        );
        let newest = connection.rows("SELECT MAX(generation) FROM gnudi_incoming_log", &[]).await?;
        let newest = newest.first().ok_or(sqlx::Error::RowNotFound)?.number(0)?;
        if newest != Some(*generation as i64) {
            return Ok(false);
        }
        connection.execute(&raise, &[]).await?;
        Ok(true)
    }
}

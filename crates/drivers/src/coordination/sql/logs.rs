//! The statements of a log registry.

use std::num::NonZeroU16;

use async_trait::async_trait;
use gnudi_model::SackCount;
use uuid::Uuid;

use gnudi_sql::{Connection, Error, Row};

use super::connections::{Operation, on_conflict_ignore, once};
use crate::incoming::{Position, registry::RegisteredLog};

const COLUMNS: &str = "generation, identity, place, sacks, first_position, floor_position, reached_position";

pub(super) struct Newest;

#[async_trait]
impl Operation for Newest {
    type Answer = Option<RegisteredLog>;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, Error> {
        let select = format!("SELECT {COLUMNS} FROM gnudi_incoming_log ORDER BY generation DESC LIMIT 1");
        connection.fetch_optional(once(connection, select)).await?.as_ref().map(log_of).transpose()
    }
}

fn log_of(row: &Row) -> Result<RegisteredLog, Error> {
    let identity =
        Uuid::parse_str(&row.try_get::<String>(1)?).map_err(|error| Error::Decode(error.into()))?;
    let sacks =
        u16::try_from(row.try_get::<i64>(3)?).ok().and_then(NonZeroU16::new).ok_or(Error::RowNotFound)?;
    let position = |column| row.try_get::<i64>(column).map(|position| Position(position as u64));
    Ok(RegisteredLog {
        generation: row.try_get::<i64>(0)? as u64,
        identity,
        place: row.try_get::<String>(2)?,
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

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        let unless_registered = on_conflict_ignore(connection, "generation");
        let RegisteredLog { generation, identity, place, sacks, first, floor, reached } = self.0;
        let insert = format!(
            "INSERT INTO gnudi_incoming_log ({COLUMNS}) VALUES ({generation}, ?, ?, {}, {}, {}, {}){unless_registered}",
            sacks.get(),
            first.0,
            floor.0,
            reached.0
        );
        connection.execute(once(connection, insert).bind(identity.to_string()).bind(place)).await.map(|_| ())
    }
}

/// Returns whether the generation is the newest.
pub(super) struct Raise<'a>(pub(super) &'a RegisteredLog);

#[async_trait]
impl Operation for Raise<'_> {
    type Answer = bool;

    async fn run(&self, connection: &mut Connection) -> Result<bool, Error> {
        let RegisteredLog { generation, reached, floor, sacks, .. } = self.0;
        let raise = format!(
            "UPDATE gnudi_incoming_log SET reached_position = GREATEST(reached_position, {}), \
             floor_position = GREATEST(floor_position, {}), sacks = GREATEST(sacks, {}) WHERE generation = {generation}",
            reached.0,
            floor.0,
            sacks.get()
        );
        let newest = connection.statement("SELECT MAX(generation) FROM gnudi_incoming_log");
        if connection.fetch_one(newest).await?.try_get::<Option<i64>>(0)? != Some(*generation as i64) {
            return Ok(false);
        }
        connection.execute(once(connection, raise)).await?;
        Ok(true)
    }
}

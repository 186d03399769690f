//! The statements of a coordinator: a few per operation, however many sacks.

use std::{num::NonZeroU16, time::Duration};

use async_trait::async_trait;
use gnudi_model::{Sack, SackCount, SackId};

use gnudi_sql::{Connection, Dialect, Error, Row};

use super::connections::{Operation, begin, commit, no_server, now, once};
use crate::coordination::{Member, Owners, Ownership, Session, free_of, tokens_of};

/// Up to this many sacks are listed in a statement; beyond, all sacks of their counts are read.
const SACKS_NAMED_MAX: usize = 500;
/// Maximum number of rows that one statement writes or removes: some 200 KiB of text.
const ROWS_AT_ONCE_MAX: usize = 8192;

/// Begins a transaction, locks the token row, and reserves `count` numbers above all earlier ones. Returns
/// the last of them.
async fn begin_in_turn(connection: &mut Connection, count: usize) -> Result<i64, Error> {
    begin(connection).await?;
    let now = now(connection);
    let take = format!("UPDATE gnudi_token SET last = GREATEST(last, {now}) + {count} WHERE one = 1");
    connection.execute(once(connection, take)).await?;
    let last = connection.statement("SELECT last FROM gnudi_token WHERE one = 1");
    connection.fetch_one(last).await?.try_get(0)
}

/// The session whose id is a row's first column.
fn session_of(row: &Row) -> Result<Session, Error> {
    row.try_get::<i64>(0).map(|id| Session(id as u64))
}

fn sack_of(count: i64, id: i64) -> Option<Sack> {
    let count = NonZeroU16::new(u16::try_from(count).ok()?)?;
    Some(Sack { count: SackCount(count), id: SackId(u16::try_from(id).ok()?) })
}

/// `(4,1),(4,2)`
fn pairs(sacks: &[Sack]) -> String {
    let pairs: Vec<String> =
        sacks.iter().map(|sack| format!("({},{})", sack.count.get(), sack.id.0)).collect();
    pairs.join(",")
}

/// The condition under which a session of the table `of` lives. A clock that was ahead, and was set right, leaves ends far
/// ahead: such a session would outlive its process. Live processes renew theirs, and small steps of the clock are no
/// reason: so an end may be twice the session's length away.
fn is_alive(of: &str, now: &str) -> String {
    format!("{of}.until_us > {now} AND {of}.until_us <= {now} + 2 * {of}.ttl_us")
}

fn ids(sessions: &[Session]) -> String {
    let ids: Vec<String> = sessions.iter().map(|session| (session.0 as i64).to_string()).collect();
    ids.join(",")
}

/// Ends sessions; the transaction must hold the token row.
async fn end(connection: &mut Connection, sessions: &[Session]) -> Result<(), Error> {
    if sessions.is_empty() {
        return Ok(());
    }
    let ids = ids(sessions);
    connection.execute(once(connection, format!("DELETE FROM gnudi_session WHERE id IN ({ids})"))).await?;
    connection
        .execute(once(connection, format!("DELETE FROM gnudi_sack_owner WHERE session IN ({ids})")))
        .await?;
    Ok(())
}

pub(super) struct Join<'a> {
    pub(super) name: &'a str,
    pub(super) about: &'a str,
    pub(super) ttl: Duration,
}

#[async_trait]
impl Operation for Join<'_> {
    type Answer = Session;

    async fn run(&self, connection: &mut Connection) -> Result<Session, Error> {
        let id = begin_in_turn(connection, 1).await?;
        let now = now(connection);
        // Those that are over, too: an acquisition ends them only while there are free sacks, and each process that dies leaves
        // one.
        let is_alive = is_alive("s", now);
        let over = format!("SELECT s.id FROM gnudi_session s WHERE s.name = ? OR NOT ({is_alive})");
        let over = connection.fetch_all(once(connection, over).bind(self.name)).await?;
        let over: Result<Vec<Session>, _> = over.iter().map(session_of).collect();
        end(connection, &over?).await?;
        let ttl_us = self.ttl.as_micros().min(1 << 60);
        let insert = format!(
            "INSERT INTO gnudi_session (id, name, about, ttl_us, until_us) VALUES ({id}, ?, ?, {ttl_us}, {now} + {ttl_us})"
        );
        connection.execute(once(connection, insert).bind(self.name).bind(self.about)).await?;
        commit(connection).await?;
        Ok(Session(id as u64))
    }
}

/// Returns whether the session was still alive.
pub(super) struct Renew<'a> {
    pub(super) session: Session,
    pub(super) about: &'a str,
}

#[async_trait]
impl Operation for Renew<'_> {
    type Answer = bool;

    async fn run(&self, connection: &mut Connection) -> Result<bool, Error> {
        let now = now(connection);
        let renew = format!(
            "UPDATE gnudi_session SET until_us = {now} + ttl_us, about = ? WHERE id = {} AND until_us > {now}",
            self.session.0 as i64
        );
        Ok(connection.execute(once(connection, renew).bind(self.about)).await? > 0)
    }
}

pub(super) struct Leave {
    pub(super) session: Session,
}

#[async_trait]
impl Operation for Leave {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        begin_in_turn(connection, 0).await?;
        end(connection, &[self.session]).await?;
        commit(connection).await
    }
}

pub(super) struct Members;

#[async_trait]
impl Operation for Members {
    type Answer = Vec<Member>;

    async fn run(&self, connection: &mut Connection) -> Result<Vec<Member>, Error> {
        let is_alive = is_alive("s", now(connection));
        let select =
            format!("SELECT s.id, s.name, s.about FROM gnudi_session s WHERE {is_alive} ORDER BY s.name");
        let rows = connection.fetch_all(once(connection, select)).await?;
        let member = |row: &Row| {
            Ok(Member {
                session: session_of(row)?,
                name: row.try_get::<String>(1)?,
                about: row.try_get::<String>(2)?,
            })
        };
        rows.iter().map(member).collect()
    }
}

/// Returns `None` if the session has ended.
pub(super) struct Acquire<'a> {
    pub(super) session: Session,
    pub(super) sacks: &'a [Sack],
}

/// Sessions, and owners of the sacks, at one moment.
#[derive(Default)]
struct Moment {
    is_alive: bool,
    over: Vec<Session>,
    owners: Owners,
}

impl Acquire<'_> {
    async fn look(&self, connection: &mut Connection) -> Result<Moment, Error> {
        let which = if self.sacks.is_empty() {
            "1 = 0".to_owned()
        } else if self.sacks.len() <= SACKS_NAMED_MAX {
            format!("(o.sacks, o.sack) IN ({})", pairs(self.sacks))
        } else {
            let mut counts: Vec<String> =
                self.sacks.iter().map(|sack| sack.count.get().to_string()).collect();
            counts.sort_unstable();
            counts.dedup();
            format!("o.sacks IN ({})", counts.join(","))
        };
        let now = now(connection);
        let select = format!(
            "SELECT s.id, s.until_us, {now}, s.ttl_us, o.sacks, o.sack, o.token FROM gnudi_session s \
             LEFT JOIN gnudi_sack_owner o ON o.session = s.id AND {which}"
        );
        let mut moment = Moment::default();
        for row in connection.fetch_all(once(connection, select)).await? {
            let session = session_of(&row)?;
            let (until, now, ttl): (i64, i64, i64) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            // As `is_alive` says.
            if until <= now || until > now.saturating_add(ttl.saturating_mul(2)) {
                if moment.over.last() != Some(&session) {
                    moment.over.push(session);
                }
                continue;
            }
            moment.is_alive |= session == self.session;
            if let (Some(count), Some(id), Some(token)) = (
                row.try_get::<Option<i64>>(4)?,
                row.try_get::<Option<i64>>(5)?,
                row.try_get::<Option<i64>>(6)?,
            ) && let Some(sack) = sack_of(count, id)
            {
                moment.owners.insert(sack, (session, token as u64));
            }
        }
        Ok(moment)
    }
}

#[async_trait]
impl Operation for Acquire<'_> {
    type Answer = Option<Vec<Option<u64>>>;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, Error> {
        // Mostly nothing is free: check without a lock.
        let before = self.look(connection).await?;
        if !before.is_alive {
            return Ok(None);
        }
        if free_of(self.sacks, &before.owners).is_empty() {
            return Ok(Some(tokens_of(self.session, self.sacks, &before.owners)));
        }
        let last = begin_in_turn(connection, self.sacks.len()).await?;
        let mut moment = self.look(connection).await?;
        end(connection, &moment.over).await?;
        if !moment.is_alive {
            commit(connection).await?;
            return Ok(None);
        }
        let free = free_of(self.sacks, &moment.owners);
        let session = self.session.0 as i64;
        let taken: Vec<(Sack, i64)> = free.into_iter().rev().zip((0..=last).rev()).collect();
        for taken in taken.chunks(ROWS_AT_ONCE_MAX) {
            let rows: Vec<String> = taken
                .iter()
                .map(|(sack, token)| format!("({},{},{session},{token})", sack.count.get(), sack.id.0))
                .collect();
            let end = match connection.dialect() {
                Dialect::Postgres => {
                    " ON CONFLICT (sacks, sack) DO UPDATE SET session = EXCLUDED.session, token = EXCLUDED.token"
                }
                Dialect::Mysql => " ON DUPLICATE KEY UPDATE session = VALUES(session), token = VALUES(token)",
                Dialect::Sqlite => no_server(),
            };
            let insert = "INSERT INTO gnudi_sack_owner (sacks, sack, session, token) VALUES ";
            connection.execute(once(connection, format!("{insert}{}{end}", rows.join(",")))).await?;
        }
        commit(connection).await?;
        moment.owners.extend(taken.into_iter().map(|(sack, token)| (sack, (self.session, token as u64))));
        Ok(Some(tokens_of(self.session, self.sacks, &moment.owners)))
    }
}

pub(super) struct Release<'a> {
    pub(super) session: Session,
    pub(super) sacks: &'a [Sack],
}

#[async_trait]
impl Operation for Release<'_> {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        begin_in_turn(connection, 0).await?;
        for sacks in self.sacks.chunks(ROWS_AT_ONCE_MAX) {
            let delete = format!(
                "DELETE FROM gnudi_sack_owner WHERE session = {} AND (sacks, sack) IN ({})",
                self.session.0 as i64,
                pairs(sacks)
            );
            connection.execute(once(connection, delete)).await?;
        }
        commit(connection).await
    }
}

pub(super) struct Ownerships;

#[async_trait]
impl Operation for Ownerships {
    type Answer = Vec<Ownership>;

    async fn run(&self, connection: &mut Connection) -> Result<Vec<Ownership>, Error> {
        let is_alive = is_alive("s", now(connection));
        let select = format!(
            "SELECT o.session, o.sacks, o.sack, o.token FROM gnudi_sack_owner o JOIN gnudi_session s ON s.id = o.session \
             WHERE {is_alive} ORDER BY o.sacks, o.sack"
        );
        let rows = connection.fetch_all(once(connection, select)).await?;
        let owned = |row: &Row| {
            let sack = sack_of(row.try_get::<i64>(1)?, row.try_get::<i64>(2)?).ok_or(Error::RowNotFound)?;
            Ok(Ownership { sack, session: session_of(row)?, token: row.try_get::<i64>(3)? as u64 })
        };
        rows.iter().map(owned).collect()
    }
}

pub(super) struct AdvanceTokens {
    pub(super) past: i64,
}

#[async_trait]
impl Operation for AdvanceTokens {
    type Answer = ();

    async fn run(&self, connection: &mut Connection) -> Result<(), Error> {
        let advance = format!("UPDATE gnudi_token SET last = GREATEST(last, {}) WHERE one = 1", self.past);
        connection.execute(once(connection, advance)).await.map(|_| ())
    }
}

//! Coordination on Redis: a single server, Sentinels, or a Cluster.
//!
//! Each operation is one script, which Redis executes atomically, with its own clock. All keys have one hash
//! tag, and so lie on one node. Tokens and sessions are numbers that follow the server's clock in
//! microseconds: even if a failover or restart has lost the newest changes, or all, later numbers are higher.
//! A process whose session was lost gets `Expired`, and joins again.
//!
//! There is no [`Arbiter`](super::Arbiter) on Redis: claims must survive a failover, which Redis does not
//! guarantee.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gnudi_model::{Fault, Sack, SackCount, SackId};
use redis::{FromRedisValue, Value};
use uuid::Uuid;

use super::{CoordinationError, Coordinator, Member, Ownership, Session};
use crate::{
    OpenError,
    clients::redis::{Call, Confirm, RedisClient, RedisOptions, Script, Tag, scripts},
    tasks::Tasks,
};

// The common part has `now` in microseconds, and removes expired sessions.
scripts! {
    join: "common.lua", "join.lua";
    renew: "common.lua", "renew.lua";
    leave: "common.lua", "leave.lua";
    members: "common.lua", "members.lua";
    acquire: "common.lua", "acquire.lua";
    release: "common.lua", "release.lua";
    ownerships: "common.lua", "ownerships.lua";
    advance: "common.lua", "advance.lua";
}

/// A process's client of the sessions and ownerships in Redis.
pub struct RedisCoordinator {
    client: Arc<RedisClient>,
    tag: Tag,
    scripts: Scripts,
    tasks: Tasks,
}

impl RedisCoordinator {
    /// Several clusters of gnudi on one Redis are isolated: each has its own keys.
    pub async fn open(options: RedisOptions, cluster: Uuid) -> Result<Self, OpenError> {
        let scripts = Scripts::new();
        let engine = options.url.to_string();
        let client = RedisClient::connect(options, scripts.all(), 1)
            .await
            .map_err(|error| OpenError::Engine { engine, reason: error.to_string() })?;
        let client = Arc::new(client);
        let mut tasks = Tasks::default();
        tasks.start(RedisClient::watch(Arc::downgrade(&client)));
        let tag = Tag::new(&format!("gnudi:{cluster}:coordination"));
        Ok(RedisCoordinator { client, tag, scripts, tasks })
    }

    fn call(&self, script: &Script) -> Call {
        // The scripts build the names of their keys from it.
        Call::script(script, &self.tag).key(self.tag.key(""))
    }

    async fn answer<T: FromRedisValue>(&self, call: Call) -> Result<T, CoordinationError> {
        let mut answers = self.client.call(0, Confirm::Master, vec![call]).await;
        match answers.remove(0) {
            Ok(Value::SimpleString(text)) if text == "EXPIRED" => Err(CoordinationError::Expired),
            Ok(value) => redis::from_redis_value(value).map_err(|_| unexpected()),
            Err(error) => Err(CoordinationError::Unavailable(format!("{}: {error}", self.client.place()))),
        }
    }
}

fn unexpected() -> CoordinationError {
    CoordinationError::Unavailable("Redis returned an unexpected response".to_owned())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, CoordinationError> {
    text.parse().map_err(|_| unexpected())
}

/// `id/count`, as [`Sack`] is displayed.
fn sack(text: &str) -> Result<Sack, CoordinationError> {
    let (id, count) = text.split_once('/').ok_or_else(unexpected)?;
    Ok(Sack { count: SackCount(number(count)?), id: SackId(number(id)?) })
}

#[async_trait]
impl Coordinator for RedisCoordinator {
    fn fault(&self) -> Option<Fault> {
        self.tasks.fault("a task of the coordination in Redis")
    }

    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        let ttl_us = ttl.as_micros().min(1 << 50) as u64;
        let call = self.call(&self.scripts.join).arg(name).arg(about).arg(ttl_us);
        let id: String = self.answer(call).await?;
        number(&id).map(Session)
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        self.answer::<Value>(self.call(&self.scripts.renew).arg(session.0).arg(about)).await.map(drop)
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.answer::<Value>(self.call(&self.scripts.leave).arg(session.0)).await.map(drop)
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        let texts: Vec<String> = self.answer(self.call(&self.scripts.members)).await?;
        let member = |texts: &[String]| {
            Ok(Member {
                session: Session(number(&texts[0])?),
                name: texts[1].clone(),
                about: texts[2].clone(),
            })
        };
        let mut members: Vec<Member> = texts.chunks_exact(3).map(member).collect::<Result<_, _>>()?;
        members.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(members)
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        let mut call = self.call(&self.scripts.acquire).arg(session.0);
        for sack in sacks {
            call.push(sack.to_string());
        }
        let tokens: Vec<String> = self.answer(call).await?;
        let token = |text: &String| if text.is_empty() { Ok(None) } else { number(text).map(Some) };
        let tokens: Vec<Option<u64>> = tokens.iter().map(token).collect::<Result<_, _>>()?;
        if tokens.len() == sacks.len() { Ok(tokens) } else { Err(unexpected()) }
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        let mut call = self.call(&self.scripts.release).arg(session.0);
        for sack in sacks {
            call.push(sack.to_string());
        }
        self.answer::<Value>(call).await.map(drop)
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        let texts: Vec<String> = self.answer(self.call(&self.scripts.ownerships)).await?;
        let ownership = |texts: &[String]| {
            Ok(Ownership {
                sack: sack(&texts[0])?,
                session: Session(number(&texts[1])?),
                token: number(&texts[2])?,
            })
        };
        let mut owned: Vec<Ownership> = texts.chunks_exact(3).map(ownership).collect::<Result<_, _>>()?;
        owned.sort_by_key(|owned| owned.sack);
        Ok(owned)
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        // Numbers in a script are exact up to 2^53.
        if past > 1 << 52 {
            return Err(CoordinationError::Unavailable("no token is that high".to_owned()));
        }
        self.answer::<Value>(self.call(&self.scripts.advance).arg(past)).await.map(drop)
    }
}

//! tooz' groups on Redis: a hash per group with its members' capabilities, and a key per member that expires
//! without heartbeats.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::Value;

use super::{CAPABILITIES, GroupMember, Groups};
use crate::{
    OpenError,
    clients::redis::{Call, Confirm, RedisClient, RedisOptions, Script, Tag},
    coordination::CoordinationError,
};

/// A field that every group's hash has, even without members.
const CREATED: &str = "__created__";
const GROUPS: &str = "_tooz_groups";
const BEATS: &str = "_tooz_beats:";
const STILL_ALIVE: &str = "Not dead!";

/// Creates a missing group, and adds the member.
const JOIN: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('SADD', KEYS[2], ARGV[1])
    redis.call('HSET', KEYS[1], ARGV[2], '1')
end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
";

/// A member without a heartbeat is dead, and removed by the next reader. A reader never removes itself.
const MEMBERS: &str = "
local found = redis.call('HGETALL', KEYS[1])
local alive = {}
for at = 1, #found, 2 do
    local member = found[at]
    if member ~= ARGV[2] then
        if member == ARGV[3] or redis.call('EXISTS', ARGV[1] .. member) == 1 then
            alive[#alive + 1] = member
            alive[#alive + 1] = found[at + 1]
        else
            redis.call('HDEL', KEYS[1], member)
        end
    end
end
return alive
";

pub struct RedisGroups {
    client: Arc<RedisClient>,
    tag: Tag,
    join: Script,
    members: Script,
    id: String,
    lease: Duration,
}

impl RedisGroups {
    /// `id`: this member's; `lease`: how long it counts as alive without a heartbeat.
    pub async fn open(options: RedisOptions, id: &str, lease: Duration) -> Result<Self, OpenError> {
        let (join, members) = (Script::new(JOIN), Script::new(MEMBERS));
        let engine = options.url.to_string();
        let failed = |reason: String| OpenError::Engine { engine: engine.clone(), reason };
        let client = RedisClient::connect(options, vec![join.clone(), members.clone()], 1)
            .await
            .map_err(|error| failed(error.to_string()))?;
        // A group's keys may lie on different nodes of a cluster.
        if client.is_cluster() {
            return Err(failed("tooz has no groups on a Redis Cluster".to_owned()));
        }
        let client = Arc::new(client);
        tokio::spawn(RedisClient::watch(Arc::downgrade(&client)));
        Ok(RedisGroups { client, tag: Tag::new("tooz"), join, members, id: id.to_owned(), lease })
    }

    async fn call(&self, calls: Vec<Call>) -> Result<Vec<Value>, CoordinationError> {
        let answers = self.client.call(0, Confirm::Master, calls).await.into_iter();
        answers
            .collect::<Result<_, _>>()
            .map_err(|error| CoordinationError::Unavailable(format!("{}: {error}", self.client.place())))
    }

    fn beat_key(&self) -> Vec<u8> {
        format!("{BEATS}{}", self.id).into_bytes()
    }
}

fn group_key(group: &str) -> Vec<u8> {
    format!("_tooz_group:{group}").into_bytes()
}

#[async_trait]
impl Groups for RedisGroups {
    async fn beat(&self) -> Result<(), CoordinationError> {
        let lease_ms = self.lease.as_millis().clamp(1, 1 << 50) as u64;
        self.call(vec![Call::on_key("PSETEX", self.beat_key()).arg(lease_ms).arg(STILL_ALIVE)])
            .await
            .map(drop)
    }

    async fn join(&self, group: &str) -> Result<(), CoordinationError> {
        let call = Call::script(&self.join, &self.tag).key(group_key(group)).key(GROUPS.into());
        let call = call.arg(group).arg(CREATED).arg(&self.id).arg(CAPABILITIES);
        self.call(vec![call]).await.map(drop)
    }

    async fn leave(&self, groups: &[String]) -> Result<(), CoordinationError> {
        let leave = |group: &String| Call::on_key("HDEL", group_key(group)).arg(&self.id);
        let mut calls: Vec<Call> = groups.iter().map(leave).collect();
        calls.push(Call::on_key("DEL", self.beat_key()));
        self.call(calls).await.map(drop)
    }

    async fn members(&self, group: &str) -> Result<Vec<GroupMember>, CoordinationError> {
        let call = Call::script(&self.members, &self.tag).key(group_key(group));
        let mut answers = self.call(vec![call.arg(BEATS).arg(CREATED).arg(&self.id)]).await?;
        let texts: Vec<Vec<u8>> = redis::from_redis_value(answers.remove(0)).map_err(|_| {
            CoordinationError::Unavailable("Redis returned an unexpected response".to_owned())
        })?;
        let member = |pair: &[Vec<u8>]| GroupMember::new(pair[0].clone(), &pair[1]);
        let mut members: Vec<GroupMember> = texts.chunks_exact(2).map(member).collect();
        members.sort();
        Ok(members)
    }
}

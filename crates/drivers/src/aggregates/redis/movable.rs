//! What a move needs of the store ([`Movable`]): its state, and the list of each shard's metrics.

use async_trait::async_trait;
use gnudi_model::MetricId;
use uuid::Uuid;

use super::{RedisAggregates, layout, read, store_error};
use crate::{
    aggregates::{Movable, Result, StoreState},
    clients::redis::{Call, Confirm},
};

#[async_trait]
impl Movable for RedisAggregates {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn identity(&self) -> Result<Uuid> {
        let call = |command| Call::command(command, &self.root).key(self.root.key(":r")).arg("identity");
        let create = call("HSETNX").arg(Uuid::new_v4().to_string());
        let created = self.client.call(self.write_lane(), Confirm::Replicas, vec![create]).await.remove(0);
        created.map_err(store_error)?;
        let value = self.client.call(read::LANE, Confirm::Master, vec![call("HGET")]).await.remove(0);
        let found: String =
            redis::from_redis_value(value.map_err(store_error)?).map_err(|_| self.nonsense())?;
        Uuid::parse_str(&found).map_err(|_| self.nonsense())
    }

    async fn state(&self) -> Result<StoreState> {
        let call = Call::command("HGET", &self.root).key(self.root.key(":r")).arg("state");
        let value = self.client.call(read::LANE, Confirm::Master, vec![call]).await.remove(0);
        let name: Option<String> =
            redis::from_redis_value(value.map_err(store_error)?).map_err(|_| self.nonsense())?;
        let Some(name) = name else { return Ok(StoreState::InUse) };
        StoreState::of_name(&name).ok_or_else(|| self.nonsense())
    }

    async fn set_state(&self, state: StoreState) -> Result<()> {
        let call = Call::command("HSET", &self.root)
            .key(self.root.key(":r"))
            .arg("format")
            .arg(layout::format(state))
            .arg("state")
            .arg(state.name());
        let answer = self.client.call(self.write_lane(), Confirm::Replicas, vec![call]).await.remove(0);
        answer.map(drop).map_err(store_error)
    }

    async fn list_metrics(&self) -> Result<Vec<MetricId>> {
        let calls = self.tags.iter().map(|tag| Call::command("HKEYS", tag).key(tag.key(":h")));
        let mut metrics = Vec::new();
        for answer in self.client.call(read::LANE, Confirm::Master, calls.collect()).await {
            let fields: Vec<Vec<u8>> =
                redis::from_redis_value(answer.map_err(store_error)?).map_err(|_| self.nonsense())?;
            metrics.extend(fields.iter().filter_map(|field| layout::metric(field)));
        }
        Ok(metrics)
    }
}

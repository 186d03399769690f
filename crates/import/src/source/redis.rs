//! Gnocchi's driver `redis`: a hash per metric, with a field per split and one for the points of the back window, and a
//! list of incoming measures for each metric that has some.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::clients::redis::{Call, Confirm, RedisClient, Tag};
use gnudi_model::{MetricId, python};
use redis::{FromRedisValue, Value};

use super::{
    Incoming, POINTS, SETTINGS, Sacks, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, Wanted,
};

/// Keys scanned per command: about a millisecond for the server.
const KEYS_AT_ONCE: usize = 5_000;

/// Splits read per command, of up to 32 kB each. All of a metric with years of seconds take longer than a command may, and
/// would block Gnocchi.
const SPLITS_AT_ONCE: usize = 32;

/// The storage.
pub struct RedisStorage(pub Arc<RedisClient>);

fn series_key(metric: MetricId) -> String {
    format!("timeseries:{}", metric.0)
}

/// The response to one command.
async fn answer<T: FromRedisValue>(client: &RedisClient, call: Call) -> Result<T, SourceError> {
    let answers = client.call(0, Confirm::Master, vec![call]).await;
    let value = answers.into_iter().next().unwrap_or(Ok(Value::Nil))?;
    let unexpected = |error: redis::ParsingError| SourceError::Other(format!("{}: {error}", client.place()));
    T::from_redis_value(value).map_err(unexpected)
}

#[async_trait]
impl Storage for RedisStorage {
    fn points_place(&self, metric: MetricId) -> String {
        format!("{} {POINTS}", series_key(metric))
    }

    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError> {
        let call = Call::on_key("HGET", series_key(metric).into()).arg(POINTS);
        let bytes: Option<Vec<u8>> = answer(&self.0, call).await?;
        // Created empty, before the first pass.
        Ok(bytes.filter(|bytes| !bytes.is_empty()).map(Bytes::from))
    }

    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let hash = series_key(metric);
        let names: Vec<String> = answer(&self.0, Call::on_key("HKEYS", hash.clone().into())).await?;
        let keys = names.into_iter().filter_map(|name| {
            let key = SplitKey::from_name(&name).filter(wanted)?;
            Some((key, name))
        });
        let keys: Vec<(SplitKey, String)> = keys.collect();
        let mut splits = Vec::with_capacity(keys.len());
        for (some, call) in reads(&hash, &keys) {
            let values: Vec<Option<Vec<u8>>> = answer(&self.0, call).await?;
            // Gnocchi deletes expired splits.
            splits.extend(some.iter().zip(values).filter_map(|((key, name), bytes)| {
                Some(StoredSplit { key: *key, place: format!("{hash} {name}"), bytes: bytes?.into() })
            }));
        }
        Ok(splits)
    }
}

/// The commands that read splits of a metric, each with what it reads.
fn reads<'a>(
    hash: &str,
    keys: &'a [(SplitKey, String)],
) -> impl Iterator<Item = (&'a [(SplitKey, String)], Call)> {
    keys.chunks(SPLITS_AT_ONCE).map(move |some| {
        let mut call = Call::on_key("HMGET", hash.to_owned().into());
        for (_, name) in some {
            call.push(name);
        }
        (some, call)
    })
}

/// The incoming measures.
pub struct RedisIncoming {
    client: Arc<RedisClient>,
    sacks: Sacks,
}

impl RedisIncoming {
    /// # Errors
    /// If the Redis is not an incoming storage of Gnocchi.
    pub async fn open(client: Arc<RedisClient>) -> Result<Self, SourceError> {
        let count: Option<u64> = answer(&client, Call::on_key("HGET", SETTINGS.into()).arg("sacks")).await?;
        let sacks = Sacks::new(&client.place(), count)?;
        Ok(RedisIncoming { client, sacks })
    }

    /// The key of the list of a metric's measures.
    fn list(&self, metric: MetricId) -> String {
        format!("{}:{}", self.sacks.of(metric), metric.0)
    }
}

#[async_trait]
impl Incoming for RedisIncoming {
    /// A list exists as long as it is not empty. All keys are scanned a few at a time, since a single listing would
    /// block Gnocchi. (Asking for each metric's list takes ten times as long if there are many.)
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        let pattern = self.sacks.name_pattern() + ":*";
        let (mut found, mut cursor) = (HashSet::new(), "0".to_owned());
        loop {
            let call = Call::command("SCAN", &Tag::new(SETTINGS)).arg(cursor);
            let call = call.arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_AT_ONCE);
            let (next, keys): (String, Vec<String>) = answer(&self.client, call).await?;
            found.extend(
                keys.iter().filter_map(|key| python::parse_uuid(key.rsplit(':').next()?)).map(MetricId),
            );
            if next == "0" {
                return Ok(found);
            }
            cursor = next;
        }
    }

    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let list = self.list(metric);
        let call = Call::on_key("LRANGE", list.clone().into()).arg(0).arg(-1);
        let requests: Vec<Vec<u8>> = answer(&self.client, call).await?;
        let measures = |bytes: Vec<u8>| StoredMeasures { place: list.clone(), bytes: bytes.into() };
        Ok(requests.into_iter().map(measures).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_splits_are_read_a_few_at_a_time() {
        let key = |hour: usize| {
            let name = format!("{}.0_mean_1.0_v3", hour * 3600);
            (SplitKey::from_name(&name).unwrap(), name)
        };
        let keys: Vec<(SplitKey, String)> = (0..70).map(key).collect();
        let read: Vec<&[(SplitKey, String)]> = reads("hash", &keys).map(|(some, _)| some).collect();
        assert_eq!(read.iter().map(|some| some.len()).collect::<Vec<_>>(), [32, 32, 6]);
        assert_eq!(read.concat(), keys);
        assert_eq!(reads("hash", &[]).count(), 0);
    }
}

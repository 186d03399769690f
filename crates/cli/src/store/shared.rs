//! Opens shared engines: the index first, which identifies the cluster, then the coordinator, then the stores.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gnudi_drivers::{
    OpenError,
    aggregates::{
        Access, Movable, StoreError,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
        redis::{RedisAggregates, RedisAggregatesOptions},
    },
    clients::redis::RedisDurability,
    coordination::{
        Arbiter as _, CoordinationError, Coordinator, etcd::EtcdCoordinator, redis::RedisCoordinator,
        sql::SqlCoordinator,
    },
    incoming::{
        Incoming,
        objects::{ObjectIncoming, ObjectIncomingOptions},
        redis::{RedisIncoming, RedisIncomingOptions},
        registry::LogRegistry,
    },
    objects::{Objects, ceph::CephObjects, file::FileObjects, s3::S3Objects, swift::SwiftObjects},
    reserve::Reserve,
};
use gnudi_engine::Engine;
use gnudi_indexer::{
    IndexerError, MetricPages,
    sql::{self, SqlIndexer},
};
use gnudi_sql::is_lasting;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{
    Journaling, Store, cached, engines, index_place, on_damage,
    retry::{RetryPolicy, Retryable},
    sack_count,
};
use crate::config::{
    Config,
    deployment::{CoordinationKind, EngineKind, INCOMING, STORAGE, Shared, storage_kind},
};

/// A newer schema, another cluster's data and a wrong password are permanent.
impl Retryable for OpenError {
    fn may_pass(&self) -> bool {
        match self {
            OpenError::Engine { reason, .. } => {
                !is_lasting(reason) && !REFUSALS.iter().any(|text| reason.contains(text))
            }
            OpenError::Io { .. } => true,
            _ => false,
        }
    }
}

/// Responses of Redis and S3 to an unknown login.
const REFUSALS: [&str; 5] =
    ["WRONGPASS", "NOAUTH", "AuthenticationFailed", "InvalidAccessKeyId", "SignatureDoesNotMatch"];

impl Retryable for sql::OpenError {
    fn may_pass(&self) -> bool {
        matches!(self, sql::OpenError::Database { reason, .. } if !is_lasting(reason))
    }
}

impl Retryable for IndexerError {
    fn may_pass(&self) -> bool {
        matches!(self, IndexerError::Unavailable(_) | IndexerError::Contended(_))
    }
}

impl Retryable for CoordinationError {
    fn may_pass(&self) -> bool {
        matches!(self, CoordinationError::Unavailable(_))
    }
}

impl Retryable for StoreError {
    fn may_pass(&self) -> bool {
        matches!(self, StoreError::Unavailable(_))
    }
}

/// The claim, in the index's database, of the identity of the store with the cluster's aggregates. Names of objects have
/// slashes.
const AGGREGATES: &str = "aggregates";

/// Arguments shared by all engines.
struct Opening<'a> {
    config: &'a Config,
    retry: RetryPolicy,
    cluster: Uuid,
    database: OnceCell<Arc<SqlCoordinator>>,
}

pub async fn open(
    engines: &Shared,
    config: &Config,
    retry: RetryPolicy,
    journaling: Journaling,
) -> Result<Store> {
    let index = engines::index(config)?;
    let sql = retry.run(&index_place(config), || SqlIndexer::open(&index)).await?;
    let opening = Opening { config, retry, cluster: sql.cluster_id(), database: OnceCell::new() };
    let coordinator = opening.coordinator(engines.coordination).await?;
    // Before a log of measures is registered: the same mistake may concern both.
    let aggregates = opening.used_aggregates(engines.storage, &sql).await?;
    let incoming = opening.incoming(engines.incoming).await?;
    let incoming = journaling.over(incoming, config, sql.cluster_id(), Reserve::default())?;
    let (indexer, warming) = cached(sql, config);
    retry.run(&index_place(config), || indexer.follow(engines::follow(config))).await?;
    let engine = Engine::shared(
        indexer.clone(),
        incoming.clone(),
        aggregates.clone(),
        coordinator,
        crate::commands::now,
    );
    let engine = Arc::new(engine.on_damage(on_damage(config)));
    Ok(Store { engine, indexer, incoming, aggregates, local: None, warming })
}

async fn has_metrics(index: &SqlIndexer) -> Result<bool, IndexerError> {
    let page = MetricPages::new(1).next(index).await?;
    Ok(page.is_some_and(|page| !page.is_empty()))
}

/// Records the configured store of aggregates as the cluster's, instead of another one; creates a missing one.
pub async fn replace_aggregates(engines: &Shared, config: &Config, retry: RetryPolicy) -> Result<()> {
    let options = engines::index(config)?;
    let index = retry.run(&index_place(config), || SqlIndexer::open(&options)).await?;
    let opening = Opening { config, retry, cluster: index.cluster_id(), database: OnceCell::new() };
    let aggregates = opening.aggregates(engines.storage, Access::Use).await?;
    let database = opening.index_database().await?;
    record(&database, &*aggregates).await?;
    tracing::info!("the aggregates of this cluster are those in {}", aggregates.place());
    index.close().await;
    Ok(())
}

/// Records that the store has the cluster's aggregates.
async fn record(database: &SqlCoordinator, store: &dyn Movable) -> Result<()> {
    let identity = store.identity().await?.to_string();
    database.unclaim(&[AGGREGATES.to_owned()]).await?;
    let recorded = database.claim(AGGREGATES, &identity).await?;
    ensure!(
        recorded == identity,
        "another process has just recorded its store of aggregates: stop it, and run this again"
    );
    Ok(())
}

/// Validates the options of all engines.
pub fn check(engines: Shared, config: &Config) -> Result<()> {
    engines::index(config)?;
    let timeout = engines::coordination_timeout(config);
    let (section, name) = coordination_option(config);
    match engines.coordination {
        CoordinationKind::Database => drop(engines::coordination_database(config, section, name, timeout)?),
        CoordinationKind::Redis => drop(engines::redis(config, section, name, timeout)?),
        CoordinationKind::Etcd => drop(engines::etcd(config, section, name, timeout)?),
    }
    for (kind, section) in [(engines.incoming, INCOMING), (engines.storage, STORAGE)] {
        match kind {
            EngineKind::Redis => drop(engines::redis(config, section, "redis_url", timeout)?),
            EngineKind::S3 => drop(engines::s3(config, section)?),
            EngineKind::Ceph | EngineKind::Swift | EngineKind::Folder => {}
        }
    }
    Ok(())
}

/// Whether the index has gnudi's tables; does not create any. `None` if it does not respond.
pub async fn is_prepared(config: &Config) -> Result<Option<bool>> {
    let index = engines::index(config)?;
    RetryPolicy::for_command().run(&index_place(config), || SqlIndexer::is_prepared(&index)).await
}

/// The option that names the coordinator.
fn coordination_option(config: &Config) -> (&'static str, &'static str) {
    match config.text("DEFAULT", "coordination_url") {
        Some(_) => ("DEFAULT", "coordination_url"),
        None => ("indexer", "url"),
    }
}

/// The engines of a move.
pub struct MoveEngines {
    pub index: SqlIndexer,
    pub coordinator: Arc<dyn Coordinator>,
    pub source: Arc<dyn Movable>,
    database: Arc<SqlCoordinator>,
    target: (Config, EngineKind),
}

/// Opens everything except the target of a move.
pub async fn open_to_move(engines: &Shared, config: &Config, target: Config) -> Result<MoveEngines> {
    let retry = RetryPolicy::for_command();
    let kind = storage_kind(&target)?;
    let options = engines::index(config)?;
    let index = retry.run(&index_place(config), || SqlIndexer::open(&options)).await?;
    let opening = Opening { config, retry, cluster: index.cluster_id(), database: OnceCell::new() };
    let coordinator = opening.coordinator(engines.coordination).await?;
    let source = opening.aggregates(engines.storage, Access::MoveFrom).await?;
    let database = opening.index_database().await?;
    Ok(MoveEngines { index, coordinator, source, database, target: (target, kind) })
}

impl MoveEngines {
    /// Records the target as the store with the cluster's aggregates.
    pub async fn record(&self, target: &dyn Movable) -> Result<()> {
        record(&self.database, target).await
    }

    /// Opens the target, with empty caches.
    pub async fn target(&self) -> Result<Arc<dyn Movable>> {
        let (config, kind) = &self.target;
        let database = OnceCell::new_with(Some(self.database.clone()));
        let cluster = self.index.cluster_id();
        let opening = Opening { config, retry: RetryPolicy::for_command(), cluster, database };
        opening.aggregates(*kind, Access::MoveTo).await
    }
}

impl Opening<'_> {
    /// Where the option that names an engine was set.
    fn place(&self, section: &str) -> String {
        self.config.place(section, "driver")
    }

    fn coordination_timeout(&self) -> Duration {
        if self.retry.is_command() {
            engines::COORDINATION_TIMEOUT_MAX
        } else {
            engines::coordination_timeout(self.config)
        }
    }

    async fn coordinator(&self, kind: CoordinationKind) -> Result<Arc<dyn Coordinator>> {
        let config = self.config;
        let (section, name) = coordination_option(config);
        let is_named = section == "DEFAULT";
        let place = config.place(section, name);
        let timeout = self.coordination_timeout();
        match kind {
            CoordinationKind::Database if !is_named => Ok(self.index_database().await?),
            CoordinationKind::Database => {
                let options = engines::coordination_database(config, section, name, timeout)?;
                let open = || SqlCoordinator::open(&options, self.cluster);
                Ok(Arc::new(self.retry.run(&place, open).await?))
            }
            CoordinationKind::Redis => {
                let options = engines::redis(config, section, name, timeout)?;
                let open = || RedisCoordinator::open(options.clone(), self.cluster);
                Ok(Arc::new(self.retry.run(&place, open).await?))
            }
            CoordinationKind::Etcd => {
                let options = engines::etcd(config, section, name, timeout)?;
                let open = || EtcdCoordinator::open(options.clone(), self.cluster);
                Ok(Arc::new(self.retry.run(&place, open).await?))
            }
        }
    }

    /// The index's database as a coordinator. It also arbitrates between writers of one name in Swift, and remembers
    /// the followed log of measures and the store of aggregates, whichever coordinator is configured: these must survive
    /// a change of the configuration.
    async fn index_database(&self) -> Result<Arc<SqlCoordinator>> {
        let open = || async {
            let timeout = self.coordination_timeout();
            let options = engines::coordination_database(self.config, "indexer", "url", timeout)?;
            let place = self.config.place("indexer", "url");
            let open = || SqlCoordinator::open(&options, self.cluster);
            anyhow::Ok(Arc::new(self.retry.run(&place, open).await?))
        };
        self.database.get_or_try_init(open).await.cloned()
    }

    async fn incoming(&self, kind: EngineKind) -> Result<Arc<dyn Incoming>> {
        let sack_count = sack_count(self.config);
        let backlog_bytes_max = self.config.size(INCOMING, "backlog_bytes_max") as u64;
        let registry: Arc<dyn LogRegistry> = self.index_database().await?;
        if kind == EngineKind::Redis {
            let timeout = engines::timeout(self.config, INCOMING);
            let options = RedisIncomingOptions {
                prefix: self.redis_prefix(INCOMING),
                sack_count,
                backlog_bytes_max,
                ..RedisIncomingOptions::new(engines::redis(self.config, INCOMING, "redis_url", timeout)?)
            };
            let open = || RedisIncoming::open(options.clone(), Some(registry.clone()), self.cluster);
            let incoming = self.retry.run(&self.place(INCOMING), open).await?;
            self.check_durability(incoming.durability())?;
            return Ok(incoming);
        }
        let objects = self.objects(kind, INCOMING).await?;
        let options = ObjectIncomingOptions {
            sack_count,
            backlog_bytes_max,
            timeout: engines::timeout(self.config, INCOMING),
            ..ObjectIncomingOptions::default()
        };
        let open = || {
            let (objects, registry) = (objects.clone(), Some(registry.clone()));
            ObjectIncoming::open(objects, registry, self.cluster, Uuid::new_v4(), options.clone())
        };
        Ok(self.retry.run(&self.place(INCOMING), open).await?)
    }

    /// An explicit durability option that cannot be guaranteed is an error; the default is only logged.
    fn check_durability(&self, promised: RedisDurability) -> Result<()> {
        let asked = self.config.text(INCOMING, "durability");
        ensure!(
            asked != Some("disk") || promised == RedisDurability::Disk,
            "{} = disk cannot be promised: Redis stores writes {promised}; set `appendonly yes` and `appendfsync always` \
             there, or remove the option",
            self.config.place(INCOMING, "durability")
        );
        if promised != RedisDurability::Disk && !self.retry.is_command() {
            tracing::warn!(
                "{}: Redis stores writes {promised}: accepted measures can be lost with its host; `appendonly yes` and \
                 `appendfsync always` there prevent that",
                self.place(INCOMING)
            );
        }
        Ok(())
    }

    /// The store with the cluster's aggregates. The index's database records it when it is first used: a wrong name on one
    /// host would make another store there, and what that host folds would be lost for all others.
    async fn used_aggregates(&self, kind: EngineKind, index: &SqlIndexer) -> Result<Arc<dyn Movable>> {
        let (database, place) = (self.index_database().await?, index_place(self.config));
        let names = [AGGREGATES.to_owned()];
        let recorded = self.retry.run(&place, || database.claimed(&names)).await?.remove(0);
        // Earlier programs recorded none, but made one before the first metric.
        let is_known = recorded.is_some() || self.retry.run(&place, || has_metrics(index)).await?;
        let access = if is_known { Access::UseKnown } else { Access::Use };
        let aggregates = self.aggregates(kind, access).await?;
        let identity = self.retry.run(&self.place(STORAGE), || aggregates.identity()).await?.to_string();
        let recorded = self.retry.run(&place, || database.claim(AGGREGATES, &identity)).await?;
        if recorded != identity {
            let fault = "is another store than the one with this cluster's aggregates";
            let refused = OpenError::OtherStore { place: aggregates.place(), fault };
            return Err(refused).context(self.place(STORAGE));
        }
        Ok(aggregates)
    }

    async fn aggregates(&self, kind: EngineKind, access: Access) -> Result<Arc<dyn Movable>> {
        if kind == EngineKind::Redis {
            let timeout = engines::timeout(self.config, STORAGE);
            let options = RedisAggregatesOptions {
                prefix: self.redis_prefix(STORAGE),
                ..RedisAggregatesOptions::new(engines::redis(self.config, STORAGE, "redis_url", timeout)?)
            };
            let open = || RedisAggregates::open_for(options.clone(), self.cluster, access);
            return Ok(self.retry.run(&self.place(STORAGE), open).await?);
        }
        let objects = self.objects(kind, STORAGE).await?;
        let defaults = ObjectAggregatesOptions::default();
        let deadline_ms = engines::timeout(self.config, STORAGE).as_millis() as u64;
        let grace_ms = defaults.grace_ms.max(4 * deadline_ms);
        let options = ObjectAggregatesOptions { deadline_ms, grace_ms, ..defaults };
        let open = || ObjectAggregates::open_for(objects.clone(), self.cluster, options.clone(), access);
        Ok(self.retry.run(&self.place(STORAGE), open).await?)
    }

    fn redis_prefix(&self, section: &str) -> String {
        self.config.text(section, "redis_prefix").unwrap_or_default().to_owned()
    }

    async fn objects(&self, kind: EngineKind, section: &str) -> Result<Arc<dyn Objects>> {
        let purpose = if section == INCOMING { "incoming" } else { "aggregates" };
        let (config, retry, place) = (self.config, self.retry, self.place(section));
        Ok(match kind {
            EngineKind::S3 => {
                let options = engines::s3(config, section)?;
                Arc::new(retry.run(&place, || S3Objects::open(&options, purpose)).await?)
            }
            EngineKind::Ceph => {
                let options = engines::ceph(config, section);
                Arc::new(retry.run(&place, || CephObjects::open(&options, purpose)).await?)
            }
            EngineKind::Swift => {
                let options = engines::swift(config, section);
                let arbiter = self.index_database().await?;
                let open = || SwiftObjects::open(&options, purpose, arbiter.clone());
                Arc::new(retry.run(&place, open).await?)
            }
            EngineKind::Folder => {
                let options = engines::folder(config, section);
                Arc::new(retry.run(&place, || FileObjects::open(&options, purpose)).await?)
            }
            EngineKind::Redis => unreachable!("Redis has drivers of its own"),
        })
    }
}

//! Failures specific to servers: restarts, hangs, several processes.

mod engines;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use engines::{
    Engine, EngineKind,
    database::{Database, Kind},
};
use fastrand::Rng;
use futures_util::future::join_all;
use gnudi_indexer::{
    DatabaseOptions, IndexerError, MetricFilter, MetricListing, Metrics, MetricsChange, NewNamedMetric,
    NewResource, NewRevision, OpenError, Page, ResourceChange, ResourceTypeChange, ResourceTypes, Resources,
    SqlIndexer,
    conformance::{id, named_metric, new_metric, new_resource},
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, Timestamp,
    resource_type::GENERIC,
};
use uuid::Uuid;

async fn open(options: &DatabaseOptions) -> SqlIndexer {
    let indexer = SqlIndexer::open(options).await.unwrap();
    create_default_archive_policies(&indexer, &ArchivePolicy::default_methods()).await.unwrap();
    indexer
}

async fn create(indexer: &SqlIndexer, number: u128) -> Result<(), IndexerError> {
    indexer.create_metrics(vec![new_metric(number)]).await.remove(0).map(|_| ())
}

async fn all(indexer: &SqlIndexer) -> HashSet<MetricId> {
    let listing = MetricListing { filter: MetricFilter::default(), page: Page::first(1_000_000) };
    indexer.list_metrics(&listing).await.unwrap().iter().map(|metric| metric.id).collect()
}

/// An empty database of a server of its own.
fn fresh(server: &Database) -> DatabaseOptions {
    DatabaseOptions::from_url(&server.create_database("index")).unwrap()
}

/// A server that restarts during writes: each call returns in time, acknowledged writes are there, and nothing has to
/// be reopened.
async fn survives_a_restart(kind: Kind) {
    let mut database = Database::start(kind);
    let indexer = Arc::new(open(&fresh(&database)).await);
    let stop = Arc::new(AtomicBool::new(false));
    let (created, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..4u128)
        .map(|writer| {
            let (indexer, stop) = (indexer.clone(), stop.clone());
            let (created, refused) = (created.clone(), refused.clone());
            tokio::spawn(async move {
                let (mut answered, mut failed, mut number) = (Vec::new(), false, 0);
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let metric = number * 10 + writer;
                    match create(&indexer, metric).await {
                        Ok(()) => {
                            answered.push(id(metric));
                            note(&created);
                        }
                        Err(IndexerError::Unavailable(_)) => {
                            failed = true;
                            note(&refused);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                    if failed {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                answered
            })
        })
        .collect();
    reaches(&created, 21).await;
    tokio::task::block_in_place(|| database.process.stop());
    let start = Instant::now();
    let failed = indexer.metrics(&[id(1)]).await.unwrap_err();
    assert!(matches!(failed, IndexerError::Unavailable(_)), "{failed:?}");
    let failed = create(&indexer, 1).await.unwrap_err();
    assert!(matches!(failed, IndexerError::Unavailable(_)), "{failed:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    reaches(&refused, 1).await;
    let before = created.load(Ordering::Relaxed);
    tokio::task::block_in_place(|| database.process.start_again());
    reaches(&created, before + 21).await;
    stop.store(true, Ordering::Relaxed);
    let answered: HashSet<_> = join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    create(&indexer, 2).await.unwrap();
    assert!(indexer.metrics(&[id(2)]).await.unwrap()[0].is_some());
    let found = all(&indexer).await;
    assert!(answered.is_subset(&found), "{} were answered, {} are there", answered.len(), found.len());
}

/// Waits until something was counted so many times.
async fn reaches(count: &AtomicU64, wanted: u64) {
    let reached = async {
        while count.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached).await.expect("writers go on");
}

tests! {
    postgres_restarts: survives_a_restart(Kind::Postgres);
    mariadb_restarts: survives_a_restart(Kind::MariaDb);
}

/// A server that does not respond costs each caller its timeout and no more.
async fn has_deadlines(kind: Kind) {
    let database = Database::start(kind);
    let mut options = fresh(&database);
    let DatabaseOptions::Server(server_options) = &mut options else { panic!("{options:?}") };
    let limit = Duration::from_secs(1);
    server_options.timeout = limit;
    let indexer = open(&options).await;
    create(&indexer, 1).await.unwrap();
    database.process.pause();
    let start = Instant::now();
    let ids = [id(1)];
    let (read, written, opened) =
        tokio::join!(indexer.metrics(&ids), create(&indexer, 2), SqlIndexer::open(&options));
    let elapsed = start.elapsed();
    database.process.resume();
    assert!(matches!(read, Err(IndexerError::Unavailable(_))), "{read:?}");
    assert!(matches!(written, Err(IndexerError::Unavailable(_))), "{written:?}");
    assert!(opened.is_err());
    assert!(elapsed < limit * 8, "{elapsed:?}");
    create(&indexer, 3).await.unwrap();
    assert!(indexer.metrics(&[id(3)]).await.unwrap()[0].is_some());
}

tests! {
    postgres_that_stands_still_is_not_waited_for: has_deadlines(Kind::Postgres);
    mariadb_that_stands_still_is_not_waited_for: has_deadlines(Kind::MariaDb);
}

#[tokio::test]
async fn a_server_that_is_down_at_start_is_named_without_the_password() {
    let port = engines::server::free_port();
    for scheme in ["postgresql", "mysql"] {
        let url = format!("{scheme}://me:hidden@127.0.0.1:{port}/index");
        let refused =
            SqlIndexer::open(DatabaseOptions::from_url(&url).unwrap()).await.unwrap_err().to_string();
        let place = format!("{scheme}://me@127.0.0.1:{port}/index");
        assert!(refused.contains(&place) && refused.contains("refused"), "{refused}");
        assert!(!refused.contains("hidden"), "{refused}");
    }
}

/// A former primary may keep its connections: neither writes nor reads stay there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_that_is_no_longer_the_primary_is_left() {
    let database = Database::start(Kind::Postgres);
    let indexer = open(&fresh(&database)).await;
    let sessions = || -> HashSet<String> {
        let select = "SELECT string_agg(CAST(pid AS TEXT), ',') FROM pg_stat_activity WHERE application_name = 'gnudi'";
        database.execute("index", select).split(',').map(str::to_owned).collect()
    };
    let configure = |change: &str| {
        database.execute("index", &format!("ALTER SYSTEM {change}"));
        database.execute("index", "SELECT pg_reload_conf()");
    };
    create(&indexer, 1).await.unwrap();
    assert!(indexer.metrics(&[id(1)]).await.unwrap()[0].is_some());
    let before = sessions();
    assert!(before.len() > 1, "{before:?}");
    configure("SET default_transaction_read_only = on");
    let pause = Duration::from_millis(10);
    let mut number = 1;
    let refused = loop {
        number += 1;
        match create(&indexer, number).await {
            // The server has not read its configuration yet.
            Ok(()) => tokio::time::sleep(pause).await,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, IndexerError::Unavailable(_)), "{refused:?}");
    configure("RESET default_transaction_read_only");
    while create(&indexer, number).await.is_err() {
        tokio::time::sleep(pause).await;
    }
    assert!(indexer.metrics(&[id(1)]).await.unwrap()[0].is_some());
    let start = Instant::now();
    while !sessions().is_disjoint(&before) {
        assert!(start.elapsed() < Duration::from_mins(1), "{before:?} are kept");
        tokio::time::sleep(pause).await;
    }
}

/// Nothing is written to a database of another program.
async fn leaves_other_programs_alone(kind: EngineKind) {
    const GNOCCHIS: [&str; 6] = [
        "alembic_version (version_num VARCHAR(32))",
        "archive_policy (name VARCHAR(255))",
        "archive_policy_rule (name VARCHAR(255))",
        "metric (id INT)",
        "resource (id INT)",
        "resource_type (name VARCHAR(255))",
    ];
    let engine = Engine::start(kind);
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema IN ('public', DATABASE())";
    let count =
        if kind == EngineKind::Postgres { count.replace(", DATABASE()", "") } else { count.to_owned() };
    for (tables, expected) in [
        (
            &GNOCCHIS[..],
            "tables of Gnocchi (alembic_version, archive_policy, archive_policy_rule, metric, resource, resource_type)",
        ),
        (&GNOCCHIS[..1], "tables of another program (alembic_version)"),
        (&GNOCCHIS[3..4], "tables of another program (metric)"),
    ] {
        let options = engine.fresh();
        for table in tables {
            engine.execute(&options, &format!("CREATE TABLE {table}"));
        }
        let refused = SqlIndexer::open(&options).await.unwrap_err();
        assert!(matches!(refused, OpenError::OtherProgram { .. }), "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert_eq!(engine.execute(&options, &count), tables.len().to_string());
    }
    // Other tables whose names gnudi does not use are accepted.
    let options = engine.fresh();
    engine.execute(&options, "CREATE TABLE notes (id INT)");
    SqlIndexer::open(&options).await.unwrap();
    SqlIndexer::open(&options).await.unwrap();
}

tests! {
    postgres_leaves_other_programs_alone: leaves_other_programs_alone(EngineKind::Postgres);
    mariadb_leaves_other_programs_alone: leaves_other_programs_alone(EngineKind::MariaDb);
}

/// A schema that is up to date is used without the permission to change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_needs_no_owner_of_the_schema() {
    let database = Database::start(Kind::Postgres);
    let mut options = fresh(&database);
    let cluster = open(&options).await.cluster_id();
    for change in [
        "CREATE ROLE limited LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited",
    ] {
        database.execute("index", change);
    }
    let DatabaseOptions::Server(server) = &mut options else { panic!("{options:?}") };
    server.user = "limited".to_owned();
    let indexer = SqlIndexer::open(&options).await.unwrap();
    assert_eq!(indexer.cluster_id(), cluster);
    create(&indexer, 1).await.unwrap();
}

/// Another program changes the schema for longer than the user's statements may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_gives_a_migration_its_time() {
    let database = Arc::new(Database::start(Kind::Postgres));
    let options = fresh(&database);
    database.execute("index", "ALTER ROLE postgres SET statement_timeout = '1s'");
    database.execute("index", "ALTER ROLE postgres SET lock_timeout = '1s'");
    let other = database.clone();
    let migrates = tokio::task::spawn_blocking(move || {
        let hold = "SET statement_timeout = 0; SELECT pg_advisory_lock(113724113578242); SELECT pg_sleep(3)";
        other.execute("index", hold)
    });
    let locks = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'";
    while database.execute("index", locks) == "0" && !migrates.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    SqlIndexer::open(&options).await.unwrap();
    migrates.await.unwrap();
}

/// A migration has no deadline, but does not wait for a server that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_that_is_gone_ends_a_migration() {
    let database = Arc::new(Database::start(Kind::Postgres));
    let mut options = fresh(&database);
    let DatabaseOptions::Server(server) = &mut options else { panic!("{options:?}") };
    server.timeout = Duration::from_millis(500);
    database.execute("index", "CREATE TABLE finished (is_finished BOOLEAN)");
    let other = database.clone();
    let migrates = tokio::task::spawn_blocking(move || {
        // For a minute, or until the test is over.
        let hold = "SELECT pg_advisory_lock(113724113578242); DO $$ BEGIN FOR i IN 1..3000 LOOP \
                    PERFORM 1 FROM finished; EXIT WHEN FOUND; PERFORM pg_sleep(0.02); END LOOP; END $$";
        other.execute("index", hold)
    });
    let start = Instant::now();
    let wait_for = async |locks: &str| {
        let count = format!("SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND {locks}");
        while database.execute("index", &count) == "0" {
            assert!(start.elapsed() < Duration::from_mins(1), "no lock is {locks}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    wait_for("granted").await;
    let opens = tokio::spawn(async move { SqlIndexer::open(&options).await.map(drop) });
    wait_for("NOT granted").await;
    database.process.pause();
    let opened = tokio::time::timeout(Duration::from_secs(30), opens).await;
    database.process.resume();
    database.execute("index", "INSERT INTO finished VALUES (TRUE)");
    migrates.await.unwrap();
    let error = opened.expect("an answer").unwrap().unwrap_err().to_string();
    assert!(error.contains("no answer within 500 ms"), "{error}");
}

/// All see the same schema and cluster, and refuse a schema that is newer than theirs.
async fn is_opened_by_several(kind: EngineKind) {
    let engine = Engine::start(kind);
    let options = engine.fresh();
    let tasks = (0..4).map(|_| {
        let options = options.clone();
        tokio::spawn(async move { SqlIndexer::open(&options).await.unwrap() })
    });
    let indexers: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    let clusters: HashSet<_> = indexers.iter().map(SqlIndexer::cluster_id).collect();
    assert_eq!(clusters.len(), 1);
    assert_eq!(indexers[0].resource_types().await.unwrap().len(), 1);
    let other = SqlIndexer::open(engine.fresh()).await.unwrap();
    assert!(!clusters.contains(&other.cluster_id()));
    engine.execute(&options, "INSERT INTO schema_version (version) VALUES (1000)");
    let refused = SqlIndexer::open(&options).await.unwrap_err();
    assert!(matches!(refused, OpenError::SchemaTooNew { found: 1000, .. }), "{refused}");
}

tests! {
    postgres_is_opened_by_several: is_opened_by_several(EngineKind::Postgres);
    mariadb_is_opened_by_several: is_opened_by_several(EngineKind::MariaDb);
}

/// The server's default would roll back single statements when their connection is closed, such as that of the cluster.
#[tokio::test]
async fn mariadb_needs_no_autocommit() {
    let database = Database::start(Kind::MariaDb);
    database.execute("mysql", "SET GLOBAL autocommit = 0");
    let options = fresh(&database);
    let cluster = SqlIndexer::open(&options).await.unwrap().cluster_id();
    assert_eq!(SqlIndexer::open(&options).await.unwrap().cluster_id(), cluster);
}

/// Without transactional DDL a crash leaves a migration half done; the next program continues it.
#[tokio::test]
async fn mariadb_goes_on_with_a_schema_that_is_half_done() {
    const SCHEMA: &str = include_str!("../src/sql/migrations/mysql/0005_schema.sql");
    let engine = Engine::start(EngineKind::MariaDb);
    let statements: Vec<_> = SCHEMA.split_inclusive(";\n").collect();
    for done in [1, 3, 5, 9, statements.len() - 2, statements.len() - 1] {
        let options = engine.fresh();
        // The version table is created first.
        let versions = "CREATE TABLE schema_version (version BIGINT NOT NULL PRIMARY KEY);\n";
        engine.execute(&options, &format!("{versions}{}", statements[..done].concat()));
        let indexer = open(&options).await;
        indexer.create_resources(vec![new_resource(1)]).await.remove(0).unwrap();
        create(&indexer, 1).await.unwrap();
        assert_eq!(indexer.resource_types().await.unwrap().len(), 1);
    }
}

const WRITERS: u64 = 2;
const IDS: u128 = 6;

fn attribute() -> Attribute {
    Attribute {
        kind: AttributeKind::String { min_length: 0, max_length: 9 },
        required: false,
        fill: Some(AttributeValue::String("fill".into())),
    }
}

/// Random changes of few resources, metrics and types, one after the other. Counts what was created and ended.
async fn change_at_random(indexer: &SqlIndexer, seed: u64, counts: &Counts) {
    let mut random = Rng::with_seed(seed);
    let mut below = |end: u64| random.u64(..end);
    for step in 0..60u128 {
        let number = u128::from(below(IDS as u64));
        let metric = 1000 * (u128::from(seed) + 1) + step;
        let of_metric = MetricsChange::Create(NewNamedMetric::new(id(metric), "low"));
        let resource_id = Uuid::from_u128(number);
        match below(10) {
            0..3 => {
                let mut new = NewResource { resource_type: "instance".to_owned(), ..new_resource(number) };
                new.metrics = vec![("cpu".to_owned(), of_metric)];
                new.attributes = [("host".into(), AttributeValue::String("one".into()))].into();
                match indexer.create_resources(vec![new]).await.remove(0) {
                    Ok(_) => note(&counts.created),
                    Err(IndexerError::ResourceAlreadyExists(_) | IndexerError::NoSuchAttribute { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            3..5 => match indexer.delete_resources(&[resource_id]).await.remove(0) {
                Ok(_) => note(&counts.deleted),
                Err(IndexerError::NoSuchResource(_)) => {}
                Err(error) => panic!("{error:?}"),
            },
            5..7 => {
                let change = ResourceChange {
                    metrics: Some(vec![("disk".to_owned(), of_metric)]),
                    append_metrics: true,
                    user_id: Some(Some(step.to_string())),
                    revision: NewRevision::IfChanged,
                    now: Timestamp::from_secs(1_700_000_001),
                    ..ResourceChange::default()
                };
                tolerate(indexer.update_resource(GENERIC, resource_id, change).await);
            }
            7..9 => {
                let new = named_metric(metric, Some(number), "net");
                tolerate(indexer.create_metrics(vec![new]).await.remove(0));
            }
            _ => {
                let flavor = vec![("flavor".into(), attribute())];
                let change = if below(2) == 0 {
                    ResourceTypeChange { add: flavor, ..Default::default() }
                } else {
                    ResourceTypeChange { delete: vec!["flavor".into()], ..Default::default() }
                };
                // The other writer may have done so.
                indexer.update_resource_type("instance", change).await.ok();
            }
        }
    }
}

/// The other writer may have deleted the resource, or taken the name.
fn tolerate<T>(outcome: Result<T, IndexerError>) {
    match outcome {
        Ok(_) | Err(IndexerError::NoSuchResource(_) | IndexerError::NamedMetricAlreadyExists(_)) => {}
        Err(error) => panic!("{error:?}"),
    }
}

#[derive(Default)]
struct Counts {
    created: AtomicU64,
    deleted: AtomicU64,
}

fn note(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Two concurrent writers of the same items leave a consistent index.
async fn is_shared(kind: EngineKind) {
    let engine = Engine::start(kind);
    let options = engine.fresh();
    let indexers = [Arc::new(open(&options).await), Arc::new(open(&options).await)];
    let resource_type =
        ResourceType { name: "instance".into(), attributes: [("host".into(), attribute())].into() };
    indexers[0].create_resource_type(resource_type).await.unwrap();
    let counts = Arc::new(Counts::default());
    let tasks = (0..WRITERS * 4).map(|task| {
        let (indexer, counts) = (indexers[(task % WRITERS) as usize].clone(), counts.clone());
        tokio::spawn(async move { change_at_random(&indexer, task, &counts).await })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let [one, other] = &indexers;
    let mut left = 0;
    for number in 0..IDS {
        let resource = Uuid::from_u128(number);
        let found = one.resource("instance", resource).await.unwrap();
        assert_eq!(found, other.resource("instance", resource).await.unwrap());
        left += u64::from(found.is_some());
        for metric in found.iter().flat_map(|found| found.metrics.iter()) {
            assert_eq!(metric.resource_id, Some(resource));
        }
    }
    let (created, deleted) = (counts.created.load(Ordering::Relaxed), counts.deleted.load(Ordering::Relaxed));
    assert_eq!(created, deleted + left, "each that was made was deleted once, or is there");
    assert!(created > 20 && deleted > 10, "{created} made, {deleted} deleted");
    // Values of deleted attributes.
    one.sweep_values(1_000_000).await.unwrap();
    // No metric belongs to a deleted resource, and no orphaned value or name is left.
    for orphans in [
        "SELECT COUNT(*) FROM metric m LEFT JOIN resource r ON r.id = m.resource_id WHERE m.resource_id IS NOT NULL AND r.id IS NULL",
        "SELECT COUNT(*) FROM resource_value v LEFT JOIN resource r ON r.number = v.resource_number WHERE r.number IS NULL",
        "SELECT COUNT(*) FROM resource_history_value v LEFT JOIN resource_history r ON r.revision = v.revision WHERE r.revision IS NULL",
        "SELECT COUNT(*) FROM resource_history h LEFT JOIN resource r ON r.id = h.id WHERE r.id IS NULL",
    ] {
        assert_eq!(engine.execute(&options, orphans), "0", "{orphans}");
    }
}

tests! {
    postgres_is_shared: is_shared(EngineKind::Postgres);
    mariadb_is_shared: is_shared(EngineKind::MariaDb);
}

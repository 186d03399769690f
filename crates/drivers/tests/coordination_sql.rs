//! The coordination suite on real databases, and their outages.

#[path = "engines/database.rs"]
mod database;
#[path = "engines/outage.rs"]
mod outage;
#[path = "engines/server.rs"]
mod server;

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use database::{Database, Kind};
use futures_util::future::join_all;
use gnudi_drivers::{
    OpenError,
    conformance::{CoordinationSetup, arbiter, coordination, log_registry},
    coordination::{
        Arbiter, CoordinationError, Coordinator,
        sql::{SqlCoordinator, SqlCoordinatorOptions},
    },
};
use gnudi_model::SackCount;
use gnudi_sql::{DatabaseOptions, ServerOptions};
use outage::{clock_goes_back, is_unavailable};
use server::fresh_name;
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(2);

/// For databases that are there: a busy machine is no outage.
const PATIENCE: Duration = Duration::from_secs(30);

async fn open(url: &str) -> Result<Arc<SqlCoordinator>, OpenError> {
    open_within(url, DEADLINE).await
}

async fn open_within(url: &str, timeout: Duration) -> Result<Arc<SqlCoordinator>, OpenError> {
    open_for(url, timeout, Uuid::nil()).await
}

async fn open_for(url: &str, timeout: Duration, cluster: Uuid) -> Result<Arc<SqlCoordinator>, OpenError> {
    let DatabaseOptions::Server(server) = DatabaseOptions::from_url(url).unwrap() else { panic!("{url}") };
    let server = ServerOptions { timeout, ..server };
    SqlCoordinator::open(&SqlCoordinatorOptions::new(server), cluster).await.map(Arc::new)
}

/// Two processes that open an empty database concurrently.
async fn two(url: &str) -> [Arc<SqlCoordinator>; 2] {
    let (one, two) = tokio::join!(open_within(url, PATIENCE), open_within(url, PATIENCE));
    [one.unwrap(), two.unwrap()]
}

async fn keeps_the_rules(engine: &Database) {
    let fresh = async || two(&engine.create_database(&fresh_name())).await;
    let (ttl, ends_late_by) = (Duration::from_millis(1200), Duration::from_millis(50));
    coordination(async || CoordinationSetup::on_engine(fresh().await, ttl, ends_late_by)).await;
    arbiter(async || fresh().await).await;
    log_registry(fresh().await).await;
}

/// Calls to a dead or hanging database fail in time, and succeed again afterwards.
async fn outages_end(engine: &mut Database) {
    let sacks: Vec<_> = SackCount::DEFAULT.sacks().collect();
    let (one, two) = (open(&engine.admin_url()).await.unwrap(), open(&engine.admin_url()).await.unwrap());
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let before = one.acquire(a, &sacks).await.unwrap();
    two.claim("name", "value").await.unwrap();
    engine.process.stop();
    is_unavailable(&one.acquire(a, &sacks).await);
    is_unavailable(&two.join("b", "{}", Duration::from_mins(10)).await);
    is_unavailable(&two.claim("name", "other").await);
    assert!(matches!(open(&engine.admin_url()).await, Err(OpenError::Engine { .. })));
    engine.process.start_again();
    // Nothing is lost, and broken connections are replaced.
    one.renew(a, "{}").await.unwrap();
    assert_eq!(one.acquire(a, &sacks).await.unwrap(), before);
    assert_eq!(two.claim("name", "other").await.unwrap(), "value");
    let b = two.join("b", "{}", Duration::from_mins(10)).await.unwrap();
    assert!(two.acquire(b, &sacks).await.unwrap().iter().all(Option::is_none));

    engine.process.pause();
    let asked = Instant::now();
    let answers = join_all((0..10).map(|_| one.renew(a, "{}"))).await;
    // At once: one after the other they take ten times as long.
    assert!(asked.elapsed() < DEADLINE * 5, "{:?}", asked.elapsed());
    answers.iter().for_each(is_unavailable);
    is_unavailable(&two.members().await);
    engine.process.resume();
    one.renew(a, "{}").await.unwrap();
    assert_eq!(two.members().await.unwrap().len(), 2);
    one.release(a, &sacks).await.unwrap();
    let after = two.acquire(b, &sacks).await.unwrap();
    assert!(after.iter().min() > before.iter().max());
}

/// A process suspended in the middle of a transaction that blocks others is aborted.
async fn a_sleeper_holds_nobody_up(engine: &Database) {
    let other = open(&engine.admin_url()).await.unwrap();
    let b = other.join("other", "{}", Duration::from_mins(10)).await.unwrap();
    // Suspended after a few statements, on a slow disk later: at some point it holds the token row, and the other must wait.
    for attempt in 0..50 {
        let sleeper = open(&engine.admin_url()).await.unwrap();
        let a = sleeper.join("sleeper", "{}", Duration::from_mins(10)).await.unwrap();
        // All free.
        let sacks: Vec<_> = SackCount::DEFAULT.halved().unwrap().sacks().collect();
        let mut call = sleeper.acquire(a, &sacks);
        for _ in 0..2 + attempt % 15 {
            if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let asked = Instant::now();
        while other.leave(b).await.is_err() {
            assert!(asked.elapsed() < DEADLINE * 20, "still held up");
        }
        if asked.elapsed() > DEADLINE / 2 {
            return;
        }
    }
    panic!("the sleeper never slept where it matters");
}

async fn tables_come_back(engine: &Database) {
    let one = open(&engine.create_database("dropped")).await.unwrap();
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let sacks: Vec<_> = SackCount::DEFAULT.sacks().collect();
    let before = one.acquire(a, &sacks).await.unwrap();
    engine.execute("dropped", "DROP TABLE gnudi_token, gnudi_session, gnudi_sack_owner, gnudi_claim");
    assert_eq!(one.acquire(a, &sacks).await, Err(CoordinationError::Expired));
    let again = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let after = one.acquire(again, &sacks).await.unwrap();
    assert!(
        after.iter().min() > before.iter().max(),
        "tokens grow, though nothing is left of the earlier ones"
    );
}

/// Tables of another owner are used, as after a restore by an administrator.
async fn tables_may_have_another_owner(engine: &Database) {
    let url = engine.create_database("owned");
    open_within(&url, PATIENCE).await.unwrap();
    engine.execute("owned", "CREATE ROLE limited LOGIN");
    engine.execute("owned", "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    engine.execute("owned", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited");
    let limited = open_within(&url.replace("postgres@", "limited@"), PATIENCE).await.unwrap();
    let a = limited.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let sacks: Vec<_> = SackCount::DEFAULT.sacks().collect();
    assert!(limited.acquire(a, &sacks).await.unwrap().iter().all(Option::is_some));
}

/// Each would give sacks to the members of the other.
async fn another_cluster_is_refused(engine: &Database) {
    let url = engine.create_database(&fresh_name());
    let [own, other] = [1, 2].map(Uuid::from_u128);
    open_for(&url, PATIENCE, own).await.unwrap();
    let Err(OpenError::OtherCluster { found, own: asked, .. }) = open_for(&url, PATIENCE, other).await else {
        panic!("the tables of another cluster are used");
    };
    assert_eq!((found, asked), (own, other));
    open_for(&url, PATIENCE, own).await.unwrap();
}

async fn a_clock_may_go_back(engine: &Database) {
    let name = fresh_name();
    let [one, other] = two(&engine.create_database(&name)).await;
    let set_ahead = |_| {
        engine.execute(&name, "UPDATE gnudi_session SET until_us = until_us + 1800000000");
    };
    clock_goes_back(&*one, &*other, set_ahead).await;
}

/// A process that dies has another name once it is started again.
async fn sessions_that_are_over_are_removed(engine: &Database) {
    let name = fresh_name();
    let [one, other] = two(&engine.create_database(&name)).await;
    for start in 0..3 {
        one.join(&format!("dead {start}"), "{}", Duration::from_mins(10)).await.unwrap();
    }
    engine.execute(&name, "UPDATE gnudi_session SET until_us = 0");
    other.join("alive", "{}", Duration::from_mins(10)).await.unwrap();
    assert_eq!(engine.execute(&name, "SELECT COUNT(*) FROM gnudi_session"), "1");
}

async fn coordinates_on(kind: Kind) {
    let mut engine = Database::start(kind);
    keeps_the_rules(&engine).await;
    another_cluster_is_refused(&engine).await;
    a_clock_may_go_back(&engine).await;
    sessions_that_are_over_are_removed(&engine).await;
    tables_come_back(&engine).await;
    if kind == Kind::Postgres {
        tables_may_have_another_owner(&engine).await;
    }
    outages_end(&mut engine).await;
    a_sleeper_holds_nobody_up(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinates_on_postgresql() {
    coordinates_on(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinates_on_mariadb() {
    coordinates_on(Kind::MariaDb).await;
}

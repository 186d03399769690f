//! Splits and moves a placement group while a client creates objects, one at a time.
//!
//! The group of an object is hash(object) % `pg_num`, its OSD hash(group) % `pgp_num`: raising `pg_num` splits the
//! groups in place, raising `pgp_num` moves the new ones. Since Nautilus the manager adjusts `pgp_num` to `pg_num`,
//! unless its target is reset at once.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use gnudi_rados::{Cluster, ConnectOptions, Librados, Pool};
use serde_json::{Value, json};

use crate::{
    context::Context,
    peers::ceph::{Ceph, CephOptions, create_pool, monitor_command},
    timeline::Call,
};

/// Poll interval of the placement groups.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A placement group does not respond while it is moved.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);
/// Pools tried until the two groups of one are on different OSDs, which has a probability of one half.
const POOLS_MAX: usize = 40;

/// How long the client creates objects before and after each change.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Before `pg_num` is raised.
    pub setup: Duration,
    /// Between the end of the split and raising `pgp_num`.
    pub between: Duration,
    /// After the groups are clean again.
    pub after: Duration,
}

/// Times of events in seconds since the client began; `None` if the run was stopped before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    pub pg_num: Option<f64>,
    /// Both groups are clean, on the same OSD.
    pub split: Option<f64>,
    pub pgp_num: Option<f64>,
    /// When copying of objects was first observed, and no longer.
    pub copy_begin: Option<f64>,
    pub copy_end: Option<f64>,
    /// Both groups are active+clean, each on its own OSD.
    pub clean: Option<f64>,
    pub end: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub creates: Vec<Call>,
    pub moments: Moments,
    /// Why the run ended early.
    pub failure: Option<String>,
}

/// Starts a cluster and executes the plan.
pub fn run(options: &CephOptions, plan: &Plan, context: &Context) -> Result<Timeline> {
    let librados = Librados::load(&options.librados)?;
    let ceph = Ceph::start(&librados, options, &context.leftovers).context("starting Ceph")?;
    let name = pool_that_parts(&ceph)?;
    let pool = ceph.cluster().open_pool(&name)?;
    let connect = ConnectOptions {
        conf: Some(ceph.conf()),
        operation_timeout: POLL_TIMEOUT,
        ..ConnectOptions::default()
    };
    let observer = Observer {
        cluster: Cluster::connect(&librados, &connect)?,
        pool: name,
        pool_id: pool.id(),
        start: Instant::now(),
        context,
        ended: AtomicBool::new(false),
    };
    let mut timeline = Timeline::default();
    let (outcome, created) = std::thread::scope(|scope| {
        let client = scope.spawn(|| observer.create_until_ended(&pool, &mut timeline.creates));
        let outcome = observer.carry_out(plan, &mut timeline.moments);
        observer.ended.store(true, Ordering::Relaxed);
        (outcome, client.join().unwrap_or_else(|_| Err(anyhow!("the client panicked"))))
    });
    timeline.moments.end = observer.now_s();
    // If both fail, the client's error is the cause.
    if let Err(error) = created.context("creating objects").and(outcome) {
        if timeline.creates.is_empty() {
            return Err(error);
        }
        timeline.failure = Some(format!("{error:#}"));
    }
    Ok(timeline)
}

/// Creates pools with one placement group until its two halves would be on different OSDs; returns the pool's name.
fn pool_that_parts(ceph: &Ceph) -> Result<String> {
    let map = ceph.directory().join("crushmap");
    std::fs::write(&map, ceph.cluster().mon_command(&json!({"prefix": "osd getcrushmap"}).to_string())?)?;
    for number in 0..POOLS_MAX {
        let name = format!("split.{number}");
        create_pool(ceph.cluster(), &name, 1)?;
        let id = ceph.cluster().open_pool(&name)?.id().to_string();
        let mut command = Command::new("crushtool");
        command.arg("-i").arg(&map).args(["--test", "--show-mappings", "--rule", "0", "--num-rep", "1"]);
        command.args(["--min-x", "0", "--max-x", "1", "--pool-id", &id]);
        let output = command.output().context("starting crushtool")?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let [first, second] = mappings(&text).with_context(|| format!("crushtool printed: {text}"))?;
        if first != second {
            return Ok(name);
        }
        let delete = json!({
            "prefix": "osd pool delete", "pool": name, "pool2": name, "yes_i_really_really_mean_it": true,
        });
        monitor_command(ceph.cluster(), &delete)?;
    }
    bail!("the placement groups of {POOLS_MAX} pools would all stay on one OSD")
}

/// The OSDs of the inputs 0 and 1, from lines like `CRUSH rule 0 x 1 [0]`.
fn mappings(text: &str) -> Option<[u64; 2]> {
    let osd_of = |input: &str| {
        let line = text.lines().find(|line| line.contains(input))?;
        line.rsplit_once('[')?.1.trim_end().strip_suffix(']')?.parse().ok()
    };
    Some([osd_of(" x 0 [")?, osd_of(" x 1 [")?])
}

/// A placement group, as reported by its OSD.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    state: String,
    osd: Option<u64>,
    epoch: u64,
}

/// Monitors and changes the pool.
struct Observer<'a> {
    cluster: Cluster,
    pool: String,
    pool_id: i64,
    start: Instant,
    context: &'a Context,
    /// The plan is done, or the client has failed.
    ended: AtomicBool,
}

impl Observer<'_> {
    fn now_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn is_cut(&self) -> bool {
        self.context.stop.is_set() || self.ended.load(Ordering::Relaxed)
    }

    fn tell(&self, what: &str) {
        if self.context.verbose {
            eprintln!("{:8.2} s  {what}", self.now_s());
        }
    }

    /// Creates obj.0, obj.1, ... one after the other.
    fn create_until_ended(&self, pool: &Pool, creates: &mut Vec<Call>) -> Result<()> {
        while !self.ended.load(Ordering::Relaxed) {
            let begin = Instant::now();
            if let Err(error) = pool.create_exclusive(&format!("obj.{}", creates.len())).wait() {
                self.ended.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
            let latency_s = begin.elapsed().as_secs_f64();
            creates.push(Call { begin_s: (begin - self.start).as_secs_f64(), latency_s });
        }
        Ok(())
    }

    /// Executes the plan and records the times; ends early when the run is stopped or the client ends.
    fn carry_out(&self, plan: &Plan, moments: &mut Moments) -> Result<()> {
        let cut = || self.is_cut();
        // A split takes a moment, the move about as long as creating the objects did.
        let wait_max = Duration::from_mins(5) + plan.setup * 4;
        self.tell("the client creates objects");
        if !pause(plan.setup, &cut) {
            return Ok(());
        }
        moments.pg_num = Some(self.now_s());
        self.tell("pg_num 2");
        self.set("pg_num", 2)?;
        self.set("pgp_num", 1)?;
        let Some(groups) = self.wait([2, 1], wait_max, &mut Moments::default())? else { return Ok(()) };
        ensure!(groups[0].osd == groups[1].osd, "the new placement group moved although pgp_num was held");
        moments.split = Some(self.now_s());
        if !pause(plan.between, &cut) {
            return Ok(());
        }
        moments.pgp_num = Some(self.now_s());
        self.tell("pgp_num 2");
        self.set("pgp_num", 2)?;
        let Some(groups) = self.wait([2, 2], wait_max, moments)? else { return Ok(()) };
        ensure!(groups[0].osd != groups[1].osd, "both placement groups stayed on one OSD: nothing moved");
        moments.clean = Some(self.now_s());
        pause(plan.after, &cut);
        Ok(())
    }

    fn set(&self, option: &str, value: u32) -> Result<()> {
        let set =
            json!({"prefix": "osd pool set", "pool": self.pool, "var": option, "val": value.to_string()});
        monitor_command(&self.cluster, &set).map(drop)
    }

    /// Waits until the pool has [`pg_num`, `pgp_num`] and all groups are active+clean since; records copying.
    fn wait(
        &self,
        numbers: [u64; 2],
        wait_max: Duration,
        moments: &mut Moments,
    ) -> Result<Option<Vec<Group>>> {
        let begin = Instant::now();
        let mut last_told = String::new();
        let mut copying = false;
        while begin.elapsed() < wait_max {
            if self.is_cut() {
                return Ok(None);
            }
            let now_s = self.now_s();
            let Ok((now, last_change, groups)) = self.look() else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            let states: Vec<&str> = groups.iter().map(|group| group.state.as_str()).collect();
            let told = format!("pg_num {}, pgp_num {}: {}", now[0], now[1], states.join(", "));
            if told != last_told {
                self.tell(&told);
                last_told = told;
            }
            if states.iter().any(|state| state.contains("backfill") || state.contains("recover")) {
                moments.copy_begin.get_or_insert(now_s);
                copying = true;
            } else if copying && states.iter().all(|state| state.starts_with("active")) {
                moments.copy_end = Some(now_s);
                copying = false;
            }
            let clean = |group: &Group| group.state == "active+clean" && group.epoch >= last_change;
            if now == numbers && groups.iter().all(clean) {
                return Ok(Some(groups));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("after {} s the pool's placement groups are: {last_told}", wait_max.as_secs())
    }

    /// The pool's `pg_num` and `pgp_num`, the epoch of its last change, and its groups.
    fn look(&self) -> Result<([u64; 2], u64, Vec<Group>)> {
        let dump = monitor_command(&self.cluster, &json!({"prefix": "osd dump"}))?;
        let pools = dump["pools"].as_array().context("no pools in the OSD map")?;
        let pool = pools.iter().find(|pool| pool["pool_name"] == self.pool.as_str());
        let pool = pool.context("the pool is not in the OSD map")?;
        let number = |name: &str| pool[name].as_u64().with_context(|| format!("no {name} in {pool}"));
        let numbers = [number("pg_num")?, number("pg_placement_num")?];
        // A text in some versions.
        let change = &pool["last_change"];
        let last_change = change.as_u64().or_else(|| change.as_str()?.parse().ok()).unwrap_or(0);
        Ok((numbers, last_change, (0..numbers[0]).map(|group| self.group(group)).collect()))
    }

    /// Asks the group's OSD: the manager's information is seconds old.
    fn group(&self, number: u64) -> Group {
        let name = format!("{}.{number:x}", self.pool_id);
        let query = json!({"prefix": "query", "pgid": name, "format": "json"}).to_string();
        let answer = self.cluster.pg_command(&name, &query).ok();
        let answer: Option<Value> = answer.and_then(|answer| serde_json::from_slice(&answer).ok());
        let Some(answer) = answer else {
            return Group { state: "no answer".to_owned(), osd: None, epoch: 0 };
        };
        Group {
            state: answer["state"].as_str().unwrap_or("no state").to_owned(),
            osd: answer["acting"][0].as_u64(),
            epoch: answer["epoch"].as_u64().or_else(|| answer["epoch"].as_str()?.parse().ok()).unwrap_or(0),
        }
    }
}

/// Waits; `false` if interrupted.
pub fn pause(time: Duration, cut: &dyn Fn() -> bool) -> bool {
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()) {
        if cut() {
            return false;
        }
        std::thread::sleep(left.min(POLL_INTERVAL / 5));
    }
    !cut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crushtools_mappings_are_read() {
        assert_eq!(mappings("CRUSH rule 0 x 0 [1]\nCRUSH rule 0 x 1 [0]\n"), Some([1, 0]));
        assert_eq!(mappings("CRUSH rule 0 x 0 [1]\n"), None);
        assert_eq!(mappings("CRUSH rule 0 x 0 []\nCRUSH rule 0 x 1 [0]\n"), None);
    }

    #[test]
    fn a_pause_ends_when_it_is_cut() {
        assert!(pause(Duration::from_millis(5), &|| false));
        let begin = Instant::now();
        assert!(!pause(Duration::from_mins(1), &|| begin.elapsed() > Duration::from_millis(20)));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}

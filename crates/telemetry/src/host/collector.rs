//! Reads this machine's figures at intervals and posts them.
//!
//! Stateless: after a restart it looks up its metrics by name. While the store does not respond, the newest
//! [`BACKLOG_READINGS_MAX`] readings are kept, each with its time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::PathBuf,
    time::Duration,
};

use gnudi_client::{Client, ClientError, MetricFilter, MetricSpec};
use gnudi_model::{Measure, MetricId, Timestamp};
use tokio::time::MissedTickBehavior;

use super::reading::{self, Counters, Reading};
use crate::time::now;

/// Maximum number of readings kept while the store does not respond.
pub const BACKLOG_READINGS_MAX: usize = 720;

/// Approximate measures per request: the server limits its size.
const REQUEST_MEASURES: usize = 20_000;

#[derive(Clone, Debug)]
pub struct CollectorOptions {
    pub interval: Duration,
    /// Archive policy of new metrics.
    pub archive_policy_name: String,
    /// Where `/proc` is mounted.
    pub proc_dir: PathBuf,
    /// The user that posts; metrics are looked up by creator and name.
    pub user: String,
}

pub struct Collector {
    client: Client,
    options: CollectorOptions,
    ids: HashMap<String, MetricId>,
    before: Counters,
    waiting: VecDeque<(Timestamp, Reading)>,
}

impl Collector {
    pub fn new(client: Client, options: CollectorOptions) -> Self {
        Collector {
            client,
            options,
            ids: HashMap::new(),
            before: Counters::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Collects until it is dropped.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            ticks.tick().await;
            let reading = self.read();
            if self.waiting.len() == BACKLOG_READINGS_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back((now(), reading));
            let posted = self.post().await;
            if let (Err(error), false) = (&posted, failing) {
                tracing::warn!(%error, "this machine's figures cannot be stored; trying again at each interval");
            } else if posted.is_ok() && failing {
                tracing::info!("this machine's figures are stored again");
            }
            failing = posted.is_err();
        }
    }

    fn read(&mut self) -> Reading {
        let text = |name: &str| std::fs::read_to_string(self.options.proc_dir.join(name)).unwrap_or_default();
        let mut reading = Reading::new();
        reading::load(&text("loadavg"), &mut reading);
        reading::memory(&text("meminfo"), &mut reading);
        reading::disks(&text("diskstats"), &mut reading);
        reading::network(&text("net/dev"), &mut reading);
        if let Some(counters) = Counters::parse(&text("stat")) {
            if self.before != Counters::default() {
                counters.percentages(&self.before, &mut reading);
            }
            self.before = counters;
        }
        reading
    }

    /// Posts the backlog, oldest readings first; on failure the rest is kept.
    async fn post(&mut self) -> Result<(), ClientError> {
        while !self.waiting.is_empty() {
            let readings = next_readings(&self.waiting);
            let mut batch: BTreeMap<MetricId, Vec<Measure>> = BTreeMap::new();
            for index in 0..readings {
                let (timestamp, reading) = self.waiting[index].clone();
                for (name, value) in reading {
                    let id = self.metric(&name).await?;
                    batch.entry(id).or_default().push(Measure { timestamp, value });
                }
            }
            if let Err(error) = self.client.post_batch(&batch).await {
                // A metric may have been deleted: look all up again next time.
                self.ids.clear();
                return Err(error);
            }
            self.waiting.drain(..readings);
        }
        Ok(())
    }

    /// The id of the metric with this name; creates it if missing.
    async fn metric(&mut self, name: &str) -> Result<MetricId, ClientError> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let filter = MetricFilter {
            name: Some(name.to_owned()),
            creator: Some(self.options.user.clone()),
            limit: Some(1),
        };
        let id = if let Some(metric) = self.client.list_metrics(&filter).await?.first() {
            metric.id
        } else {
            let spec = MetricSpec {
                name: Some(name.to_owned()),
                archive_policy_name: Some(self.options.archive_policy_name.clone()),
                unit: Some(unit_of(name).to_owned()),
            };
            self.client.create_metric(&spec).await?.id
        };
        self.ids.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// How many of the oldest readings one request holds; at least one.
fn next_readings(waiting: &VecDeque<(Timestamp, Reading)>) -> usize {
    let mut measures = 0;
    let fitting = waiting.iter().take_while(|(_, reading)| {
        measures += reading.len();
        measures <= REQUEST_MEASURES
    });
    fitting.count().max(1)
}

fn unit_of(name: &str) -> &'static str {
    let units = [
        (".percentage", "%"),
        ("cpu.util", "%"),
        ("cpu.load", "process"),
        (".memory.", "KB"),
        (".bytes", "B"),
        (".requests", "request"),
    ];
    units.iter().find(|(part, _)| name.contains(part)).map_or("packet", |(_, unit)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_backlog_is_posted_in_parts() {
        let reading = |metrics: usize| -> (Timestamp, Reading) {
            (Timestamp(0), (0..metrics).map(|number| (number.to_string(), 1.0)).collect())
        };
        let mut waiting: VecDeque<_> = std::iter::repeat_n(reading(3000), 10).collect();
        assert_eq!(next_readings(&waiting), 6);
        waiting.truncate(2);
        assert_eq!(next_readings(&waiting), 2);
        waiting.push_front(reading(REQUEST_MEASURES + 1));
        assert_eq!(next_readings(&waiting), 1);
    }
}

//! Reads this machine's figures at intervals and posts them.
//!
//! Stateless: after a restart it looks up its metrics by name. While the store does not respond, the newest
//! [`BACKLOG_READINGS_MAX`] readings are kept, each with its time. Figures without a metric are dropped while the store
//! creates none (429).

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    path::PathBuf,
    time::{Duration, Instant},
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

/// The longest pause before the store is asked again for metrics that it did not create; also if it names none.
const CREATION_PAUSE_MAX: Duration = Duration::from_mins(5);

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
    /// When the store may create metrics again; `None` if it does.
    refused_until: Option<Instant>,
    /// Names that have no metric until then.
    missing: HashSet<String>,
    before: Counters,
    waiting: VecDeque<(Timestamp, Reading)>,
}

impl Collector {
    pub fn new(client: Client, options: CollectorOptions) -> Self {
        Collector {
            client,
            options,
            ids: HashMap::new(),
            refused_until: None,
            missing: HashSet::new(),
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
        if self.refused_until.is_some_and(|until| until <= Instant::now()) {
            self.missing.clear();
        }
        while !self.waiting.is_empty() {
            let readings = next_readings(&self.waiting);
            let mut batch: BTreeMap<MetricId, Vec<Measure>> = BTreeMap::new();
            for index in 0..readings {
                let (timestamp, reading) = self.waiting[index].clone();
                for (name, value) in reading {
                    if let Some(id) = self.metric(&name).await? {
                        batch.entry(id).or_default().push(Measure { timestamp, value });
                    }
                }
            }
            if !batch.is_empty()
                && let Err(error) = self.client.post_batch(&batch).await
            {
                // A metric may have been deleted: look all up again next time.
                self.ids.clear();
                return Err(error);
            }
            self.waiting.drain(..readings);
        }
        Ok(())
    }

    /// The id of the metric with this name; creates it if missing. `None` if the store creates none for now.
    async fn metric(&mut self, name: &str) -> Result<Option<MetricId>, ClientError> {
        if let Some(id) = self.ids.get(name) {
            return Ok(Some(*id));
        }
        if self.missing.contains(name) {
            return Ok(None);
        }
        let filter = MetricFilter {
            name: Some(name.to_owned()),
            creator: Some(self.options.user.clone()),
            limit: Some(1),
        };
        let found = self.client.list_metrics(&filter).await?;
        let id = if let Some(metric) = found.first() { Some(metric.id) } else { self.create(name).await? };
        if let Some(id) = id {
            self.ids.insert(name.to_owned(), id);
        } else {
            self.missing.insert(name.to_owned());
        }
        Ok(id)
    }

    /// Creates a metric; `None` if the store creates none for now.
    async fn create(&mut self, name: &str) -> Result<Option<MetricId>, ClientError> {
        if self.refused_until.is_some_and(|until| until > Instant::now()) {
            return Ok(None);
        }
        let spec = MetricSpec {
            name: Some(name.to_owned()),
            archive_policy_name: Some(self.options.archive_policy_name.clone()),
            unit: Some(unit_of(name).to_owned()),
        };
        match self.client.create_metric(&spec).await {
            Ok(metric) => {
                if self.refused_until.take().is_some() {
                    self.missing.clear();
                    tracing::info!("metrics of this machine's figures are created again");
                }
                Ok(Some(metric.id))
            }
            Err(error) if error.status() == Some(429) => {
                let wanted = error.refused().and_then(|refused| refused.retry_after);
                let pause = wanted.unwrap_or(CREATION_PAUSE_MAX).min(CREATION_PAUSE_MAX);
                if self.refused_until.replace(Instant::now() + pause).is_none() {
                    tracing::warn!(%error, name, "this machine's figures without a metric are dropped for now");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
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
    use std::sync::Arc;

    use gnudi_client::ClientOptions;
    use parking_lot::Mutex;

    use super::*;
    use crate::test_server::serve;

    #[tokio::test]
    async fn figures_without_a_metric_are_dropped_while_the_project_has_too_many() {
        const KNOWN: &str = r#"[{"id": "00000000-0000-0000-0000-000000000001"}]"#;
        const MADE: &str = r#"{"id": "00000000-0000-0000-0000-000000000002"}"#;
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, is_full) = (requests.clone(), Arc::new(Mutex::new(true)));
        let full = is_full.clone();
        let endpoint = serve(move |request, body| {
            seen.lock().push(format!("{request} {body}"));
            match request.split(' ').next() {
                Some("GET") if request.contains("name=known") => ("200 OK", KNOWN),
                Some("GET") => ("200 OK", "[]"),
                _ if request.contains("/batch/") => ("202 Accepted", ""),
                _ if *full.lock() => ("429 Too Many Requests", ""),
                _ => ("201 Created", MADE),
            }
        });
        let options = CollectorOptions {
            interval: Duration::from_mins(1),
            archive_policy_name: "high".to_owned(),
            proc_dir: "/nowhere".into(),
            user: "u".to_owned(),
        };
        let client = Client::new(&endpoint.await, &ClientOptions::default()).unwrap();
        let mut collector = Collector::new(client, options);
        // How many metrics were asked to be created, and the number of the last measures' metrics.
        let post = async |collector: &mut Collector| {
            let reading =
                ["known", "new-1", "new-2"].map(|name| (name.to_owned(), 1.0)).into_iter().collect();
            collector.waiting.push_back((Timestamp(0), reading));
            collector.post().await.unwrap();
            assert!(collector.waiting.is_empty());
            let requests = std::mem::take(&mut *requests.lock());
            let creations = requests.iter().filter(|one| one.starts_with("POST /v1/metric "));
            let measures = requests.last().unwrap();
            (creations.count(), measures.matches("timestamp").count())
        };
        assert_eq!(post(&mut collector).await, (1, 1));
        assert_eq!(post(&mut collector).await, (0, 1), "not asked for a while");
        *is_full.lock() = false;
        collector.refused_until = Some(Instant::now());
        assert_eq!(post(&mut collector).await, (2, 3));
    }

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

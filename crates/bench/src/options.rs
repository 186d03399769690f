//! The command line of the benchmark, and how much of everything it does.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::peers::{Peer, Programs};

/// Measures gnudi and its peers side by side, in turn, on this machine.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Only these rows: by their names (push-5000), or several by their first word (push).
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    pub only: Vec<String>,
    /// small: a few minutes; full: about half an hour.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
    /// The servers to measure, in this order within each row.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Limit, Peer::Gnudi, Peer::Gnocchi, Peer::VictoriaMetrics])]
    pub peers: Vec<Peer>,
    /// Where the results go as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/results.json")]
    pub output: PathBuf,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/gnudi")]
    pub gnudi: PathBuf,
    /// A running gnudi to measure instead: it gets metrics and measures that are not removed.
    #[arg(long, value_name = "URL")]
    pub gnudi_url: Option<String>,
    /// A virtual environment with Gnocchi, its PostgreSQL and Redis drivers, and uwsgi.
    #[arg(long, value_name = "DIR", default_value = "target/bench/gnocchi")]
    pub gnocchi_venv: PathBuf,
    /// VictoriaMetrics' program.
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/victoria-metrics")]
    pub victoria_metrics: PathBuf,
    /// Threads of the load generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// How long each load of a fixed time lasts [default: by the scale].
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
}

impl Options {
    pub fn programs(&self) -> Programs {
        Programs {
            gnudi: self.gnudi.clone(),
            gnocchi_venv: self.gnocchi_venv.clone(),
            victoria_metrics: self.victoria_metrics.clone(),
            gnudi_url: self.gnudi_url.clone(),
        }
    }

    /// Whether a row was asked for.
    pub fn wants(&self, key: &str) -> bool {
        let first_word = key.split('-').next();
        self.only.is_empty()
            || self.only.iter().any(|wanted| key == wanted || first_word == Some(wanted.as_str()))
    }

    pub fn counts(&self, peer: Peer) -> Counts {
        let mut counts = Counts::new(self.scale, peer);
        if let Some(seconds) = self.seconds {
            counts.load = Duration::from_secs(seconds);
        }
        counts
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    Small,
    Full,
}

/// How much of everything a peer gets to do. Gnocchi gets less where it would take hours: rates, not counts, are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How long a load of a fixed time lasts.
    pub load: Duration,
    /// Metrics that a push is spread over.
    pub push_metrics: usize,
    /// Metrics to create, show and delete.
    pub metadata_metrics: usize,
    /// Resources to create, show and search.
    pub resources: usize,
    /// Metrics that hold a day by the minute, aggregated together.
    pub aggregate_metrics: usize,
    /// Metrics that hold a month by the minute, read in turn.
    pub read_metrics: usize,
    /// Metrics that get 60 points each.
    pub process_metrics: usize,
    /// Metrics and rounds of single measures streamed over them, batched.
    pub stream_metrics: usize,
    pub stream_rounds: usize,
    /// Rounds of the same, each measure a call of its own.
    pub stream_single_rounds: usize,
    /// Metrics that lie idle.
    pub memory_metrics: usize,
    /// Few and many metrics, and measures spread over either; zero leaves the row out.
    pub few_metrics: usize,
    pub many_metrics: usize,
    pub many_measures: usize,
}

impl Counts {
    fn new(scale: Scale, peer: Peer) -> Self {
        let small = Counts {
            load: Duration::from_secs(3),
            push_metrics: 200,
            metadata_metrics: 20_000,
            resources: 100_000,
            aggregate_metrics: 1_000,
            read_metrics: 4,
            process_metrics: 20_000,
            stream_metrics: 20_000,
            stream_rounds: 60,
            stream_single_rounds: 5,
            memory_metrics: 20_000,
            few_metrics: 1_000,
            many_metrics: 50_000,
            many_measures: 2_000_000,
        };
        let full = Counts {
            load: Duration::from_secs(10),
            push_metrics: 1_000,
            metadata_metrics: 100_000,
            read_metrics: 8,
            stream_single_rounds: 60,
            many_metrics: 1_000_000,
            many_measures: 5_000_000,
            ..small
        };
        let slow = |factor: usize| Counts {
            push_metrics: 100 * factor,
            metadata_metrics: 1_000 * factor,
            resources: 1_000 * factor,
            aggregate_metrics: 50 * factor,
            read_metrics: factor,
            process_metrics: 500 * factor,
            stream_metrics: 500 * factor,
            stream_rounds: 10,
            stream_single_rounds: 1,
            memory_metrics: 500 * factor,
            many_metrics: 0,
            ..if scale == Scale::Small { small } else { full }
        };
        match (scale, peer) {
            (Scale::Small, Peer::Gnocchi) => slow(1),
            (Scale::Full, Peer::Gnocchi) => slow(4),
            (Scale::Small, Peer::Limit) => Counts { load: Duration::from_secs(2), ..small },
            (Scale::Small, _) => small,
            (Scale::Full, _) => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Options {
        Line::try_parse_from(std::iter::once(&"bench").chain(arguments)).unwrap().options
    }

    #[test]
    fn rows_are_chosen_by_name_or_first_word() {
        assert!(parse(&[]).wants("push-1"));
        let options = parse(&["--only", "stream,push-1000", "--peers", "gnudi,victoria-metrics"]);
        assert!(options.wants("stream") && options.wants("stream-single") && options.wants("push-1000"));
        assert!(!options.wants("push-100") && !options.wants("push-10000") && !options.wants("read"));
        assert_eq!(options.peers, [Peer::Gnudi, Peer::VictoriaMetrics]);
    }

    #[test]
    fn gnocchi_does_less_of_the_same() {
        for scale in [Scale::Small, Scale::Full] {
            let (gnudi, gnocchi) = (Counts::new(scale, Peer::Gnudi), Counts::new(scale, Peer::Gnocchi));
            assert!(gnocchi.process_metrics < gnudi.process_metrics);
            assert_eq!(gnocchi.load, gnudi.load);
        }
        assert_eq!(parse(&["--seconds", "7"]).counts(Peer::Limit).load, Duration::from_secs(7));
    }
}

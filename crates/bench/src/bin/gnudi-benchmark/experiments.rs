//! The experiments of the report: command lines of `gnudi-benchmark`, at two scales.
//!
//! To add one, add three lines to `ALL`.

use crate::{
    commands,
    context::Context,
    results::{Experiment as Outcome, recorded},
    rows::counts::Scale,
};

/// Three lines each: the published table that it repeats (or another section's name) and a title, then the command line
/// after `gnudi-benchmark` at small and at full scale.
const ALL: &str = "\
R1: metric create, as gnocchiclient does it
versus gnudi gnocchi --rounds 1 -- metric create -w 48 -n 500 -a low
versus gnudi gnocchi --rounds 3 -- metric create -w 48 -n 10000 -a low
R1: the worker's worst case
processing --only worst --batches 5000 --gnocchi-divisor 50
processing --only worst --gnocchi-divisor 10
R1: a month of raw samples, and what aggregates save
samples --instances 10 --gnocchi-instances 1
samples --gnocchi-instances 5
R3: processing, with the backlog over time
processing --only fold,stream --gnocchi-divisor 100
processing --only fold,stream --gnocchi-divisor 20
R5: gnudi's own split: sacks are doubled under load
sack-split --seconds 3 --after 2
sack-split
R4: a queue of samples, drained by notification agents
notification --messages 5000 --instances 500 --seconds 5
notification --messages 1000000 --seconds 600
R3: shared engines, with Gnocchi on the same
engines --only redis --metrics 5000 --gnocchi-divisor 50 --seconds 1
engines
prometheus: Prometheus' API: remote write and queries
prometheus
prometheus
growth: growth to a million metrics, disk of a history, and what a cloud takes
growth --scale full
growth --scale full
";

/// An experiment of the report.
pub struct Experiment {
    table: &'static str,
    title: &'static str,
    small: &'static str,
    full: &'static str,
}

/// All experiments, in the order of the report.
pub fn all() -> impl Iterator<Item = Experiment> {
    let mut lines = ALL.lines();
    std::iter::from_fn(move || {
        let (table, title) = lines.next()?.split_once(": ")?;
        Some(Experiment { table, title, small: lines.next()?, full: lines.next()? })
    })
}

impl Experiment {
    /// Its name for `--only`: the command's first word.
    pub fn key(&self) -> &'static str {
        self.small.split(' ').next().unwrap_or_default()
    }

    /// Runs it; on failure it has a reason instead of findings.
    pub fn run(&self, scale: Scale, context: &Context) -> Outcome {
        let command = if scale == Scale::Small { self.small } else { self.full };
        eprintln!("{}: gnudi-benchmark {command}", self.title);
        let outcome = commands::run_words(&words(command), context).and_then(|findings| recorded(&findings));
        let missing = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(reason) = &missing {
            eprintln!("missing: {}: {reason}", self.title);
        }
        Outcome {
            table: self.table.to_owned(),
            title: self.title.to_owned(),
            command: command.to_owned(),
            findings: outcome.ok(),
            missing,
        }
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_a_command() {
        assert_eq!(all().count(), ALL.lines().count() / 3);
        for experiment in all() {
            for words in [experiment.small, experiment.full] {
                assert!(commands::accepts_words(&super::words(words)), "{words}");
                assert_eq!(words.split(' ').next(), Some(experiment.key()));
            }
        }
    }
}

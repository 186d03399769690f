//! The experiments of the report: command lines of `gnudi-benchmark`.
//!
//! To add one, add two lines to `ALL`.

use crate::{
    commands,
    context::Context,
    results::{Experiment as Outcome, recorded},
};

/// Two lines each: the published table that it repeats (or another section's name) and a title, then the command line
/// after `gnudi-benchmark`.
const ALL: &str = "\
R1: metric create, as gnocchiclient does it
versus gnudi gnocchi --rounds 1 -- metric create -w 48 -n 500 -a low
R1: the worker's worst case
processing --only worst --batches 5000 --gnocchi-divisor 50
R3: processing, with the backlog over time
processing --only fold,stream --gnocchi-divisor 100
R5: gnudi's own split: sacks are doubled under load
sack-split --seconds 3 --after 2
R4: a queue of samples, drained by notification agents
notification --messages 5000 --instances 500 --seconds 5
R3: shared engines, with Gnocchi on the same
engines --only redis --metrics 5000 --gnocchi-divisor 50 --seconds 1
prometheus: Prometheus' API: remote write and queries
prometheus
growth: growth to a million metrics, disk of a history, and what a cloud takes
growth
";

/// An experiment of the report.
pub struct Experiment {
    table: &'static str,
    title: &'static str,
    command: &'static str,
}

/// All experiments, in the order of the report.
pub fn all() -> impl Iterator<Item = Experiment> {
    let mut lines = ALL.lines();
    std::iter::from_fn(move || {
        let (table, title) = lines.next()?.split_once(": ")?;
        Some(Experiment { table, title, command: lines.next()? })
    })
}

impl Experiment {
    /// Its name for `--only`: the command's first word.
    pub fn key(&self) -> &'static str {
        self.command.split(' ').next().unwrap_or_default()
    }

    /// Runs it; on failure it has a reason instead of findings.
    pub fn run(&self, context: &Context) -> Outcome {
        let Experiment { table, title, command } = *self;
        eprintln!("{title}: gnudi-benchmark {command}");
        let outcome = commands::run_words(&words(command), context).and_then(|findings| recorded(&findings));
        let missing = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(reason) = &missing {
            eprintln!("missing: {title}: {reason}");
        }
        Outcome {
            table: table.to_owned(),
            title: title.to_owned(),
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
        assert_eq!(all().count(), ALL.lines().count() / 2);
        for experiment in all() {
            assert!(commands::accepts_words(&words(experiment.command)), "{}", experiment.command);
        }
    }
}

//! The experiments of the report: commands of `gnudi benchmark`, each in the words that repeat it, at two scales.
//!
//! A new one is a line in `ALL`.

use crate::{
    commands,
    context::Context,
    results::{Experiment as Outcome, Recorded},
    rows::counts::Scale,
};

/// A command that the report runs.
pub struct Experiment {
    /// The published table that it repeats; another name stands for none.
    table: &'static str,
    title: &'static str,
    /// The command's words behind `gnudi benchmark`.
    small: &'static str,
    full: &'static str,
}

const fn experiment(
    table: &'static str,
    title: &'static str,
    small: &'static str,
    full: &'static str,
) -> Experiment {
    Experiment { table, title, small, full }
}

pub const ALL: [Experiment; 0] = [];

impl Experiment {
    /// Its name for `--only`: the command's first word.
    pub fn key(&self) -> &'static str {
        self.small.split(' ').next().unwrap_or_default()
    }

    /// Runs it; what fails has no findings, but a reason.
    pub fn run(&self, scale: Scale, context: &mut Context) -> Outcome {
        let command = if scale == Scale::Small { self.small } else { self.full };
        eprintln!("{}: gnudi benchmark {command}", self.title);
        let outcome =
            commands::run_words(&words(command), context).and_then(|findings| Recorded::new(&findings));
        let (findings, missing) = match outcome {
            Ok(findings) => (Some(findings), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        if let Some(reason) = &missing {
            eprintln!("missing: {}: {reason}", self.title);
        }
        Outcome {
            table: self.table.to_owned(),
            title: self.title.to_owned(),
            command: command.to_owned(),
            findings,
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
        for experiment in &ALL {
            for words in [experiment.small, experiment.full] {
                assert!(commands::accepts_words(&super::words(words)), "{words}");
                assert_eq!(words.split(' ').next(), Some(experiment.key()));
            }
        }
    }
}

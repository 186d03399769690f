//! `gnudi export post`: posts a file of `gnudi export gnocchi` to Gnocchi.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gnudi_client::Client;
use gnudi_import::export::post::{self, PostEvent, Report};

use super::{
    import_verify::{client_options, given},
    messages::{note, say, say_part},
    progress::Progress,
};
use crate::args::ExportPostArgs;

pub fn run(args: &ExportPostArgs) -> Result<()> {
    let client = client(args)?;
    let mut progress = Progress::steady("export post");
    let mut tell = |told: PostEvent<'_>| match told {
        PostEvent::Made { gnudi, gnocchi } => say(format_args!("metric {gnudi} is {gnocchi} in Gnocchi")),
        PostEvent::Waits(time) => note(format_args!(
            "the last run was interrupted: waits {} s, for Gnocchi to process its last request",
            time.as_secs()
        )),
        PostEvent::Progress(report) => progress.tell(|elapsed| line(report, elapsed)),
    };
    let report = super::own_thread()?.block_on(post::post(&args.file, &client, &mut tell))?;
    say_part(summary(&report, progress.elapsed()));
    Ok(())
}

fn client(args: &ExportPostArgs) -> Result<Client> {
    let [user, password, token] = given(&args.caller);
    let options = client_options(user, password, token, args.trust.trust());
    Client::new(&args.gnocchi, &options).context("--gnocchi")
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { lines, bytes, bytes_total, bytes_before, measures, .. } = report;
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let line = format!("{lines} lines, {measures} measures, {:.0}/s", *measures as f64 / seconds);
    let done = bytes.saturating_sub(*bytes_before);
    if done == 0 {
        return line;
    }
    let left = bytes_total.saturating_sub(*bytes) as f64 * seconds / done as f64;
    format!("{line}, {left:.0} s left")
}

fn summary(report: &Report, elapsed: Duration) -> String {
    let Report { lines, requests, known, measures, .. } = report;
    format!(
        "posted in {:.1} s\n  {requests} requests with {measures} measures, {known} of what Gnocchi had already\n  {lines} lines are done\n",
        elapsed.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let report = Report {
            lines: 3,
            bytes: 300,
            bytes_total: 900,
            bytes_before: 100,
            measures: 50,
            ..Report::default()
        };
        assert_eq!(line(&report, Duration::from_secs(10)), "3 lines, 50 measures, 5/s, 30 s left");
        assert!(summary(&report, Duration::from_secs(1)).ends_with("  3 lines are done\n"));
    }
}

//! `gnudi import verify`: compares a Gnocchi and a gnudi over their APIs. Exit status: 0 no differences, 1 differences,
//! 2 one of them does not respond, or refuses.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gnudi_client::{Client, ClientOptions, Trust};
use gnudi_import::verify::{self, Options, Report, VerifyEvent};
use gnudi_model::Secret;
use uuid::Uuid;

use super::{
    messages::{say, say_part},
    progress::Progress,
};
use crate::args::{GnocchiCallerArgs, ImportVerifyArgs};

/// Response timeout: pages of a large Gnocchi are slow, and it writes the metrics of a request one by one.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// Returns the exit status.
pub fn run(args: &ImportVerifyArgs) -> Result<u8> {
    let [gnocchi, gnudi] = clients(args)?;
    let seed = args.seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
    let options =
        Options { sample: args.sample.map(|size| size as usize), seed, jobs: usize::from(args.jobs) };
    let mut progress = Progress::steady("import verify");
    let mut printed = 0;
    let mut tell = |told: VerifyEvent<'_>| match told {
        VerifyEvent::Difference(_) if printed == args.differences_max => {}
        VerifyEvent::Difference(difference) => {
            printed += 1;
            say(difference);
        }
        VerifyEvent::Progress(report) => progress.tell(|elapsed| line(report, elapsed)),
    };
    let report = super::own_thread()?.block_on(verify::verify(&gnocchi, &gnudi, options, &mut tell))?;
    say_part(summary(&report, options, progress.elapsed()));
    let left_out = report.differences.saturating_sub(printed);
    if left_out > 0 {
        say(format_args!("  {left_out} differences are not printed: see --differences-max"));
    }
    Ok(u8::from(report.differences > 0))
}

/// The clients for Gnocchi and gnudi.
fn clients(args: &ImportVerifyArgs) -> Result<[Client; 2]> {
    let trust = args.trust.trust();
    let options = |user, password, token| ClientOptions {
        idle_connections_max: usize::from(args.jobs),
        ..client_options(user, password, token, trust.clone())
    };
    let [user, password, token] = given(&args.caller);
    let gnudi_user = non_empty(args.gnudi_user.as_ref());
    // A user for gnudi means that Gnocchi's token is not for gnudi.
    let both_token = token.clone().filter(|_| gnudi_user.is_none());
    let gnudi = options(
        gnudi_user.or_else(|| user.clone()),
        non_empty(args.gnudi_password.as_ref()).or_else(|| password.clone()),
        non_empty(args.gnudi_token.as_ref()).or(both_token),
    );
    let gnocchi = options(user, password, token);
    let gnocchi = Client::new(&args.gnocchi, &gnocchi).context("--gnocchi")?;
    let gnudi = Client::new(&args.gnudi, &gnudi).context("--gnudi")?;
    Ok([gnocchi, gnudi])
}

/// The options of a client for Gnocchi, or beside one.
pub(super) fn client_options(
    user: Option<String>,
    password: Option<String>,
    token: Option<String>,
    trust: Trust,
) -> ClientOptions {
    ClientOptions {
        user: user.or(ClientOptions::default().user),
        password: password.map(Secret::new).unwrap_or_default(),
        token: token.map(Secret::new),
        trust,
        timeout: ANSWER_TIMEOUT,
        ..ClientOptions::default()
    }
}

/// User, password and token for Gnocchi.
pub(super) fn given(caller: &GnocchiCallerArgs) -> [Option<String>; 3] {
    [&caller.user, &caller.password, &caller.token].map(|text| non_empty(text.as_ref()))
}

/// An empty option or environment variable counts as missing.
fn non_empty(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { metrics, resources, histories, measured, values, differences, .. } = report;
    let rate = *values as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "{metrics} metrics, {resources} resources, {histories} histories, measures of {measured} metrics, \
         {values} values ({rate:.0}/s), {differences} differences"
    )
}

fn summary(report: &Report, options: Options, elapsed: Duration) -> String {
    let Report {
        archive_policies,
        archive_policy_rules,
        resource_types,
        metrics,
        resources,
        histories,
        revisions,
        measured,
        series,
        values,
        nine_digits,
        ignored,
        differences,
    } = report;
    let sample = match options.sample {
        Some(size) => format!(", {size} metrics and resources at random with --seed {}", options.seed),
        None => String::new(),
    };
    let mut lines = vec![
        format!("compared in {:.1} s{sample}", elapsed.as_secs_f64()),
        format!(
            "  {archive_policies} archive policies, {archive_policy_rules} rules, {resource_types} resource types"
        ),
        format!("  {resources} resources, {revisions} revisions of {histories}"),
        format!("  {metrics} metrics, {values} values in {series} series of {measured}"),
    ];
    if *nine_digits > 0 {
        lines.push(format!("  {nine_digits} percentiles of these are equal to nine digits"));
    }
    if *ignored > 0 {
        lines.push(format!("  {ignored} expired values of std and rates differ, which is expected"));
    }
    lines.push(format!("  {differences} differences"));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::{Command, ImportCommand},
        command_line,
    };

    fn parsed(line: &str) -> Option<Box<ImportVerifyArgs>> {
        match command_line::parsed(&format!("import verify {line}"))? {
            Command::Import(ImportCommand::Verify(args)) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn both_urls_are_needed() {
        let args = parsed("--gnocchi http://a:1 --gnudi http://b:2/metric --token t").unwrap();
        assert_eq!((args.jobs, args.differences_max, args.sample, args.seed), (8, 100, None, None));
        let [gnocchi, gnudi] = clients(&args).unwrap();
        assert_eq!((gnocchi.base_url(), gnudi.base_url()), ("http://a:1", "http://b:2/metric"));
        let args = parsed("--gnocchi a:1 --gnudi http://b --gnudi-user u --sample 7 --seed 3").unwrap();
        assert!(clients(&args).unwrap_err().to_string().contains("--gnocchi"));
        for line in [
            "--gnocchi http://a",
            "--gnudi http://a",
            "--gnocchi http://a --gnudi http://b --seed 3",
            "--gnocchi http://a --gnudi http://b --jobs 0",
            "--gnocchi http://a --gnudi http://b --sample 0",
        ] {
            assert!(parsed(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_summary_counts() {
        let report = Report { metrics: 9, values: 70, series: 4, measured: 2, ..Report::default() };
        let options = Options { sample: Some(2), seed: 5, jobs: 1 };
        let text = summary(&report, options, Duration::from_secs(2));
        assert!(
            text.starts_with("compared in 2.0 s, 2 metrics and resources at random with --seed 5\n"),
            "{text}"
        );
        assert!(text.contains("9 metrics, 70 values in 4 series of 2\n"), "{text}");
        assert!(text.ends_with("  0 differences\n") && !text.contains("nine digits"), "{text}");
        let report = Report { nine_digits: 1, ignored: 3, differences: 2, ..report };
        let text = summary(&report, Options { sample: None, ..options }, Duration::from_secs(2));
        assert!(
            text.contains("1 percentiles") && text.contains("3 expired") && !text.contains("seed"),
            "{text}"
        );
        assert!(line(&report, Duration::from_secs(2)).contains("70 values (35/s), 2 differences"));
    }
}

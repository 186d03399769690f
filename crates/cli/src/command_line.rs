//! Parses the command line: program names, the position of options, and the command groups in `--help`.
//!
//! The arguments of each command are in `args` and beside the commands.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::PathBuf,
};

use clap::{Args as _, CommandFactory as _, FromArgMatches as _};

use gnudi_endpoint::ServerArgs;

use crate::args::Cli;

/// The program's own name.
pub const NAME: &str = "gnudi";

/// Gnocchi's and Ceilometer's programs, and the command that each stands for.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("gnocchi-api", &["api"]),
    ("gnocchi-metricd", &["metricd"]),
    ("gnocchi-upgrade", &["upgrade"]),
    ("gnocchi-change-sack-size", &["change-sack-size"]),
    ("gnocchi-statsd", &["statsd"]),
    ("gnocchi-amqpd", &["amqpd"]),
    ("gnocchi-config-generator", &["config-generator"]),
    ("gnocchi-injector", &["inject"]),
    ("ceilometer-agent-notification", &["agent", "notification"]),
    ("ceilometer-polling", &["agent", "polling"]),
    ("ceilometer-upgrade", &["agent", "upgrade"]),
];

/// The groups of commands in `--help`.
const GROUPS: &[(&str, &[&str])] = &[
    ("Servers", &["serve", "api", "metricd", "statsd", "amqpd", "agent"]),
    ("What a server holds", &OF_THE_CLIENT),
    ("Operation", &["status", "upgrade", "split-sacks", "change-sack-size", "config", "passwd"]),
    ("The store", &["backup", "restore", "verify", "move", "import", "export"]),
    ("Tools", &["benchmark", "profile", "completion", "man"]),
];

/// The command line with all its commands.
pub fn command() -> clap::Command {
    // As with the originals (argparse): of an option given several times the last one applies, since scripts append theirs
    // to those of a wrapper, and an option may be cut short as long as one option begins so.
    let command = Cli::command().args_override_self(true).infer_long_args(true);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}\n\nA command's own options: {NAME} COMMAND --help\n",
        grouped(&command)
    );
    command.help_template(template)
}

/// The same without the hidden commands that Gnocchi's and Ceilometer's programs stand for.
pub fn with_originals() -> clap::Command {
    PROGRAMS.iter().fold(command(), |command, (_, words)| {
        command.mut_subcommand(words[0], |subcommand| subcommand.hide(false))
    })
}

fn grouped(command: &clap::Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter()).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text += heading;
        text += ":\n";
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:width$}  {}", summary(&about));
        }
        text.push('\n');
    }
    text
}

/// The first clause of a command's description.
fn summary(about: &str) -> &str {
    let ends = [". ", " (also: ", "; ", ": "];
    let end = ends.iter().filter_map(|end| about.find(end)).min().unwrap_or(about.len());
    about[..end].trim_end_matches('.')
}

/// The program of Gnocchi or Ceilometer by whose name this process was called, through a link.
pub fn original_program() -> Option<&'static str> {
    original(std::env::args_os().next().as_ref()).map(|(program, _)| *program)
}

/// The program of Gnocchi or Ceilometer with this name.
fn original(word: Option<&OsString>) -> Option<&'static (&'static str, &'static [&'static str])> {
    let path = PathBuf::from(word?);
    let name = path.file_name()?;
    PROGRAMS.iter().find(|(program, _)| name == *program)
}

/// Parses the command line; called by the name of one of those programs, the binary behaves as that program.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if let Some((program, command)) = original(words.first()) {
        words.splice(1..1, command.iter().map(OsString::from));
        // gnocchi-api ignores a `--`: the arguments before it are for its web server.
        if *program == "gnocchi-api"
            && let Some(dashes) = words.iter().position(|word| word == "--")
        {
            words.remove(dashes);
        }
    }
    let mut matches = command().try_get_matches_from(arranged(words))?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// What Gnocchi's client logs, besides `-v`, `-vv` and so on. Those commands of gnudi's that are the client's log nothing.
const LOGGED: [&str; 5] = ["--verbose", "-q", "--quiet", "--debug", "--collect-timing"];

/// Options of Gnocchi's client whose value changes nothing here: the API has one version, and nothing is logged.
const WITH_VALUE: [&str; 4] =
    ["--gnocchi-api-version", "--os-metric-api-version", "--os-api-version", "--log-file"];

/// The commands of Gnocchi's client.
const OF_THE_CLIENT: [&str; 4] = ["metric", "measures", "resource", "aggregates"];

/// Arranges a command line of Gnocchi's client for this one.
pub fn arranged(words: Vec<OsString>) -> Vec<OsString> {
    without_ignored(options_behind_command(words))
}

/// The number of words of an option of the client that changes nothing here; 0 for other words.
fn ignored_words(word: &OsStr) -> usize {
    let Some(text) = word.to_str() else { return 0 };
    match WITH_VALUE.iter().find_map(|option| text.strip_prefix(*option)) {
        Some("") => 2,
        Some(value) if value.starts_with('=') => 1,
        _ => {
            let more = text.strip_prefix("-v");
            let is_verbose = more.is_some_and(|more| more.bytes().all(|byte| byte == b'v'));
            usize::from(is_verbose || LOGGED.contains(&text))
        }
    }
}

/// The client accepts these options anywhere on the line: removes them from its commands.
fn without_ignored(words: Vec<OsString>) -> Vec<OsString> {
    let command = words.get(1).and_then(|word| word.to_str());
    if !command.is_some_and(|command| OF_THE_CLIENT.contains(&command)) {
        return words;
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut kept = Vec::with_capacity(words.len());
    let mut ignored = 0;
    for (at, word) in words.into_iter().enumerate() {
        if ignored == 0 {
            ignored = ignored_words(&word);
        }
        if ignored == 0 || at >= end {
            kept.push(word);
        } else {
            ignored -= 1;
        }
    }
    kept
}

/// Gnocchi's client accepts server options before the command (`gnocchi --endpoint URL metric list`): moves them after
/// it, before its own options, so that the last one on the line still applies.
fn options_behind_command(mut words: Vec<OsString>) -> Vec<OsString> {
    const FIRST: usize = 1;
    let is_option = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
    if !words.get(FIRST).is_some_and(is_option) {
        return words;
    }
    let options = ServerArgs::augment_args(clap::Command::new(NAME));
    let mut end = FIRST;
    while let Some(word) = words.get(end) {
        let ignored = ignored_words(word);
        if ignored > 0 {
            end += ignored;
            continue;
        }
        let Some(text) = word.to_str().and_then(|text| text.strip_prefix("--")) else { break };
        let (name, has_value) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        let is_called = |option: &&clap::Arg| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long() == Some(name) || aliases.contains(&name)
        };
        let Some(option) = options.get_arguments().find(is_called) else { break };
        let takes_next = option.get_action().takes_values() && !has_value;
        end += if takes_next { 2 } else { 1 };
    }
    let leading: Vec<OsString> = words.drain(FIRST..end.min(words.len())).collect();
    let place = match command_end(&words) {
        FIRST => words.iter().position(|word| word == "--").unwrap_or(words.len()),
        end => end,
    };
    words.splice(place..place, leading);
    words
}

/// The index behind the words that name the command: 3 of `gnudi metric list -f json`.
fn command_end(words: &[OsString]) -> usize {
    let root = Cli::command();
    let mut command = &root;
    let mut end = 1;
    while let Some(word) = words.get(end) {
        let Some(subcommand) = command.find_subcommand(word) else { break };
        command = subcommand;
        end += 1;
    }
    end
}

/// The command of a line without the program's name.
#[cfg(test)]
pub fn parsed(line: &str) -> Option<crate::args::Command> {
    parse(format!("gnudi {line}").split_whitespace().map(Into::into)).ok().map(|cli| cli.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{AgentCommand, Command};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// Asserts that a line is parsed as this command, with these arguments.
    macro_rules! assert_parsed {
        ($line:expr, $($command:tt)+) => {
            let command = parse(words($line)).unwrap().command;
            assert!(matches!(&command, $($command)+), "{}: {command:?}", $line);
        };
    }

    #[test]
    fn a_link_named_as_gnocchis_program_is_that_program() {
        let line = "/usr/bin/gnocchi-upgrade --sacks-number 7";
        assert_parsed!(line, Command::Upgrade(args) if args.sacks_number == Some(7));
        assert_parsed!("gnocchi-api --port 99", Command::Api(args) if args.port == Some(99));
        assert_parsed!("gnocchi-statsd --config-file x", Command::Statsd(args) if args.program.files.named.len() == 1);
        assert_parsed!("gnocchi-amqpd --user x", Command::Amqpd(_));
        assert_parsed!("gnudi config", Command::Config(_));
        assert_parsed!(
            "ceilometer-agent-notification --logfile x --config-file a --config-file b",
            Command::Agent(AgentCommand::Notification(args)) if args.program.files.named.len() == 2
        );
        assert_parsed!(
            "ceilometer-polling --polling-namespaces compute central --config-file a",
            Command::Agent(AgentCommand::Polling(args)) if args.polling_namespaces.len() == 2
        );
        for line in [
            "gnocchi-api --port 7 -- --config-file a",
            "gnocchi-api --config-file=a --port=7 --uwsgi-mode http",
        ] {
            assert_parsed!(
                line,
                Command::Api(args) if args.port == Some(7) && args.store.program.files.named.len() == 1
            );
        }
        for (line, stops) in [
            ("gnocchi-metricd --stop-after-processing-metrics 0", Some(0)),
            ("gnocchi-metricd --stop-after-processing-metrics=5 -d", Some(5)),
            ("gnocchi-metricd --stop-after-processing-metrics --nodebug", Some(1)),
            ("gnocchi-metricd --use-syslog --nouse-syslog --log-config x", None),
        ] {
            assert_parsed!(line, Command::Metricd(args) if args.stop_after_processing_metrics == stops);
        }
        for line in ["gnudi serve --listen localhost:80", "gnudi serve --listen [::1]:80"] {
            assert_parsed!(line, Command::Serve(args) if args.listen.is_some());
        }
        for line in ["gnocchi-change-sack-size 256", "gnocchi-change-sack-size --sacks-number 256"] {
            assert_parsed!(line, Command::ChangeSackSize(args) if args.requested_count() == Some(256));
        }
        assert_parsed!("gnudi status --watch", Command::Status(args) if args.watch);
        for line in [
            "gnudi change-sack-size",
            "gnudi change-sack-size 0",
            "gnudi",
            "gnudi serve --listen nowhere",
            "gnudi upgrade --sacks-number 0",
            "gnudi fly",
        ] {
            assert!(parse(words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn of_an_option_given_twice_the_last_one_applies() {
        assert_parsed!(
            "gnocchi-api --port 7 --port 8 -d -d --config-file a --config-file b",
            Command::Api(args) if args.port == Some(8)
                && args.store.program.log.debug
                && args.store.program.files.named.len() == 2
        );
        assert_parsed!(
            "gnudi --endpoint http://a status --endpoint http://b --watch --watch",
            Command::Status(args) if args.server.endpoint.as_deref() == Some("http://b") && args.watch
        );
        assert!(parse(words("gnudi metric show m n")).is_err(), "one metric");
        // As for the clients, which verify nothing then.
        assert!(parse(words("gnudi metric list --os-cacert f --insecure")).is_ok());
    }

    #[test]
    fn options_may_be_cut_short_and_flags_reverted() {
        assert_parsed!(
            "gnocchi-upgrade --sacks 7 --config-f a --skip-ind --skip-st --noskip-storage",
            Command::Upgrade(args) if args.sacks_number == Some(7)
                && args.skip_index
                && !args.skip_storage
                && args.store.program.files.named.len() == 1
        );
        assert_parsed!(
            "ceilometer-upgrade --skip-g --noskip-gnocchi-resource-types --skip-g",
            Command::Agent(AgentCommand::Upgrade(args)) if args.skip_gnocchi_resource_types
        );
        assert!(parse(words("gnudi metric list --lim=2 --mark m")).is_ok());
        for line in
            ["gnocchi-upgrade --skip-i", "gnudi measures show m --res 2", "gnudi metric list --limits 2"]
        {
            assert!(parse(words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn each_command_is_listed_once() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        listed.sort_unstable();
        let command = command();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn a_summary_is_one_clause() {
        for (about, expected) in [
            ("Serve the API (also: gnocchi-api)", "Serve the API"),
            ("Read all. Exit status: 0 or 1.", "Read all"),
            ("List metrics.", "List metrics"),
        ] {
            assert_eq!(summary(about), expected);
        }
    }

    #[test]
    fn options_of_the_server_may_stand_before_the_command() {
        for (line, expected) in [
            ("gnudi --endpoint http://h metric list", "gnudi metric list --endpoint http://h"),
            ("gnudi --insecure --user=me metric show -- -x", "gnudi metric show --insecure --user=me -- -x"),
            ("gnudi --user a metric show m --user b -f csv", "gnudi metric show --user a m --user b -f csv"),
            ("gnudi --user a aggregates x y", "gnudi aggregates --user a x y"),
            ("gnudi --user a fly", "gnudi fly --user a"),
            ("gnudi --debug -v --user a -q metric list", "gnudi metric list --user a"),
            ("gnudi --debug status", "gnudi status --debug"),
            ("gnudi -vv metric list --debug -f json -q -- -v", "gnudi metric list -f json -- -v"),
            ("gnudi --gnocchi-api-version 1 --user a metric list", "gnudi metric list --user a"),
            ("gnudi metric list --os-metric-api-version=1 -c id", "gnudi metric list -c id"),
            ("gnudi metric list --gnocchi-api-version 1", "gnudi metric list"),
            ("gnudi --log-file x serve", "gnudi serve --log-file x"),
            ("gnudi metric list --os-api-version --", "gnudi metric list --"),
            ("gnudi --log-file /tmp/log metric list --collect-timing", "gnudi metric list"),
            ("gnudi status -v", "gnudi status -v"),
            ("gnudi -v", "gnudi -v"),
            ("gnudi -V", "gnudi -V"),
            ("gnudi -h", "gnudi -h"),
            (
                "gnudi --os-cacert f --auth-type password metric list",
                "gnudi metric list --os-cacert f --auth-type password",
            ),
            ("gnudi metric list", "gnudi metric list"),
            ("gnudi --help", "gnudi --help"),
            ("gnudi --fly metric list", "gnudi --fly metric list"),
            ("gnudi --endpoint", "gnudi --endpoint"),
            ("gnudi", "gnudi"),
        ] {
            assert_eq!(arranged(words(line)), words(expected), "{line}");
        }
        assert_parsed!("gnudi --endpoint http://h metric list -f json", Command::Metric(_));
    }
}

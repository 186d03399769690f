//! Arguments of every program besides its own: configuration files and logging, in the forms of oslo.config and
//! oslo.log.
//!
//! Options that gnudi cannot honour are accepted with a warning.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::{FileArgument, Files};

/// Configuration files and logging.
#[derive(Clone, Debug, Default, Args)]
pub struct ProgramArgs {
    #[command(flatten)]
    pub files: Files,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the originals")]
pub struct LogArgs {
    /// Log at level debug.
    #[arg(short, long, overrides_with = "nodebug")]
    pub debug: bool,
    #[arg(long, hide = true)]
    nodebug: bool,
    /// Log at level info (the default).
    #[arg(short, long, overrides_with = "noverbose")]
    pub verbose: bool,
    #[arg(long, hide = true)]
    noverbose: bool,
    /// Services: log to this file, in oslo.log's format, instead of standard error [default: `[DEFAULT] log_file`].
    #[arg(long, alias = "logfile", value_name = "FILE", hide_short_help = true)]
    log_file: Option<String>,
    /// Services: directory of the log file; without `--log-file` it is named after the program [default: `[DEFAULT]
    /// log_dir`].
    #[arg(long, alias = "logdir", value_name = "DIR", hide_short_help = true)]
    log_dir: Option<String>,
    /// Time format in the log file, as in strftime [default: `[DEFAULT] log_date_format`].
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    log_date_format: Option<String>,
    /// A moved log file is always noticed.
    #[arg(long, hide = true, overrides_with = "nowatch_log_file")]
    watch_log_file: bool,
    #[arg(long, hide = true)]
    nowatch_log_file: bool,
    #[command(flatten)]
    pub idle: IdleArgs,
}

impl LogArgs {
    /// The options of `[DEFAULT]` set on the command line: argument, option, value.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let flag = |is_set: bool, word, name, value: &str| is_set.then(|| (word, name, value.to_owned()));
        let text =
            |value: &Option<String>, word, name| value.as_ref().map(|value| (word, name, value.clone()));
        [
            flag(self.debug, "--debug", "debug", "true"),
            flag(self.nodebug, "--nodebug", "debug", "false"),
            flag(self.verbose, "--verbose", "verbose", "true"),
            flag(self.noverbose, "--noverbose", "verbose", "false"),
            text(&self.log_file, "--log-file", "log_file"),
            text(&self.log_dir, "--log-dir", "log_dir"),
            text(&self.log_date_format, "--log-date-format", "log_date_format"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

const LOGS: &str = "logs go to standard error, or to --log-file";
const NO_DATABASE: &str = "there is no such database";

/// An option of an original program, accepted without effect.
struct Idle {
    name: &'static str,
    aliases: &'static [&'static str],
    /// The flag that reverts it; `None` for an option with a value.
    opposite: Option<&'static str>,
    why: &'static str,
}

macro_rules! flag {
    ($name:literal, $why:expr) => {
        Idle { name: $name, aliases: &[], opposite: Some(concat!("no", $name)), why: $why }
    };
}

const fn value(name: &'static str, why: &'static str) -> Idle {
    Idle { name, aliases: &[], opposite: None, why }
}

const IDLE: &[Idle] = &[
    Idle {
        aliases: &["log-config"],
        ..value("log-config-append", "Python's logging configuration is not read")
    },
    flag!("use-syslog", LOGS),
    flag!("use-journal", LOGS),
    flag!("use-json", LOGS),
    value("syslog-log-facility", LOGS),
    value("uwsgi-mode", "there is no uWSGI"),
    flag!("create-legacy-resource-types", "Gnocchi 4 has none"),
    flag!("skip-metering-database", NO_DATABASE),
    flag!("skip-event-database", NO_DATABASE),
];

/// The options of [`IDLE`] on the command line, as indices.
#[derive(Clone, Debug, Default)]
pub struct IdleArgs(Vec<usize>);

impl IdleArgs {
    /// For each option, why it has no effect.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|index| {
            let idle = &IDLE[*index];
            format!("--{}: without effect: {}", idle.name, idle.why)
        })
    }
}

impl FromArgMatches for IdleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |idle: &Idle| match idle.opposite {
            None => matches.get_one::<OsString>(idle.name).is_some(),
            Some(_) => matches.get_flag(idle.name),
        };
        Ok(IdleArgs((0..IDLE.len()).filter(|index| is_given(&IDLE[*index])).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = IdleArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for IdleArgs {
    fn augment_args(mut command: Command) -> Command {
        for idle in IDLE {
            let arg = Arg::new(idle.name).long(idle.name).aliases(idle.aliases.iter().copied()).hide(true);
            command = match idle.opposite {
                None => command.arg(arg.value_parser(value_parser!(OsString))),
                Some(no) => {
                    let opposite = Arg::new(no).long(no).action(ArgAction::SetTrue).overrides_with(idle.name);
                    let arg = arg.action(ArgAction::SetTrue).overrides_with(no);
                    command.arg(arg).arg(opposite.hide(true))
                }
            };
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

const FILE: &str = "config_file";
const DIRECTORY: &str = "config_dir";

impl FromArgMatches for Files {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut named = Vec::new();
        for id in [FILE, DIRECTORY] {
            let kind = if id == FILE { FileArgument::File } else { FileArgument::Directory };
            let paths = matches.get_many::<PathBuf>(id).into_iter().flatten().cloned().map(kind);
            named.extend(matches.indices_of(id).into_iter().flatten().zip(paths));
        }
        // The order on the command line decides precedence.
        named.sort_by_key(|(index, _)| *index);
        Ok(Files { named: named.into_iter().map(|(_, named)| named).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Files::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Files {
    fn augment_args(command: Command) -> Command {
        let arg = |id, long, value, help| {
            Arg::new(id)
                .long(long)
                .value_name(value)
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append)
                .help(help)
        };
        command
            .arg(arg(
                FILE,
                "config-file",
                "FILE",
                "A configuration file; can be repeated, the last takes precedence [default: those of oslo.config, \
                 such as /etc/gnocchi/gnocchi.conf]",
            ))
            .arg(arg(
                DIRECTORY,
                "config-dir",
                "DIR",
                "A directory of such files (*.conf) [default: such as /etc/gnocchi/gnocchi.conf.d]",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

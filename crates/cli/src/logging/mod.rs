//! Logging: commands log to standard error, one line per event; services to a file, if configured. `RUST_LOG` overrides
//! the level.
//!
//! `file` is the log file, `oslo` formats lines as oslo.log does, `fields` escapes what events say.

mod fields;
mod file;
mod oslo;

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;

use self::{fields::EscapedFields, file::LogFile, oslo::OsloFormat};
use crate::{
    command_line::{self, NAME},
    config::Config,
    program_args::ProgramArgs,
};

/// Set if logging to a file: the reason of a failure must be logged there, too.
static LOGS_TO_FILE: OnceLock<()> = OnceLock::new();

/// Starts logging of a service, possibly to a file, and logs the configuration files and their warnings. `command`
/// names the file if only its directory is configured and the program has no original name.
pub fn start_service(config: &Config, command: &str) -> Result<()> {
    match log_path(config, command) {
        None => start_on_stderr(configured_level(config), config),
        Some(path) => start_in_file(&path, config).with_context(|| {
            let option = if config.is_set("DEFAULT", "log_file") { "log_file" } else { "log_dir" };
            format!("{}: the log file {}", config.place("DEFAULT", option), path.display())
        })?,
    }
    log_start(config);
    Ok(())
}

/// Starts logging of a command; always to standard error, as with Gnocchi's commands.
pub fn start(config: &Config) {
    start_on_stderr(configured_level(config), config);
    log_start(config);
}

fn log_start(config: &Config) {
    let files: Vec<String> = config.files().iter().map(|file| file.display().to_string()).collect();
    let files = if files.is_empty() { "no file".to_owned() } else { files.join(", ") };
    tracing::info!("{NAME} {}: configuration from {files}", env!("CARGO_PKG_VERSION"));
}

/// As [`start`], for commands whose output matters: level info only if requested on the command line.
pub fn start_quietly(args: &ProgramArgs, config: &Config) {
    start_on_stderr(level(args.log.debug, args.log.verbose), config);
}

/// Logs why the program ends: to standard error, and to the log file if there is one.
pub fn log_failure(reason: &str) {
    if LOGS_TO_FILE.get().is_some() {
        // Several errors are a line each.
        reason.lines().for_each(|line| tracing::error!("{line}"));
    }
    // `eprintln` panics if that fails.
    let _ = writeln!(std::io::stderr(), "{NAME}: {reason}");
}

fn configured_level(config: &Config) -> &'static str {
    level(config.bool("DEFAULT", "debug"), config.bool("DEFAULT", "verbose"))
}

fn level(debug: bool, verbose: bool) -> &'static str {
    match (debug, verbose) {
        (true, _) => "debug",
        (false, true) => "info",
        (false, false) => "warn",
    }
}

/// The filter, and why it is not what `RUST_LOG` says.
fn filter(level: &str, requested: Option<&OsStr>) -> (EnvFilter, Option<String>) {
    // Libraries log warnings and errors only: their debug lines would drown ours, whose targets all begin with `gnudi`. lapin
    // logs returned messages as lists of bytes; our own lines report what happens to them.
    let default = format!("warn,lapin::returned_messages=error,{NAME}={level}");
    let Some(requested) = requested.filter(|text| !text.is_empty()) else {
        return (EnvFilter::new(default), None);
    };
    if let Some(Ok(filter)) = requested.to_str().map(EnvFilter::try_new) {
        return (filter, None);
    }
    let reason = format!("{}={}: no valid filter, ignored", EnvFilter::DEFAULT_ENV, requested.display());
    (EnvFilter::new(default), Some(reason))
}

fn requested_filter() -> Option<OsString> {
    std::env::var_os(EnvFilter::DEFAULT_ENV)
}

fn start_on_stderr(level: &str, config: &Config) {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let no_color = std::env::var_os("NO_COLOR");
    let (filter, ignored) = filter(level, requested_filter().as_deref());
    tracing_subscriber::fmt()
        .fmt_fields(EscapedFields::default())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured(terminal, no_color.as_deref()))
        .with_target(false)
        // If a line cannot be written, tracing would report that with `eprintln`, which panics if standard error is full or
        // closed.
        .log_internal_errors(false)
        .init();
    warn_of(config, ignored.as_deref());
}

/// Colours are for terminals, unless `NO_COLOR` is set and not empty (no-color.org).
fn is_coloured(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

fn start_in_file(path: &Path, config: &Config) -> Result<()> {
    let format = oslo_format(config)?;
    let (filter, ignored) = filter(configured_level(config), requested_filter().as_deref());
    tracing_subscriber::fmt()
        .fmt_fields(EscapedFields::default())
        .with_env_filter(filter)
        .with_writer(LogFile::open(path)?)
        .with_ansi(false)
        // As above.
        .log_internal_errors(false)
        .event_format(format)
        .init();
    let _ = LOGS_TO_FILE.set(());
    warn_of(config, ignored.as_deref());
    Ok(())
}

fn oslo_format(config: &Config) -> Result<OsloFormat> {
    let date_format = config.text("DEFAULT", "log_date_format").unwrap_or_default();
    OsloFormat::new(date_format).with_context(|| config.place("DEFAULT", "log_date_format"))
}

/// Whether a service could write the lines of its log file, if it has one. Opens nothing.
pub fn check(config: &Config) -> Result<()> {
    log_path(config, "").map_or(Ok(()), |_| oslo_format(config).map(drop))
}

fn warn_of(config: &Config, ignored_filter: Option<&str>) {
    if let Some(reason) = ignored_filter {
        tracing::warn!("{reason}");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// The log file, as oslo.log finds it: the file within the directory if both are configured; a file named as the program if
/// only the directory is.
fn log_path(config: &Config, command: &str) -> Option<PathBuf> {
    let own_name = || match command_line::original_program() {
        Some(program) => format!("{program}.log"),
        None => format!("{NAME}-{command}.log"),
    };
    match (config.path("DEFAULT", "log_dir"), config.path("DEFAULT", "log_file")) {
        (None, file) => file,
        (Some(directory), Some(file)) => Some(directory.join(file)),
        (Some(directory), None) => Some(directory.join(own_name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_not_valid_is_named() {
        for (requested, expected, is_named) in [
            (None, "gnudi=info", false),
            (Some(""), "gnudi=info", false),
            (Some("warn,gnudi=debug"), "gnudi=debug", false),
            (Some("warn,gnudi=verbose"), "gnudi=info", true),
        ] {
            let (filter, ignored) = filter("info", requested.map(OsStr::new));
            assert!(filter.to_string().contains(expected), "{requested:?}: {filter}");
            assert_eq!(ignored.is_some(), is_named, "{requested:?}");
        }
    }

    #[test]
    fn who_wants_no_colours_gets_none() {
        for (is_terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (false, None, false),
            (false, Some("1"), false),
        ] {
            assert_eq!(is_coloured(is_terminal, no_color.map(OsStr::new)), expected, "{no_color:?}");
        }
    }
}

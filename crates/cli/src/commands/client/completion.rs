//! `gnudi completion bash|zsh|fish`, and the names that the shell then offers: those that the server knows.
//!
//! The script asks this program for every word (`GNUDI_COMPLETE=bash gnudi -- gnudi metric show cp`), and clap's engine says which argument it
//! is. A server that does not answer soon offers nothing.

use std::{collections::BTreeSet, ffi::OsStr, io::IsTerminal as _, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Args, FromArgMatches as _, ValueEnum};
use clap_complete::{
    CompletionCandidate,
    env::{CompleteEnv, Shells},
};
use gnudi_client::{Client, uri::Query};
use gnudi_endpoint::ServerArgs;
use gnudi_model::AggregationMethod;
use serde_json::Value;
use tokio::runtime::Builder;

use super::{metric::pattern, output};
use crate::command_line;

/// What says that a shell asks.
const VARIABLE: &str = "GNUDI_COMPLETE";

/// Somebody waits for the key that was pressed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// So many names are offered.
const NAMES_MAX: usize = 100;

#[derive(Clone, Debug, Args)]
pub struct Completion {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script that teaches the shell this program's words.
pub fn run(args: &Completion) -> Result<()> {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let mut script = Vec::new();
    Shells::builtins().completer(name).context("the shell is unknown")?.write_registration(
        VARIABLE,
        command_line::NAME,
        command_line::NAME,
        &program(),
        &mut script,
    )?;
    output::put(&String::from_utf8_lossy(&script))?;
    if std::io::stdout().is_terminal() {
        eprintln!("This is for the shell to read: docs/terminal.md says where it looks for it.");
    }
    Ok(())
}

/// What the script is to call: this program by its name where the shell finds it by that, else by its path.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    if Path::new(&called).components().count() <= 1 {
        return command_line::NAME.to_owned();
    }
    let own = std::env::current_exe().ok();
    own.map_or_else(|| command_line::NAME.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Answers a shell that asks for words, and ends the process then.
pub fn answer_shell() {
    CompleteEnv::with_factory(command_line::command).var(VARIABLE).complete();
}

/// Names of metrics.
pub fn metric_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let mut query = Query::new("/v1/metric");
    query.add("name_like", &(pattern(&start) + "%"));
    query.add("limit", &NAMES_MAX.to_string());
    offered(&start, async |client| {
        let metrics = client.get_json(query.finish()).await?;
        Ok(texts(&metrics, "name"))
    })
}

/// Ids of resources, as they were made.
pub fn resource_ids(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    if start.contains(['"', '\\']) {
        return Vec::new();
    }
    let mut query = Query::new("/v1/search/resource/generic");
    query.add("filter", &format!("original_resource_id like \"{}%\"", pattern(&start)));
    query.add("limit", &NAMES_MAX.to_string());
    offered(&start, async |client| {
        let resources = client.post_json_page(query.finish(), None).await?.value;
        Ok(texts(&resources, "original_resource_id"))
    })
}

/// Names of resource types.
pub fn resource_types(current: &OsStr) -> Vec<CompletionCandidate> {
    listed(current, "/v1/resource_type")
}

/// Names of archive policies.
pub fn archive_policies(current: &OsStr) -> Vec<CompletionCandidate> {
    listed(current, "/v1/archive_policy")
}

fn listed(current: &OsStr, path: &str) -> Vec<CompletionCandidate> {
    offered(&current.to_string_lossy(), async |client| {
        Ok(texts(&client.get_json(path.to_owned()).await?, "name"))
    })
}

/// Aggregation methods; nobody is asked for them.
pub fn aggregations(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let methods = AggregationMethod::all().map(|method| method.to_string());
    methods.filter(|name| name.starts_with(&*start)).map(CompletionCandidate::new).collect()
}

/// The names that a field of the items has.
fn texts(items: &Value, field: &str) -> BTreeSet<String> {
    let items = items.as_array().into_iter().flatten();
    items.filter_map(|item| item.get(field)?.as_str()).map(str::to_owned).collect()
}

/// Those of the names that the server answers with which begin so; none where it does not answer.
fn offered(
    start: &str,
    ask: impl AsyncFnOnce(&Client) -> Result<BTreeSet<String>>,
) -> Vec<CompletionCandidate> {
    let asked = || -> Result<BTreeSet<String>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let answer = async { ask(&server()?.connect_within(ANSWER_TIMEOUT).await?).await };
            tokio::time::timeout(ANSWER_TIMEOUT, answer).await?
        })
    };
    let names = asked().unwrap_or_default().into_iter();
    // A shell takes a word for several where it has blanks, and an id stands for such a metric as well.
    let can_be_typed = |name: &String| {
        name.starts_with(start) && !name.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    names.filter(can_be_typed).map(CompletionCandidate::new).collect()
}

/// The server that the words name which have been typed so far.
fn server() -> Result<ServerArgs> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let command = command_line::command().ignore_errors(true);
    let matches = command.try_get_matches_from(command_line::arranged(words.collect()))?;
    let mut innermost = &matches;
    while let Some((_, matches)) = innermost.subcommand() {
        innermost = matches;
    }
    Ok(ServerArgs::from_arg_matches(innermost)?)
}

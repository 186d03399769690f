//! `gnudi completion bash|zsh|fish`, and the completion of names, which the server lists.
//!
//! The script calls this program for every word (`GNUDI_COMPLETE=bash gnudi -- gnudi metric show cp`); clap's engine
//! determines the argument. If the server does not respond quickly, no names are offered.

use std::{collections::BTreeSet, ffi::OsStr, io::IsTerminal as _, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Args, FromArgMatches as _};
use clap_complete::{
    CompletionCandidate,
    env::{CompleteEnv, Shells},
};
use gnudi_client::{Client, uri::Query};
use gnudi_endpoint::{ServerArgs, output};
use gnudi_model::AggregationMethod;
use serde_json::Value;

use super::metric::pattern;
use crate::{
    command_line,
    commands::{messages::note, own_thread},
};

/// Set when a shell asks for completions.
const VARIABLE: &str = "GNUDI_COMPLETE";

/// Short, since a user waits for the key that was pressed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of names offered.
const NAMES_MAX: usize = 100;

#[derive(Clone, Debug, Args)]
pub struct Completion {
    /// The shell.
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// Prints the completion script for a shell.
pub fn run(args: &Completion) -> Result<()> {
    let mut script = Vec::new();
    Shells::builtins().completer(&args.shell).context("unknown shell")?.write_registration(
        VARIABLE,
        command_line::NAME,
        command_line::NAME,
        &program(),
        &mut script,
    )?;
    output::put(&String::from_utf8_lossy(&script))?;
    if std::io::stdout().is_terminal() {
        note("This script is read by the shell: docs/terminal.md says where to put it.");
    }
    Ok(())
}

/// How the script calls this program: by name if that is in the shell's path, else by its full path.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let is_path = Path::new(&called).components().count() > 1;
    let own = std::env::current_exe().ok().filter(|_| is_path);
    own.map_or_else(|| command_line::NAME.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Answers a completion request of a shell and exits.
pub fn complete_if_requested() {
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

/// Ids of resources, in their original form.
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

/// Aggregation methods; no request is needed.
pub fn aggregations(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let methods = AggregationMethod::all().map(|method| method.to_string());
    methods.filter(|name| name.starts_with(&*start)).map(CompletionCandidate::new).collect()
}

/// The values of a field of the items.
fn texts(items: &Value, field: &str) -> BTreeSet<String> {
    let items = items.as_array().into_iter().flatten();
    items.filter_map(|item| item.get(field)?.as_str()).map(str::to_owned).collect()
}

/// The server's names with this prefix; none if it does not respond.
fn offered(
    start: &str,
    ask: impl AsyncFnOnce(&Client) -> Result<BTreeSet<String>>,
) -> Vec<CompletionCandidate> {
    let asked = || -> Result<BTreeSet<String>> {
        own_thread()?.block_on(async {
            let answer = async { ask(&server()?.connect_within(ANSWER_TIMEOUT).await?).await };
            tokio::time::timeout(ANSWER_TIMEOUT, answer).await?
        })
    };
    let names = asked().unwrap_or_default().into_iter();
    // A shell splits words with blanks; such a metric can be given by its id.
    let can_be_typed = |name: &String| {
        name.starts_with(start) && !name.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    names.filter(can_be_typed).map(CompletionCandidate::new).collect()
}

/// The server selected by the words typed so far.
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

//! `gnudi agent aside ...`: manages the broker queue of notifications that could not be published.

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use gnudi_endpoint::output::{Cell, Listing, Output, Record};
use gnudi_telemetry::{
    messaging::{AmqpOutbox, browser::Browser},
    notification::aside::Aside,
};

use super::{broker, notification};
use crate::{
    commands::messages::say,
    config::{Config, Project},
    logging,
    program_args::ProgramArgs,
};

/// Maximum bytes of a message that `show` prints.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// `gnudi agent aside`
#[derive(Clone, Debug, Subcommand)]
pub enum AsideCommand {
    /// List the messages set aside, with their reasons, oldest first.
    List(List),
    /// Show one message.
    Show(Show),
    /// Move messages back to their original queues, so that the agent processes them again.
    Replay(SelectedMessages),
    /// Delete messages for good.
    Drop(SelectedMessages),
}

#[derive(Clone, Debug, Args)]
pub struct List {
    #[command(flatten)]
    which: MessageFilter,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    program: ProgramArgs,
}

#[derive(Clone, Debug, Args)]
pub struct Show {
    /// Id of the message, as `list` shows it.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    program: ProgramArgs,
}

#[derive(Clone, Debug, Args)]
pub struct SelectedMessages {
    /// Ids of messages, as `list` shows them.
    #[arg(value_name = "ID", required_unless_present_any = ["all", "reason", "queue"], conflicts_with = "all")]
    ids: Vec<String>,
    /// All messages.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    which: MessageFilter,
    #[command(flatten)]
    program: ProgramArgs,
}

#[derive(Clone, Debug, Default, Args)]
struct MessageFilter {
    /// Only messages whose reason contains this text.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only messages from this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
}

impl MessageFilter {
    fn matches(&self, aside: &Aside) -> bool {
        self.reason.as_ref().is_none_or(|text| aside.reason.contains(text.as_str()))
            && self.queue.as_ref().is_none_or(|queue| aside.queue == *queue)
    }
}

pub fn run(command: &AsideCommand) -> Result<()> {
    match command {
        AsideCommand::List(list) => list.run(),
        AsideCommand::Show(show) => show.run(),
        AsideCommand::Replay(selected) => selected.run(MessageAction::Replay),
        AsideCommand::Drop(selected) => selected.run(MessageAction::Drop),
    }
}

impl List {
    fn run(&self) -> Result<()> {
        let mut rows = Vec::new();
        walk(&self.program, async |_, aside| {
            if self.which.matches(&aside) {
                rows.push(row(&aside));
            }
            Ok(())
        })?;
        let columns = COLUMNS.map(str::to_owned).to_vec();
        self.output.print_listing(Listing { columns, rows })
    }
}

const COLUMNS: [&str; 7] = ["id", "time", "queue", "event_type", "bytes", "tries", "reason"];

fn row(aside: &Aside) -> Vec<Cell> {
    let event_type = aside.event_type().unwrap_or_default();
    let bytes = Cell::from(aside.held.body.len() as u64);
    let [id, time, queue] = [&aside.id, &aside.time, &aside.queue].map(|text| Cell::from(text.as_str()));
    let [event_type, tries, reason] =
        [&event_type, &aside.tries, &aside.reason].map(|text| Cell::from(text.as_str()));
    vec![id, time, queue, event_type, bytes, tries, reason]
}

impl Show {
    fn run(&self) -> Result<()> {
        let mut found = None;
        walk(&self.program, async |_, aside| {
            if aside.id == self.id {
                found.get_or_insert(aside);
            }
            Ok(())
        })?;
        let Some(aside) = found else { bail!("the aside queue has no message {}", self.id) };
        let mut record: Record = COLUMNS.map(str::to_owned).into_iter().zip(row(&aside)).collect();
        let mut text = aside.text();
        if text.len() > SHOWN_BYTES_MAX {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
            text.push_str("...");
        }
        record.push(("message".to_owned(), text.as_str().into()));
        self.output.print_record(record)
    }
}

/// The action on the selected messages.
#[derive(Clone, Copy)]
enum MessageAction {
    Replay,
    Drop,
}

impl SelectedMessages {
    fn run(&self, action: MessageAction) -> Result<()> {
        let (mut done, mut failures) = (0, Vec::new());
        let mut missing: Vec<&String> = self.ids.iter().collect();
        walk(&self.program, async |browser, aside| {
            let is_named = self.ids.is_empty() || self.ids.contains(&aside.id);
            if !is_named || !self.which.matches(&aside) {
                return Ok(());
            }
            missing.retain(|id| **id != aside.id);
            match action {
                MessageAction::Drop => browser.remove(&aside.held).await?,
                MessageAction::Replay => {
                    if let Err(error) = aside.replay(browser).await {
                        failures.push(format!("{}: {error}", aside.id));
                        return Ok(());
                    }
                }
            }
            done += 1;
            Ok(())
        })?;
        let word = match action {
            MessageAction::Replay => "replayed",
            MessageAction::Drop => "dropped",
        };
        say(format_args!("{done} {word}"));
        failures.extend(missing.iter().map(|id| format!("{id}: the aside queue has no such message")));
        if failures.is_empty() { Ok(()) } else { bail!("{}", failures.join("\n")) }
    }
}

/// Visits each message; those that `visit` neither removes nor replays stay in the queue.
fn walk(program: &ProgramArgs, mut visit: impl AsyncFnMut(&Browser, Aside) -> Result<()>) -> Result<()> {
    let config = Config::load_project(Project::Ceilometer, program)?;
    logging::start_quietly(program, &config);
    let queue = notification::aside_options(&config)?.queue;
    let broker = broker::aside_broker(&config, &format!("gnudi agent aside on {}", super::host(&config)))?;
    crate::commands::runtime(&config, "aside", Some(1))?.block_on(async {
        let outbox = AmqpOutbox::new(broker);
        let browser = Browser::open(&outbox, &queue).await;
        let Some(mut browser) = browser.context("the broker of what was set aside")? else { return Ok(()) };
        let outcome = async {
            while let Some(held) = browser.next().await? {
                visit(&browser, Aside::new(held)).await?;
            }
            anyhow::Ok(())
        };
        let outcome = outcome.await;
        browser.close().await;
        outbox.close().await;
        outcome
    })
}

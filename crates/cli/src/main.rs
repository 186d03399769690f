//! gnudi, the one binary: reads the command line and the configuration, selects the drivers, and runs the command.

mod allocator;
mod args;
mod command_line;
mod commands;
mod config;
mod figures;
mod keystone;
mod logging;
mod process_figures;
mod program_args;
mod service_manager;
mod stacks;
mod store;

use std::process::ExitCode;

use args::{AgentCommand, Command, ExportCommand, ImportCommand};
use commands::serve::Role;

/// Exit status of a command that has failed.
const FAILED: u8 = 1;
/// The same for commands that look for differences or damage, where 1 means that there are some.
const UNDECIDED: u8 = 2;

fn main() -> ExitCode {
    allocator::use_small_pages();
    commands::client::completion::complete_if_requested();
    let cli = match command_line::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own text, also for `--help` and `--version`.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if consumes_messages(&cli.command) {
        stacks::fit_messages();
    }
    // The benchmark installs handlers of its own.
    if !matches!(cli.command, Command::Benchmark(_))
        && let Err(error) = commands::end_at_signals()
    {
        logging::log_failure(&format!("stop signals have no effect: {error}"));
    }
    let outcome = match cli.command {
        Command::Serve(args) => commands::serve::run(&args, Role::Everything),
        Command::Api(args) => commands::serve::run(&args, Role::Api),
        Command::Metricd(args) => commands::metricd::run(&args),
        Command::Upgrade(args) => commands::upgrade::run(&args),
        Command::Status(args) => return commands::status::run(&args),
        Command::Metric(command) => commands::client::metric::run(&command),
        Command::Measures(command) => commands::client::measures::run(&command),
        Command::Resource(command) => commands::client::resource::run(&command),
        Command::Aggregates(args) => commands::client::aggregates::run(&args),
        Command::Completion(args) => commands::client::completion::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::SplitSacks(args) => commands::split_sacks::run(&args),
        Command::ChangeSackSize(args) => commands::split_sacks::run_to_size(&args),
        Command::Statsd(args) => commands::collectors::run_statsd(&args),
        Command::Amqpd(args) => commands::collectors::run_amqpd(&args),
        Command::Benchmark(benchmark) => return ended(benchmark.run(), FAILED),
        Command::Profile(args) => commands::profile::run(&args),
        Command::Backup(args) => commands::backup::run(&args),
        Command::Restore(args) => commands::backup::run_restore(&args),
        Command::Import(ImportCommand::Gnocchi(args)) => commands::import::run(&args),
        Command::Import(ImportCommand::Verify(args)) => {
            return ended(commands::import_verify::run(&args), UNDECIDED);
        }
        Command::Export(ExportCommand::Gnocchi(args)) => commands::export::run(&args),
        Command::Export(ExportCommand::Post(args)) => commands::export_post::run(&args),
        Command::Move(args) => commands::move_aggregates::run(&args),
        Command::Verify(args) => return ended(commands::verify::run(&args), UNDECIDED),
        Command::Passwd(args) => commands::passwd::run(&args),
        Command::Agent(AgentCommand::Notification(args)) => commands::agent::notification::run(&args),
        Command::Agent(AgentCommand::Polling(args)) => commands::agent::polling::run(&args),
        Command::Agent(AgentCommand::Upgrade(args)) => commands::agent::upgrade::run(&args),
        Command::Agent(AgentCommand::Aside(command)) => commands::agent::aside::run(&command),
        Command::Config(args) => commands::config::run(&args),
        Command::ConfigGenerator(args) => commands::config::generate(&args),
        Command::Inject(args) => commands::inject::run(&args),
        Command::Symbols => {
            gnudi_api::look_up_symbols(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Into::into)
        }
    };
    ended(outcome.map(|()| 0), FAILED)
}

/// Whether the command takes messages from a broker that anybody may have published.
fn consumes_messages(command: &Command) -> bool {
    match command {
        Command::Agent(AgentCommand::Notification(_) | AgentCommand::Aside(_)) => true,
        Command::Serve(args) | Command::Api(args) => args.with.iter().any(|name| name == "notification"),
        _ => false,
    }
}

/// The exit status of a command: the one that it returns, or `failed` with the reason in the log.
fn ended(outcome: anyhow::Result<u8>, failed: u8) -> ExitCode {
    ExitCode::from(outcome.unwrap_or_else(|error| {
        logging::log_failure(&gnudi_http::with_causes(&*error));
        failed
    }))
}

//! The benchmark: a load generator that drives any server which speaks Gnocchi's API, the peers to compare with, and a report.
//!
//! A run starts each server with an empty store, gives all of them the same work, and prints what they made of it beside
//! what the generator itself can do (the peer `limit`). It measures, and asserts nothing about speed; it does check
//! that measures which were counted as processed are really there.

mod body;
mod histogram;
mod load;
mod measurement;
mod noop;
mod options;
mod peers;
mod process;
mod report;
mod rows;
mod table;

use anyhow::Result;
pub use options::{Options, Scale};
pub use peers::Peer;

/// Runs the benchmark and prints its report; an error says what did not work.
pub fn run(options: Options) -> Result<()> {
    let leftovers = peers::child::Leftovers::default();
    let mut bench = rows::Bench::new(options, leftovers.clone())?;
    let cleaner = leftovers.clone();
    // An interrupted run leaves no server behind.
    bench.runtime.spawn(async move {
        if interrupted().await.is_ok() {
            cleaner.clean();
            std::process::exit(130);
        }
    });
    println!("{}", report::preface(&bench.options));
    let outcome = bench.run();
    report::write(&bench)?;
    println!("{}", report::ending(&bench));
    outcome
}

async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

//! `gnudi-benchmark`: measures gnudi beside the servers that it is compared with, and writes the report.
//!
//! A run starts each server with an empty store, gives all of them the same work, and prints the results, beside the
//! limit of the load generator itself (the peer `limit`). It makes no assertions about speed, but checks that measures
//! counted as processed are really stored.

mod body;
mod commands;
mod context;
mod disk;
mod documents;
mod experiments;
mod machine;
mod measurement;
mod page;
mod peers;
mod process;
mod results;
mod rows;
mod sheet;
mod spread;
mod table;

use std::process::ExitCode;

use clap::Parser as _;
use gnudi_bench::{findings, format, histogram, load, noop};

/// The allocator of gnudi, so that the load generator is as fast as inside `gnudi`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::Benchmark::parse().run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("gnudi-benchmark: {}", gnudi_client::with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

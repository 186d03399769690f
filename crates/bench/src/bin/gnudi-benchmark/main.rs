//! `gnudi-benchmark`: measures gnudi beside the servers that it is compared with, and writes the report.
//!
//! A run starts each server with an empty store, gives all of them the same work, and prints what they made of it beside
//! what the generator itself can do (the peer `limit`). It measures, and asserts nothing about speed; it does check
//! that measures which were counted as processed are really there.

mod backlog;
mod body;
mod commands;
mod context;
mod disk;
mod experiments;
mod machine;
mod measurement;
mod page;
mod peers;
mod plot;
mod process;
mod rados;
mod results;
mod rows;
mod spread;
mod table;
mod versions;

use std::process::ExitCode;

use clap::Parser as _;
use gnudi_bench::{findings, format, histogram, load, noop, timeline};

/// That of gnudi: the load generator is as fast as within it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::Benchmark::parse().run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("gnudi-benchmark: {}", gnudi_bench::complaint::of(&error));
            ExitCode::FAILURE
        }
    }
}

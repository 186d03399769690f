//! The benchmark's own program.

use clap::Parser;

#[derive(Parser)]
#[command(name = "gnudi-bench", version, about)]
struct CommandLine {
    #[command(flatten)]
    options: gnudi_bench::Options,
}

fn main() -> anyhow::Result<()> {
    gnudi_bench::run(CommandLine::parse().options)
}

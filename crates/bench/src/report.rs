//! What a run says of itself, on the terminal and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::{measurement::Measurement, options::Options, peers::Peer, rows::Bench};

/// The machine that a run happened on.
#[derive(Debug, Serialize)]
struct Machine {
    processors: usize,
    processor: String,
    kernel: String,
    memory: String,
}

impl Machine {
    fn here() -> Self {
        let line_of = |path: &str, name: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processor: line_of("/proc/cpuinfo", "model name"),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            memory: line_of("/proc/meminfo", "MemTotal"),
        }
    }
}

/// Before the first row: the machine, and what each server promises.
pub fn preface(options: &Options) -> String {
    let machine = Machine::here();
    let mut text = format!(
        "{} processors ({}), {}, Linux {}; load generator included.\nWhat an accepted request is worth:\n",
        machine.processors, machine.processor, machine.memory, machine.kernel
    );
    for peer in &options.peers {
        text += "  ";
        text += peer.name();
        text += ": ";
        text += peer.durability();
        text.push('\n');
    }
    text += "cpu: processor seconds during the row, of the server with all its processes and of the load generator;\n\
             per cpu s: work for each of the server's processor seconds, which a busy machine disturbs least.\n";
    text
}

/// Behind the last row.
pub fn ending(bench: &Bench) -> String {
    let missing =
        bench.missing.iter().map(|(peer, reason)| format!("{} was not measured: {reason}\n", peer.name()));
    format!("{}results: {}", missing.collect::<String>(), bench.options.output.display())
}

#[derive(Serialize)]
struct Results<'a> {
    /// Unix seconds.
    written_at: u64,
    machine: Machine,
    scale: &'static str,
    servers: Vec<ServerNote>,
    measurements: &'a [Measurement],
}

#[derive(Serialize)]
struct ServerNote {
    name: &'static str,
    durability: &'static str,
    /// Why it was not measured.
    missing: Option<String>,
}

/// Writes the results to their file.
pub fn write(bench: &Bench) -> Result<()> {
    let note = |peer: &Peer| ServerNote {
        name: peer.name(),
        durability: peer.durability(),
        missing: bench.missing.iter().find(|(missing, _)| missing == peer).map(|(_, reason)| reason.clone()),
    };
    let results = Results {
        written_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: Machine::here(),
        scale: match bench.options.scale {
            crate::options::Scale::Small => "small",
            crate::options::Scale::Full => "full",
        },
        servers: bench.options.peers.iter().map(note).collect(),
        measurements: &bench.measurements,
    };
    let path = &bench.options.output;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    std::fs::write(path, serde_json::to_vec_pretty(&results)?).with_context(|| path.display().to_string())
}

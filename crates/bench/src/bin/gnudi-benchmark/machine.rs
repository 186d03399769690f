//! The machine of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Machine {
    pub processors: usize,
    pub processor: String,
    pub kernel: String,
    pub memory: String,
}

impl Machine {
    pub fn here() -> Self {
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

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processors, processor, kernel, memory } = self;
        write!(out, "{processors} processors ({processor}), {memory}, Linux {kernel}")
    }
}

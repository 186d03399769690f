//! Processor time and memory of the servers and of this process, from `/proc`.

use std::{collections::HashSet, fs};

/// `/proc` counts processor time in hundredths of a second on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// The processes to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// These processes and all their descendants.
    Processes(Vec<u32>),
    /// A thread of this process.
    Thread(u32),
    /// A server elsewhere.
    Unknown,
}

impl Probe {
    /// Processor seconds so far, including ended descendants; `None` if unknown.
    pub fn cpu_seconds(&self) -> Option<f64> {
        match self {
            Probe::Processes(roots) => {
                Some(descendants(roots).iter().filter_map(|&pid| process_seconds(pid)).sum())
            }
            Probe::Thread(id) => {
                stat_of(&format!("/proc/self/task/{id}/stat")).map(|stat| stat.own_seconds())
            }
            Probe::Unknown => None,
        }
    }

    /// Memory in bytes; shared memory counts once.
    pub fn memory_bytes(&self) -> Option<u64> {
        match self {
            Probe::Processes(roots) => {
                Some(descendants(roots).iter().filter_map(|&pid| memory_bytes(pid)).sum())
            }
            Probe::Thread(_) | Probe::Unknown => None,
        }
    }

    /// Bytes that its running processes have written to files; `None` if unknown.
    pub fn written_bytes(&self) -> Option<u64> {
        let Probe::Processes(roots) = self else { return None };
        descendants(roots)
            .iter()
            .map(|pid| {
                let counters = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
                counters.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse::<u64>().ok()
            })
            .sum()
    }
}

/// Processor seconds of this process so far.
pub fn own_cpu_seconds() -> f64 {
    stat_of("/proc/self/stat").map_or(0.0, |stat| stat.own_seconds())
}

#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
    /// User, system, and both of reaped children; in ticks.
    times: [u64; 4],
}

impl Stat {
    fn own_seconds(&self) -> f64 {
        (self.times[0] + self.times[1]) as f64 / TICKS_PER_SECOND
    }
}

/// Parses `/proc/PID/stat`: the name, in parentheses, may contain anything, so parsing starts after the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(") ")?.1.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let mut times = [0; 4];
    let mut fields = fields.skip(9);
    for time in &mut times {
        *time = fields.next()?.parse().ok()?;
    }
    Some(Stat { parent, times })
}

fn stat_of(path: &str) -> Option<Stat> {
    parse_stat(&fs::read_to_string(path).ok()?)
}

fn process_seconds(pid: u32) -> Option<f64> {
    let stat = stat_of(&format!("/proc/{pid}/stat"))?;
    Some(stat.times.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// The proportional set size if available, else the resident set size.
fn memory_bytes(pid: u32) -> Option<u64> {
    let proportional = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    proportional
        .and_then(|text| kilobytes(&text, "Pss:"))
        .or_else(|| kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:"))
        .map(|kilobytes| kilobytes * 1024)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The roots and all their descendants.
fn descendants(roots: &[u32]) -> HashSet<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, stat_of(&format!("/proc/{pid}/stat"))?.parent)))
        .collect();
    let mut found: HashSet<u32> = roots.iter().copied().collect();
    loop {
        let is_new = |(pid, parent): &&(u32, u32)| found.contains(parent) && !found.contains(pid);
        let children: Vec<u32> = parents.iter().filter(is_new).map(|&(pid, _)| pid).collect();
        if children.is_empty() {
            return found;
        }
        found.extend(children);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_stat_line_with_an_odd_name() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 5 6";
        assert_eq!(parse_stat(line), Some(Stat { parent: 7, times: [11, 12, 13, 14] }));
        assert_eq!(parse_stat("42 (x) S 7"), None);
    }

    #[test]
    fn reads_memory_lines() {
        assert_eq!(kilobytes("Rss:  8 kB\nPss:   123 kB\n", "Pss:"), Some(123));
        assert_eq!(kilobytes("Pss:   many kB\n", "Pss:"), None);
    }

    #[test]
    fn knows_this_process_and_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = descendants(&[std::process::id()]);
        assert!(found.contains(&child.id()) && found.contains(&std::process::id()));
        let probe = Probe::Processes(vec![child.id()]);
        assert!(probe.memory_bytes().is_some_and(|bytes| bytes > 0));
        assert!(probe.cpu_seconds().is_some_and(|seconds| seconds < 1.0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Probe::Unknown.cpu_seconds(), None);
    }
}

//! Parses `/proc` files into named values. Unexpected lines are skipped.

use std::collections::BTreeMap;

/// The sector size of `/proc/diskstats`, whatever the disk's own.
const SECTOR_BYTES: f64 = 512.0;

/// One sample of the machine: values by metric name.
pub type Reading = BTreeMap<String, f64>;

/// Processor time since boot by state, in ticks: user, nice, system, idle, wait, interrupt, steal. Percentages are of the
/// difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; 7]);

impl Counters {
    /// From `/proc/stat`.
    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let &[user, nice, system, idle, wait, hard, soft, steal, ..] = ticks.as_slice() else { return None };
        Some(Counters([user, nice, system, idle, wait, hard + soft, steal]))
    }

    /// Percentages of the time since `before`; nothing if no time has passed. Linux may set the time of waiting, and of
    /// idling, back by a little: that is none.
    pub fn percentages(&self, before: &Counters, reading: &mut Reading) {
        let passed: [u64; 7] = std::array::from_fn(|state| self.0[state].saturating_sub(before.0[state]));
        let total: u64 = passed.iter().sum();
        if total == 0 {
            return;
        }
        let percentages = passed.map(|ticks| ticks as f64 * 100.0 / total as f64);
        let [user, nice, system, idle, wait, interrupt, _steal] = percentages;
        for (name, value) in [
            ("hardware.cpu.util", 100.0 - (idle + wait)),
            ("hardware.cpu.user.percentage", user),
            ("hardware.cpu.nice.percentage", nice),
            ("hardware.cpu.system.percentage", system),
            ("hardware.cpu.idle.percentage", idle),
            ("hardware.cpu.wait.percentage", wait),
            ("hardware.cpu.interrupt.percentage", interrupt),
        ] {
            reading.insert(name.to_owned(), value);
        }
    }
}

/// Load averages from `/proc/loadavg`.
pub fn load(loadavg: &str, reading: &mut Reading) {
    let names = ["hardware.cpu.load.1min", "hardware.cpu.load.5min", "hardware.cpu.load.15min"];
    let words = names.into_iter().zip(loadavg.split_ascii_whitespace());
    reading.extend(words.filter_map(|(name, word)| Some((name.to_owned(), word.parse().ok()?))));
}

/// Memory in kB from `/proc/meminfo`.
pub fn memory(meminfo: &str, reading: &mut Reading) {
    let fields: BTreeMap<&str, f64> = meminfo
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            Some((name, rest.split_ascii_whitespace().next()?.parse().ok()?))
        })
        .collect();
    let get = |name| fields.get(name).copied();
    let values = [
        ("hardware.memory.total", get("MemTotal")),
        ("hardware.memory.used", get("MemTotal").zip(get("MemAvailable")).map(|(all, free)| all - free)),
        ("hardware.memory.buffer", get("Buffers")),
        ("hardware.memory.cached", get("Cached")),
        ("hardware.memory.swap.total", get("SwapTotal")),
        ("hardware.memory.swap.avail", get("SwapFree")),
    ];
    reading.extend(values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
}

/// Bytes and requests since boot of each disk in `/proc/diskstats`; loop and RAM disks are left out.
pub fn disks(diskstats: &str, reading: &mut Reading) {
    for line in diskstats.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, _, device, reads, _, sectors_read, _, writes, _, sectors_written, ..] = words.as_slice()
        else {
            continue;
        };
        if device.starts_with("loop") || device.starts_with("ram") {
            continue;
        }
        for (name, word, factor) in [
            ("hardware.disk.read.requests", reads, 1.0),
            ("hardware.disk.read.bytes", sectors_read, SECTOR_BYTES),
            ("hardware.disk.write.requests", writes, 1.0),
            ("hardware.disk.write.bytes", sectors_written, SECTOR_BYTES),
        ] {
            if let Ok(value) = word.parse::<f64>() {
                reading.insert(device_metric(name, device), value * factor);
            }
        }
    }
}

/// Bytes, packets, errors and drops since boot of each interface in `/proc/net/dev`.
pub fn network(dev: &str, reading: &mut Reading) {
    for line in dev.lines().skip(2) {
        let Some((interface, rest)) = line.split_once(':') else { continue };
        let counts: Vec<f64> = rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        if counts.len() < 12 {
            continue;
        }
        for (name, index) in [
            ("hardware.network.incoming.bytes", 0),
            ("hardware.network.incoming.packets", 1),
            ("hardware.network.incoming.errors", 2),
            ("hardware.network.incoming.drop", 3),
            ("hardware.network.outgoing.bytes", 8),
            ("hardware.network.outgoing.packets", 9),
            ("hardware.network.outgoing.errors", 10),
            ("hardware.network.outgoing.drop", 11),
        ] {
            reading.insert(device_metric(name, interface.trim()), counts[index]);
        }
    }
}

/// Metric names hold no slash.
fn device_metric(name: &str, device: &str) -> String {
    format!("{name}.{}", device.replace('/', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_add_up() {
        let before = Counters::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n").unwrap();
        let after = Counters::parse("cpu  130 10 120 900 20 5 5 10 0 0\n").unwrap();
        let mut reading = Reading::new();
        after.percentages(&before, &mut reading);
        assert_eq!(reading["hardware.cpu.user.percentage"], 15.0);
        assert_eq!(reading["hardware.cpu.idle.percentage"], 50.0);
        assert_eq!(reading["hardware.cpu.util"], 40.0);
        let count = reading.len();
        after.percentages(&after, &mut reading);
        assert_eq!(reading.len(), count);
    }

    #[test]
    fn a_time_that_was_set_back_is_none() {
        let before = Counters::parse("cpu  100 0 100 800 50 0 0 0 0 0\n").unwrap();
        let after = Counters::parse("cpu  110 0 100 890 40 0 0 0 0 0\n").unwrap();
        let mut reading = Reading::new();
        after.percentages(&before, &mut reading);
        assert_eq!(reading["hardware.cpu.idle.percentage"], 90.0);
        assert_eq!(reading["hardware.cpu.wait.percentage"], 0.0);
        assert_eq!(reading["hardware.cpu.util"], 10.0);
    }

    #[test]
    fn reads_memory_load_disks_and_network() {
        let mut reading = Reading::new();
        memory("MemTotal: 1000 kB\nMemAvailable: 400 kB\nnonsense\nSwapTotal: 0 kB\n", &mut reading);
        load("0.10 0.20 0.30 1/100 4242\n", &mut reading);
        disks(
            " 254 0 vda 10 0 20 0 30 0 40 0 0 0 0\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n garbage\n",
            &mut reading,
        );
        let header = "Inter-|   Receive\n face |bytes\n";
        network(&format!("{header}  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"), &mut reading);
        assert_eq!(reading["hardware.memory.used"], 600.0);
        assert_eq!(reading["hardware.cpu.load.15min"], 0.3);
        assert_eq!(reading["hardware.disk.write.bytes.vda"], 20_480.0);
        assert_eq!(reading["hardware.network.outgoing.bytes.eth0"], 9.0);
        assert!(!reading.keys().any(|name| name.contains("loop0")));
    }
}

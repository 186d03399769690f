//! Metrics of this process: runtime threads, memory, processor time.

use std::{fmt, fs};

use gnudi_telemetry::figures::{counter, gauge};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use tokio::runtime::{Handle, RuntimeMetrics};

/// `/proc` counts processor time in hundredths of a second on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the runtimes and `/proc` at each scrape.
#[derive(Debug)]
pub struct ProcessFigures {
    /// With the names of their threads.
    runtimes: Vec<(&'static str, Handle)>,
}

impl ProcessFigures {
    pub fn of(runtimes: Vec<(&'static str, Handle)>) -> Self {
        ProcessFigures { runtimes }
    }
}

/// Reads a figure of a runtime.
type Reading = fn(&RuntimeMetrics) -> f64;

/// The figures of runtimes: name, help, kind.
const OF_RUNTIMES: [(&str, &str, MetricType, Reading); 5] = [
    (
        "gnudi_runtime_busy_seconds",
        "Time that threads spent running tasks, in seconds",
        MetricType::Counter,
        |metrics| of_threads(metrics, |thread| metrics.worker_total_busy_duration(thread).as_secs_f64()),
    ),
    ("gnudi_runtime_parks", "Times that a thread parked for lack of tasks", MetricType::Counter, |metrics| {
        of_threads(metrics, |thread| metrics.worker_park_count(thread) as f64)
    }),
    ("gnudi_runtime_threads", "Threads that run tasks", MetricType::Gauge, |metrics| {
        metrics.num_workers() as f64
    }),
    ("gnudi_runtime_tasks", "Number of tasks", MetricType::Gauge, |metrics| metrics.num_alive_tasks() as f64),
    (
        "gnudi_runtime_tasks_waiting",
        "Tasks in the injection queue that all threads share",
        MetricType::Gauge,
        |metrics| metrics.global_queue_depth() as f64,
    ),
];

fn of_threads(metrics: &RuntimeMetrics, of_thread: impl Fn(usize) -> f64) -> f64 {
    (0..metrics.num_workers()).map(of_thread).sum()
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuntimeLabels {
    runtime: &'static str,
}

impl Collector for ProcessFigures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help, kind, value) in OF_RUNTIMES {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (runtime, handle) in &self.runtimes {
                let (labels, value) = (RuntimeLabels { runtime }, value(&handle.metrics()));
                let metric = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                    _ => ConstGauge::new(value).encode(metric)?,
                }
            }
        }
        // Left out if `/proc` is not available.
        if let Some(used) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Used::read(&text)) {
            let seconds = used.seconds;
            counter(&mut encoder, "gnudi_process_cpu_seconds", "Processor time used, in seconds", seconds)?;
            let help = "Minor page faults";
            counter(&mut encoder, "gnudi_process_page_faults", help, used.page_faults)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (key, name, help) in [
            ("VmRSS:", "gnudi_process_resident_bytes", "Memory in use"),
            ("VmHWM:", "gnudi_process_resident_peak_bytes", "Peak memory in use"),
        ] {
            if let Some(kilobytes) = value_of(&status, key) {
                gauge(&mut encoder, name, help, kilobytes * 1024.0)?;
            }
        }
        match value_of(&status, "Threads:") {
            Some(threads) => gauge(&mut encoder, "gnudi_process_threads", "Number of threads", threads),
            None => Ok(()),
        }
    }
}

/// Resources used since the process started.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Used {
    /// Processor time in user and kernel mode.
    seconds: f64,
    page_faults: f64,
}

impl Used {
    /// Parses `/proc/<pid>/stat`.
    fn read(text: &str) -> Option<Used> {
        // The program name is in parentheses and may contain anything.
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        // Numbered as in proc(5); the first field after the name is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let (minor, major) = (field(10)?, field(12)?);
        Some(Used { seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND, page_faults: minor + major })
    }
}

/// The number after a key of `/proc/<pid>/status`.
fn value_of(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1000 0 5 0 250 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(Used::read(text), Some(Used { seconds: 3.0, page_faults: 1005.0 }));
        assert_eq!(Used::read("7 (a) S 1"), None);
        let status = "Name:\tVmRSS: 1\nVmRSS:\t    12 kB\nThreads:\t9\n";
        assert_eq!((value_of(status, "VmRSS:"), value_of(status, "Threads:")), (Some(12.0), Some(9.0)));
        assert_eq!(value_of(status, "VmHWM:"), None);
    }

    fn idle_runtime() -> tokio::runtime::Runtime {
        let idle = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for _ in 0..1000 {
            if idle.metrics().worker_park_count(0) > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        idle
    }

    #[test]
    fn a_busy_runtime_shows_in_its_figures() {
        const BUSY: &str = "gnudi_runtime_busy_seconds_total{runtime=\"busy\"}";
        const TASKS: &str = "gnudi_runtime_tasks{runtime=\"busy\"}";
        let busy = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        // One whose thread has come to rest. One that stood still before that counts as busy.
        let idle = (0..20)
            .map(|_| idle_runtime())
            .find(|idle| idle.metrics().worker_total_busy_duration(0) < std::time::Duration::from_millis(40));
        let idle = idle.expect("a thread that rests");
        busy.block_on(async {
            let work = async {
                let end = std::time::Instant::now() + std::time::Duration::from_millis(50);
                while std::time::Instant::now() < end {}
                tokio::task::yield_now().await;
            };
            tokio::spawn(work).await.unwrap();
        });
        let waits = busy.spawn(std::future::pending::<()>());
        let mut registry = Registry::default();
        let runtimes = vec![("busy", busy.handle().clone()), ("idle", idle.handle().clone())];
        registry.register_collector(Box::new(ProcessFigures::of(runtimes)));
        let figure_in = |text: &str, name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
        };
        let mut text = String::new();
        // A thread updates its metrics shortly after a task has ended.
        for _ in 0..1000 {
            text.clear();
            encode(&mut text, &registry).unwrap();
            if figure_in(&text, BUSY) >= 0.04 && figure_in(&text, TASKS) == 1.0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let figure = |name: &str| figure_in(&text, name);
        assert!(figure(BUSY) >= 0.04, "{text}");
        assert!(figure("gnudi_runtime_busy_seconds_total{runtime=\"idle\"}") < 0.04, "{text}");
        assert_eq!(figure("gnudi_runtime_threads{runtime=\"busy\"}"), 3.0);
        assert_eq!(figure(TASKS), 1.0);
        assert_eq!(figure("gnudi_runtime_tasks{runtime=\"idle\"}"), 0.0);
        assert!(figure("gnudi_process_resident_bytes") > 1e6);
        assert!(figure("gnudi_process_resident_peak_bytes") >= figure("gnudi_process_resident_bytes"));
        assert!(figure("gnudi_process_threads") >= 4.0);
        assert!(figure("gnudi_process_page_faults_total") > 0.0);
        assert!(figure("gnudi_process_cpu_seconds_total") > 0.0);
        waits.abort();
    }
}

//! A measured phase of a command: a number of requests of one kind, the figures that gnocchiclient prints for them, and
//! whether the server or the generator was the bottleneck.
//!
//! For that, the same requests are then sent to a no-op server with equally large responses.

use std::{sync::atomic::AtomicU64, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gnudi_endpoint::ServerArgs;

use crate::{
    commands::{THREADS_MAX, WORKERS_MAX, up_to},
    context::Context,
    findings::{Findings, Value},
    load::{Keep, Load, Outcome, Requests, Until},
    noop::NoopServer,
    progress,
    target::Target,
};

/// Duration and repetitions of the calibration on the no-op server: the best one counts.
const CALIBRATION: Duration = Duration::from_millis(100);
const CALIBRATIONS: usize = 4;

/// The generator is busy from this share of its threads' time on.
const BUSY: f64 = 0.9;

/// From this share of the no-op server's rate on, the generator limits the result.
const NEAR_LIMIT: f64 = 0.8;

/// The server, and options of the load.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Number of workers: connections with one request in flight each [default: the number of processors].
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<WORKERS_MAX>)]
    pub workers: Option<u64>,
    /// Threads of the load generator.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = up_to::<THREADS_MAX>)]
    pub threads: u64,
    /// Skip the calibration of the load generator.
    #[arg(long)]
    pub no_calibration: bool,
}

impl LoadOptions {
    pub fn workers(&self) -> u64 {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        self.workers.unwrap_or_else(processors)
    }
}

#[derive(Debug)]
pub struct Phase<'a> {
    /// What a request does, in gnocchiclient's word: `create`.
    pub verb: &'static str,
    pub requests: &'a Requests,
    pub count: u64,
    pub keep: Keep,
}

#[derive(Debug)]
pub struct Finished {
    pub verb: &'static str,
    /// Number of requests to send.
    pub count: u64,
    pub workers: u64,
    pub threads: u64,
    pub outcome: Outcome,
    /// Requests per second of the same load on a no-op server.
    pub limit: Option<f64>,
    /// The server was the no-op server itself.
    pub on_noop: bool,
    /// The run was stopped before the end.
    pub interrupted: bool,
}

impl Phase<'_> {
    pub fn run(&self, options: &LoadOptions, target: &Target, context: &Context) -> Result<Finished> {
        let workers = options.workers();
        let done = AtomicU64::new(0);
        let load = Load {
            connections: workers as usize,
            threads: options.threads.min(workers) as usize,
            keep: self.keep,
            done: Some(&done),
            ..target.load(self.requests, Until::Count(self.count), &context.stop)
        };
        let run = || load.run();
        let outcome = if context.verbose { progress::show(&done, self.count, self.verb, run) } else { run() };
        let interrupted = context.stop.is_set() && outcome.executed() < self.count;
        let limit = match &outcome.sample {
            Some(sample) if !options.no_calibration && !context.stop.is_set() => {
                Some(calibrate(&load, sample).context("the no-op server")?)
            }
            _ => None,
        };
        let (threads, on_noop) = (load.threads as u64, target.is_noop());
        let Phase { verb, count, .. } = *self;
        Ok(Finished { verb, count, workers, threads, outcome, limit, on_noop, interrupted })
    }
}

/// Requests per second of the load on a server with this response body.
fn calibrate(load: &Load, answer: &[u8]) -> Result<f64> {
    let noop = NoopServer::answering(answer)?;
    let load = Load {
        address: noop.address,
        secured: None,
        until: Until::Elapsed(CALIBRATION),
        done: None,
        ..load.clone()
    };
    let rates = (0..CALIBRATIONS).map(|_| {
        let outcome = load.run();
        ratio(outcome.calls as f64, outcome.elapsed.as_secs_f64())
    });
    Ok(rates.fold(0.0, f64::max))
}

/// The bottleneck of a load that reached `rate` requests per second of a possible `limit`, with the shares of time that
/// the generator ran and waited for a processor.
fn bottleneck(rate: f64, limit: Option<f64>, (run, wait): (f64, f64)) -> &'static str {
    let near_limit = limit.is_some_and(|limit| rate >= NEAR_LIMIT * limit);
    if run >= BUSY || near_limit {
        GENERATOR
    } else if run + wait >= BUSY {
        PROCESSORS
    } else {
        SERVER
    }
}

const SERVER: &str = "server";
const GENERATOR: &str = "generator";
/// The generator was ready to run, but waited for a processor.
const PROCESSORS: &str = "processors";

impl Finished {
    /// Fails if no request succeeded, although some were completed.
    pub fn require_success(self) -> Result<Self> {
        match &self.outcome.failure {
            Some(failure) if self.outcome.calls == 0 => {
                bail!("none of the first {} requests succeeded: {failure}", self.outcome.failures)
            }
            _ => Ok(self),
        }
    }

    pub fn rate(&self) -> f64 {
        ratio(self.outcome.executed() as f64, self.outcome.elapsed.as_secs_f64())
    }

    /// gnocchiclient's speed: the rate of its workers if they never paused between requests.
    pub fn speed(&self) -> f64 {
        let cumulated = self.outcome.latency.sum().as_secs_f64();
        ratio((self.outcome.executed() * self.workers) as f64, cumulated)
    }

    /// The shares of time that the generator's threads ran, and waited for a processor.
    fn shares(&self) -> Option<(f64, f64)> {
        let times = self.outcome.times?;
        let all = self.outcome.elapsed.as_secs_f64() * self.threads as f64;
        Some((ratio(times.run.as_secs_f64(), all), ratio(times.wait.as_secs_f64(), all)))
    }

    pub fn bottleneck(&self) -> &'static str {
        if self.on_noop {
            return GENERATOR;
        }
        bottleneck(self.rate(), self.limit, self.shares().unwrap_or_default())
    }

    /// gnocchiclient's figures, with its names and in its order.
    pub fn add_client_figures(&self, findings: &mut Findings) {
        let (verb, outcome) = (self.verb, &self.outcome);
        // Phases of one command have the same workers, reported once.
        if findings.figures.is_empty() {
            findings.tell("client workers", Value::Count(self.workers));
        }
        findings.tell(format!("{verb} runtime"), Value::seconds(outcome.elapsed));
        findings.tell(format!("{verb} runtime (cumulated)"), Value::seconds(outcome.latency.sum()));
        findings.tell(format!("{verb} executed"), Value::Count(outcome.executed()));
        findings.compare(format!("{verb} speed"), Value::rate(self.speed(), verb));
        findings.tell(format!("{verb} failures"), Value::Count(outcome.failures));
        let failures = 100.0 * ratio(outcome.failures as f64, outcome.executed() as f64);
        findings.tell(format!("{verb} failures rate"), Value::Percent(failures));
        if outcome.latency.is_empty() {
            return;
        }
        let latency = &outcome.latency;
        let percentile = |share| latency.percentile(share);
        for (name, latency) in [
            ("min", latency.min()),
            ("max", latency.max()),
            ("mean", latency.mean()),
            ("median", percentile(0.5)),
            ("95%'ile", percentile(0.95)),
            ("99%'ile", percentile(0.99)),
            ("99.9%'ile", percentile(0.999)),
        ] {
            findings.compare(format!("{verb} latency {name}"), Value::Latency(latency.as_secs_f64()));
        }
    }

    /// Further figures, after all of gnocchiclient's.
    pub fn add_own_figures(&self, findings: &mut Findings) {
        let (verb, outcome) = (self.verb, &self.outcome);
        findings.compare(format!("{verb} rate"), Value::rate(self.rate(), verb));
        if outcome.refused > 0 {
            findings.tell(format!("{verb} refused for now"), Value::Count(outcome.refused));
        }
        if let Some(failure) = &outcome.failure {
            findings.tell(format!("{verb} first failure"), Value::Text(failure.clone()));
        }
        if let Some(limit) = self.limit {
            findings.tell(format!("{verb} generator limit"), Value::rate(limit, verb));
        }
        if let Some((run, wait)) = self.shares() {
            findings.tell(format!("{verb} generator cpu"), Value::Percent(100.0 * run));
            findings.tell(format!("{verb} generator waiting for cpu"), Value::Percent(100.0 * wait));
        }
        let bottleneck = self.bottleneck();
        findings.tell(format!("{verb} bottleneck"), Value::Text(bottleneck.to_owned()));
        if bottleneck == GENERATOR {
            findings.note(format!(
                "{verb}: the load generator, not the server, is the bottleneck: the server may be faster than this says (more \
                 --threads or --workers may tell)"
            ));
        } else if bottleneck == PROCESSORS {
            findings.note(format!(
                "{verb}: the load generator waited for a processor: with more of them, or less else to do, the server may be \
                 faster than this says"
            ));
        }
        if outcome.executed() < self.count {
            let why = if self.interrupted { "interrupted" } else { "the server stopped answering" };
            let so_far = format!("{why}: {} of {} {verb} requests", outcome.executed(), self.count);
            findings.partial.get_or_insert(so_far);
        }
    }
}

fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::load::{Headers, tests::serve};

    fn run(endpoint: &str, count: u64) -> Finished {
        let server =
            ServerArgs { endpoint: Some(endpoint.to_owned()), timeout: Some(60.0), ..ServerArgs::default() };
        let options = LoadOptions { server, workers: Some(4), threads: 1, no_calibration: false };
        let target = Target::open(&options.server).unwrap();
        let requests = Requests::listed(vec![Headers::new("h", "").bare("GET", "/v1/metric/x")]);
        let phase = Phase { verb: "show", requests: &requests, count, keep: Keep::Nothing };
        phase.run(&options, &target, &Context::new(false, || {}).unwrap()).unwrap()
    }

    #[test]
    fn a_slow_server_is_the_bottleneck_itself() {
        let (server, _) = serve(100, |_, mut stream| {
            while let Ok(1..) = stream.read(&mut [0; 4096]) {
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            }
        });
        let mut finished = run(&format!("http://{server}"), 40);
        // Where the machine stood still during the calibration the limit is low.
        for _ in 0..5 {
            if finished.limit.is_some_and(|limit| limit <= 2.0 * finished.rate()) {
                finished = run(&format!("http://{server}"), 40);
            }
        }
        // On an overloaded machine, it may be the processors.
        assert_ne!(finished.bottleneck(), GENERATOR, "{finished:?}");
        assert!(finished.limit.unwrap() > 2.0 * finished.rate(), "{finished:?}");
        // Four workers with requests of 20 ms; the client's speed excludes pauses between requests.
        assert!(finished.rate() <= 200.0 && finished.speed() <= 200.0, "{finished:?}");
        assert!(finished.speed() >= finished.rate() * 0.999, "{finished:?}");
    }

    #[test]
    fn verdicts() {
        for (rate, limit, shares, verdict) in [
            (79.0, Some(100.0), (0.2, 0.1), SERVER),
            (80.0, Some(100.0), (0.2, 0.1), GENERATOR),
            (10.0, Some(100.0), (0.9, 0.0), GENERATOR),
            (10.0, None, (0.5, 0.4), PROCESSORS),
            (0.0, None, (0.0, 0.0), SERVER),
        ] {
            assert_eq!(bottleneck(rate, limit, shares), verdict, "{rate}, {limit:?}, {shares:?}");
        }
    }
}

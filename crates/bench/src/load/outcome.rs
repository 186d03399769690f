//! The result of a load.

use std::time::Duration;

use super::{IdText, Keep, Load};
use crate::histogram::Histogram;

#[derive(Debug, Default)]
pub struct Outcome {
    /// From the first request to the last response.
    pub elapsed: Duration,
    /// Requests with a 2xx response.
    pub calls: u64,
    /// 429 and 503 responses, retried after a pause.
    pub refused: u64,
    /// Other responses, and requests without one.
    pub failures: u64,
    /// The first failure: the request, and the status or error.
    pub failure: Option<String>,
    /// Of requests with a 2xx response.
    pub latency: Histogram,
    /// If requested: (index of the request, response body).
    pub bodies: Vec<(u64, Vec<u8>)>,
    /// If requested: the ids in the responses.
    pub ids: Vec<IdText>,
    /// If requested: the indices of successful requests.
    pub indices: Vec<u64>,
    /// If requested: the successful requests, unsorted.
    pub timeline: Vec<Call>,
    /// The body of one of the first responses.
    pub sample: Option<Vec<u8>>,
    /// Of the generator's threads together; `None` if unavailable.
    pub times: Option<ThreadTimes>,
}

impl Outcome {
    pub(super) fn merge(&mut self, other: Outcome) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.failures += other.failures;
        self.failure = self.failure.take().or(other.failure);
        self.latency.merge(&other.latency);
        self.bodies.extend(other.bodies);
        self.ids.extend(other.ids);
        self.indices.extend(other.indices);
        self.timeline.extend(other.timeline);
        self.sample = self.sample.take().or(other.sample);
        self.times = match (self.times, other.times) {
            (Some(one), Some(two)) => Some(one.and(two)),
            (one, two) => one.or(two),
        };
    }

    /// Counts a response and keeps what the load requests of it.
    pub(super) fn take(&mut self, index: u64, body: &mut Vec<u8>, load: &Load) -> Result<(), &'static str> {
        if self.sample.is_none() {
            self.sample = Some(body.clone());
        }
        match load.keep {
            // Of a call, its times.
            Keep::Nothing | Keep::Calls => {}
            Keep::Bodies => self.bodies.push((index, std::mem::take(body))),
            Keep::Ids => self.ids.push(find_id(body).ok_or("an answer without an id")?),
            Keep::Indices => self.indices.push(index),
        }
        self.calls += 1;
        Ok(())
    }

    /// Requests that were completed or have failed.
    pub fn executed(&self) -> u64 {
        self.calls + self.failures
    }
}

/// The first `"id": "..."` in a JSON text.
fn find_id(body: &[u8]) -> Option<IdText> {
    const KEY: &[u8] = b"\"id\"";
    let at = body.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let rest = body[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let (id, rest) = rest.split_first_chunk()?;
    (rest.first() == Some(&b'"')).then_some(*id)
}

/// One call, in seconds since the client began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub begin_s: f64,
    pub latency_s: f64,
}

/// Processor times of one or several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Running.
    pub run: Duration,
    /// Ready to run, but waiting for a processor.
    pub wait: Duration,
}

impl ThreadTimes {
    /// Of the calling thread since its start.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields =
            text.split_ascii_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
        Some(ThreadTimes { run: fields.next()??, wait: fields.next()?? })
    }

    pub(super) fn since(self, before: Self) -> Self {
        ThreadTimes { run: self.run.saturating_sub(before.run), wait: self.wait.saturating_sub(before.wait) }
    }

    fn and(self, other: Self) -> Self {
        ThreadTimes { run: self.run + other.run, wait: self.wait + other.wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_among_other_keys() {
        let id = "0a7a15ff-aa13-4ac2-897c-9bdf30ce175b";
        for text in [
            format!("{{\"resource_id\": \"{}\", \"id\": \"{id}\", \"unit\": null}}", "x".repeat(36)),
            format!("[{{\"id\":\"{id}\"}}]"),
        ] {
            assert_eq!(find_id(text.as_bytes()).as_ref().map(<[u8; 36]>::as_slice), Some(id.as_bytes()));
        }
        for text in ["", "{}", "\"id\"", "\"id\": 7", "\"id\": \"short\"", "{\"id\": null}"] {
            assert_eq!(find_id(text.as_bytes()), None, "{text}");
        }
        assert_eq!(find_id(format!("\"id\": \"{id}0\"").as_bytes()), None);
    }

    #[test]
    fn thread_times_are_read() {
        let times = ThreadTimes { run: Duration::from_nanos(12), wait: Duration::from_nanos(34) };
        assert_eq!(ThreadTimes::parse("12 34 5\n"), Some(times));
        assert_eq!(ThreadTimes::parse("12"), None);
        assert_eq!(ThreadTimes::parse("a b"), None);
    }
}

//! Test data: classic histograms of many instances, as remote writes. The same samples for every server.

use std::ops::Range;

use anyhow::Result;
use fastrand::Rng;
use gnudi_prometheus::remote_read::put_result;
use gnudi_promql::{Labels, Series};

use crate::{
    body::START_MS,
    load::{Requests, requests::with_length},
    peers::Server,
};

/// Upper bounds of a histogram's buckets, each a series.
const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "+Inf"];
pub const BUCKETS: usize = BOUNDS.len();

/// Instances in a group, which has a hundred series.
const GROUP_INSTANCES: usize = 10;

/// Minute 0 of the data, in seconds since the epoch.
const START_S: i64 = START_MS / 60_000 * 60;

/// Seconds since the epoch.
pub fn time_of(minute: i64) -> i64 {
    START_S + minute * 60
}

pub fn instance(number: usize) -> String {
    format!("host-{number:05}:9100")
}

pub fn group(number: usize) -> String {
    format!("g{number:04}")
}

struct Histogram {
    random: Rng,
    /// Observations per minute and bucket are below this.
    rate: u64,
    /// Observations of each bucket, not cumulative.
    counted: [u64; BUCKETS],
}

impl Histogram {
    fn new(instance: usize) -> Self {
        let mut random = Rng::with_seed(instance as u64);
        let rate = random.u64(100..1_100);
        let counted = [(); BUCKETS].map(|()| random.u64(10_000_000..11_000_000));
        Histogram { random, rate, counted }
    }

    /// The cumulative counts of the buckets after some minutes.
    fn advance(&mut self, minutes: u64) -> [f64; BUCKETS] {
        let mut below = 0;
        self.counted.each_mut().map(|counted| {
            *counted += minutes * self.random.u64(..self.rate);
            below += *counted;
            below as f64
        })
    }
}

/// Instances whose histograms continue from message to message.
pub struct Instances {
    histograms: Vec<Histogram>,
    labels: Vec<Labels>,
}

impl Instances {
    pub fn new(name: &str, series: usize) -> Self {
        let instances = series / BUCKETS;
        let labels = (0..instances).flat_map(|number| {
            BOUNDS.map(|bound| {
                Labels::new([
                    ("__name__", name),
                    ("group", group(number / GROUP_INSTANCES).as_str()),
                    ("instance", instance(number).as_str()),
                    ("job", "bench"),
                    ("le", bound),
                ])
            })
        });
        Instances { labels: labels.collect(), histograms: (0..instances).map(Histogram::new).collect() }
    }

    /// A remote write, compressed, with the samples of these instances in these minutes, and the number of its samples.
    /// An instance has a sample in each minute that is a multiple of its `interval`.
    fn message(
        &mut self,
        instances: Range<usize>,
        minutes: &Range<i64>,
        interval: impl Fn(usize) -> i64,
    ) -> Result<(Vec<u8>, usize)> {
        let (mut series, mut samples) = (Vec::new(), 0);
        for instance in instances {
            let interval = interval(instance);
            let times = minutes.clone().filter(|minute| minute % interval == 0);
            let times_ms: Vec<i64> = times.map(|minute| 1_000 * time_of(minute)).collect();
            if times_ms.is_empty() {
                continue;
            }
            let histogram = &mut self.histograms[instance];
            let values: Vec<[f64; BUCKETS]> =
                times_ms.iter().map(|_| histogram.advance(interval as u64)).collect();
            for bucket in 0..BUCKETS {
                let labels = self.labels[instance * BUCKETS + bucket].clone();
                let of_bucket = values.iter().map(|values| values[bucket]).collect();
                series.push(Series::new(labels, times_ms.clone(), of_bucket));
            }
            samples += times_ms.len() * BUCKETS;
        }
        let mut message = Vec::new();
        put_result(&series, &mut message);
        Ok((snap::raw::Encoder::new().compress_vec(&message)?, samples))
    }
}

/// Remote writes for any of the servers, in order.
pub struct Writes {
    /// Without request line and headers, which [`Writes::to`] adds.
    requests: Requests,
    pub samples: usize,
    pub bytes: usize,
}

impl Writes {
    fn new(messages: impl Iterator<Item = Result<(Vec<u8>, usize)>>) -> Result<Self> {
        let (mut samples, mut bytes, mut bodies) = (0, 0, Vec::new());
        for message in messages {
            let (body, of_message) = message?;
            samples += of_message;
            bytes += body.len();
            bodies.push(with_length(&body, 0));
        }
        Ok(Writes { requests: Requests::grid(vec![Vec::new()], bodies), samples, bytes })
    }

    /// The next minutes of all instances, in messages of about `batch` samples; a series always uses the same
    /// connection.
    pub fn spread(
        instances: &mut Instances,
        minutes: Range<i64>,
        batch: usize,
        connections: usize,
    ) -> Result<Self> {
        let all = instances.histograms.len();
        let parts = connections * (all * BUCKETS).div_ceil(connections * batch);
        let minutes_at_once = (batch * parts / (all * BUCKETS)).max(1);
        let spans = minutes.clone().step_by(minutes_at_once);
        let spans = spans.map(|start| start..minutes.end.min(start + minutes_at_once as i64));
        let bound = |part: usize| part * all / parts;
        let messages = spans.flat_map(|span| (0..parts).map(move |part| (span.clone(), part)));
        Writes::new(
            messages.map(|(span, part)| instances.message(bound(part)..bound(part + 1), &span, |_| 1)),
        )
    }

    /// The minutes up to `end` of all instances in order of time, for one connection. The first group has a sample
    /// every minute, the others before `dense_from` only one per `interval`.
    pub fn history(instances: &mut Instances, end: i64, dense_from: i64, interval: i64) -> Result<Self> {
        /// Samples of a series in a message; more in the first group's before `dense_from`.
        const SAMPLES_AT_ONCE: i64 = 5;
        let all = instances.histograms.len();
        let mut spans = Vec::new();
        let mut start = 0;
        while start < end {
            let (bound, step) = if start < dense_from { (dense_from, interval) } else { (end, 1) };
            let next = bound.min(start + SAMPLES_AT_ONCE * step);
            spans.push(start..next);
            start = next;
        }
        Writes::new(spans.into_iter().map(|span| {
            let is_dense = span.start >= dense_from;
            let interval_of =
                |instance: usize| if is_dense || instance < GROUP_INSTANCES { 1 } else { interval };
            instances.message(0..all, &span, interval_of)
        }))
    }

    pub fn to(&mut self, server: &Server) -> &Requests {
        let mut head = server.headers.open_head("POST", "/api/v1/write");
        head.extend_from_slice(
            b"Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
              X-Prometheus-Remote-Write-Version: 0.1.0\r\n",
        );
        self.requests.metrics = vec![head];
        &self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflated(requests: &Requests, index: u64) -> Vec<u8> {
        let parts = requests.parts(index).concat();
        let start = parts.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        snap::raw::Decoder::new().decompress_vec(&parts[start..]).unwrap()
    }

    #[test]
    fn a_series_is_a_message_of_prometheus() {
        let up = Series::new(Labels::new([("__name__", "up")]), vec![1_000 * time_of(0)], vec![1.5]);
        let mut out = Vec::new();
        put_result(&[up], &mut out);
        // What `protoc --decode` shows as timeseries { labels { name: "__name__" value: "up" } samples { value: 1.5
        // timestamp: 1420070400000 } }.
        let expected = [
            &b"\x0a\x22\x0a\x0e\x0a\x08__name__\x12\x02up\x12\x10\x09"[..],
            &1.5f64.to_le_bytes(),
            b"\x10\x80\xe0\xaa\x96\xaa\x29",
        ];
        assert_eq!(out, expected.concat());
        assert_eq!(time_of(0), 1_420_070_400);
    }

    #[test]
    fn every_sample_is_written_once_and_batches_are_of_one_size() {
        let mut instances = Instances::new("m", 400);
        let writes = Writes::spread(&mut instances, 0..10, 100, 2).unwrap();
        assert_eq!(writes.samples, 4_000);
        // Four parts of a hundred series, one minute each.
        assert_eq!(writes.requests.distinct(), 40);
        let of_two_minutes = Writes::spread(&mut Instances::new("m", 400), 0..10, 400, 2).unwrap();
        assert_eq!((of_two_minutes.samples, of_two_minutes.requests.distinct()), (4_000, 10));
        let text = String::from_utf8_lossy(&inflated(&writes.requests, 5)).into_owned();
        assert!(text.contains(&instance(10)) && !text.contains(&instance(9)), "the second part");
    }

    #[test]
    fn a_history_is_dense_at_its_end_and_in_the_first_group() {
        let history = Writes::history(&mut Instances::new("m", 200), 120, 60, 30).unwrap();
        assert_eq!(history.samples, 100 * 120 + 100 * (2 + 60));
    }

    #[test]
    fn buckets_are_cumulative_and_go_on() {
        let mut histogram = Histogram::new(3);
        let (first, second) = (histogram.advance(1), histogram.advance(30));
        assert!(first.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(first.iter().zip(&second).all(|(before, after)| before <= after));
    }
}

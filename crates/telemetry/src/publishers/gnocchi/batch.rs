//! Collects the samples of many messages for one request.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use gnudi_model::{Timestamp, python};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    damaged::MetricKey,
    definitions::{Definitions, quoted},
    resource_cache::Resource,
};
use crate::{
    publishers::PublishError,
    sample::{Sample, volume_number},
};

/// The store rejects longer units.
const UNIT_CHARACTERS_MAX: usize = 31;

/// One measure. Its text is `{"timestamp":...,"value":...}`, followed by the unit's JSON.
#[derive(Clone, Copy, Debug)]
struct Entry {
    resource: u32,
    /// The meter's number.
    metric: u16,
    message: u32,
    start: u32,
    measure_bytes: u16,
    unit_bytes: u16,
}

/// The receipt of a message that is not yet stored.
#[derive(Debug)]
struct PendingReceipt {
    receipt: oneshot::Sender<Result<(), PublishError>>,
    failure: Option<PublishError>,
}

#[derive(Debug)]
pub struct Batch {
    pub number: u64,
    /// When the first message was added.
    pub begun: Instant,
    pub resources: Vec<Arc<Resource>>,
    /// Indexes of resources whose attributes may differ from the store's.
    pub changed: Vec<u32>,
    entries: Vec<Entry>,
    text: Vec<u8>,
    messages: Vec<PendingReceipt>,
}

impl Batch {
    pub fn new(number: u64, begun: Instant) -> Self {
        Batch {
            number,
            begun,
            resources: Vec::new(),
            changed: Vec::new(),
            entries: Vec::new(),
            text: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Whether no receipts depend on it.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Number of measures.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Approximate size of the request.
    pub fn bytes(&self) -> usize {
        const ENTRY_BYTES: usize = 80;
        const RESOURCE_BYTES: usize = 48;
        self.text.len() + self.entries.len() * ENTRY_BYTES + self.resources.len() * RESOURCE_BYTES
    }

    /// The index of a resource.
    pub fn place(&mut self, resource: &Arc<Resource>, known: &mut Option<(u64, u32)>) -> u32 {
        match known {
            Some((number, place)) if *number == self.number => *place,
            _ => {
                let place = self.resources.len() as u32;
                self.resources.push(resource.clone());
                *known = Some((self.number, place));
                place
            }
        }
    }

    /// Adds a measure to the current message. `Err` says why it is invalid.
    pub fn add(
        &mut self,
        resource: u32,
        metric: u16,
        sample: &Sample<'_>,
        now: Timestamp,
    ) -> Result<(), String> {
        let start = self.text.len();
        if let Err(problem) = self.write_measure(sample, now) {
            self.text.truncate(start);
            return Err(problem);
        }
        let measure_bytes = self.text.len() - start;
        write_text(&sample.unit, &mut self.text);
        let unit_bytes = self.text.len() - start - measure_bytes;
        self.entries.push(Entry {
            resource,
            metric,
            message: self.messages.len() as u32,
            start: start as u32,
            measure_bytes: measure_bytes as u16,
            unit_bytes: unit_bytes as u16,
        });
        Ok(())
    }

    fn write_measure(&mut self, sample: &Sample<'_>, now: Timestamp) -> Result<(), String> {
        let timestamp = sample.timestamp.as_deref().ok_or("no timestamp")?;
        if !is_plain_timestamp(timestamp.as_bytes())
            && (timestamp.len() > TIMESTAMP_BYTES_MAX || python::timestamp_of_text(timestamp, now).is_err())
        {
            return Err("not a timestamp".to_owned());
        }
        if sample.unit.len() > UNIT_CHARACTERS_MAX && sample.unit.chars().count() > UNIT_CHARACTERS_MAX {
            return Err(format!("a unit of more than {UNIT_CHARACTERS_MAX} characters"));
        }
        self.text.extend_from_slice(b"{\"timestamp\":");
        write_text(timestamp, &mut self.text);
        self.text.extend_from_slice(b",\"value\":");
        write_value(&sample.volume, &mut self.text)?;
        self.text.push(b'}');
        Ok(())
    }

    /// Completes the current message. With `failure` its receipt fails, whatever happens to its measures.
    pub fn end_message(
        &mut self,
        receipt: oneshot::Sender<Result<(), PublishError>>,
        failure: Option<String>,
    ) {
        self.messages.push(PendingReceipt { receipt, failure: failure.map(PublishError) });
    }

    /// Groups the measures by metric, in the order in which they were added. Call once, before `body`.
    pub fn sort(&mut self) {
        self.merge_resources();
        self.entries.sort_by_key(|entry| (entry.resource, entry.metric));
    }

    /// A resource that was evicted from the cache and came back is there twice: the store would take the measures of one
    /// of them only.
    fn merge_resources(&mut self) {
        let places = places(&self.resources);
        if places.len() == self.resources.len() {
            return;
        }
        let last = |place: u32| places[&*self.resources[place as usize].id];
        for entry in &mut self.entries {
            entry.resource = last(entry.resource);
        }
        for place in &mut self.changed {
            *place = last(*place);
        }
    }

    /// Moves the measures of these metrics behind the others; returns where they begin.
    pub fn move_to_end(&mut self, is_moved: impl Fn(MetricKey<'_>) -> bool) -> usize {
        let is_kept = |entry: &Entry| !is_moved(self.key(entry));
        let (kept, moved): (Vec<_>, Vec<_>) = self.entries.iter().copied().partition(is_kept);
        let begin = kept.len();
        self.entries = kept;
        self.entries.extend(moved);
        begin
    }

    /// The ranges of single metrics in a range of measures.
    pub fn split_metrics(&self, part: Range<usize>) -> Vec<Range<usize>> {
        let mut start = part.start;
        let of_metric = |a: &Entry, b: &Entry| (a.resource, a.metric) == (b.resource, b.metric);
        let metrics = self.entries[part].chunk_by(of_metric).map(|entries| {
            let metric = start..start + entries.len();
            start = metric.end;
            metric
        });
        metrics.collect()
    }

    /// The metric of a measure.
    pub fn metric(&self, measure: usize) -> MetricKey<'_> {
        self.key(&self.entries[measure])
    }

    fn key(&self, entry: &Entry) -> MetricKey<'_> {
        (&self.resources[entry.resource as usize].id, entry.metric)
    }

    /// The request body for a range of measures, without those of excluded resources, and the number of measures in it.
    pub fn body(
        &self,
        part: Range<usize>,
        left_out: &HashSet<u32>,
        definitions: &Definitions,
    ) -> (Bytes, usize) {
        let mut out = Vec::with_capacity(self.bytes() * part.len() / self.entries.len().max(1) + 64);
        out.push(b'{');
        let mut measures = 0;
        let of_resource = |a: &Entry, b: &Entry| a.resource == b.resource;
        for entries in self.entries[part].chunk_by(of_resource) {
            if left_out.contains(&entries[0].resource) {
                continue;
            }
            measures += entries.len();
            write_text(&self.resources[entries[0].resource as usize].id, &mut out);
            out.extend_from_slice(b":{");
            for entries in entries.chunk_by(|a, b| a.metric == b.metric) {
                let metric = &definitions.metrics[usize::from(entries[0].metric)];
                out.extend_from_slice(&metric.opening);
                for entry in entries {
                    let start = entry.start as usize;
                    out.extend_from_slice(&self.text[start..start + usize::from(entry.measure_bytes)]);
                    out.push(b',');
                }
                out.pop();
                out.extend_from_slice(&metric.closing);
                let unit = entries[0].start as usize + usize::from(entries[0].measure_bytes);
                out.extend_from_slice(&self.text[unit..unit + usize::from(entries[0].unit_bytes)]);
                out.extend_from_slice(b"},");
            }
            out.pop();
            out.extend_from_slice(b"},");
        }
        if measures > 0 {
            out.pop();
        }
        out.push(b'}');
        (out.into(), measures)
    }

    /// Where to split a range in two: between resources if possible. `None`: it is one measure.
    pub fn cut(&self, part: &Range<usize>) -> Option<usize> {
        let entries = &self.entries[part.clone()];
        if entries.len() < 2 {
            return None;
        }
        let middle = part.len() / 2;
        let resource = entries[middle].resource;
        let before =
            entries[..middle].iter().rposition(|entry| entry.resource != resource).map(|place| place + 1);
        let after = || {
            entries[middle..].iter().position(|entry| entry.resource != resource).map(|place| place + middle)
        };
        Some(part.start + before.or_else(after).unwrap_or(middle))
    }

    /// Fails the messages of these measures, or only those of `resource`. Returns the number of measures.
    pub fn fail(&mut self, part: Range<usize>, resource: Option<u32>, why: &str) -> usize {
        let mut measures = 0;
        for entry in &self.entries[part] {
            if resource.is_none_or(|resource| resource == entry.resource) {
                measures += 1;
                self.messages[entry.message as usize]
                    .failure
                    .get_or_insert_with(|| PublishError(why.to_owned()));
            }
        }
        measures
    }

    /// Resolves all receipts.
    pub fn resolve(self) {
        for PendingReceipt { receipt, failure } in self.messages {
            // The receiver may be gone.
            let _ = receipt.send(failure.map_or(Ok(()), Err));
        }
    }
}

/// The index of each resource by id; the last one if it is there twice.
pub fn places(resources: &[Arc<Resource>]) -> HashMap<&str, u32> {
    resources.iter().map(|resource| &*resource.id).zip(0..).collect()
}

/// Longer texts are not valid times.
const TIMESTAMP_BYTES_MAX: usize = 64;

/// `YYYY-MM-DDTHH:MM:SS` with optional fraction and `Z` or `+HH:MM`, the form that agents send. False also for valid
/// times in rarer forms.
fn is_plain_timestamp(text: &[u8]) -> bool {
    let Some((date, rest)) = text.split_at_checked(19) else { return false };
    let number = |range: Range<usize>| {
        date[range].iter().try_fold(0u32, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0'))
        })
    };
    let is_within = |range: Range<usize>, least: u32, most: u32| {
        number(range).is_some_and(|number| (least..=most).contains(&number))
    };
    let separators = [date[4], date[7], date[13], date[16]];
    if separators != *b"--::" || !matches!(date[10], b'T' | b' ') {
        return false;
    }
    // Days 29 to 31 are rare enough for the slow path in general.
    let is_date = is_within(0..4, 1971, 2199) && is_within(5..7, 1, 12) && is_within(8..10, 1, 28);
    let is_time = is_within(11..13, 0, 23) && is_within(14..16, 0, 59) && is_within(17..19, 0, 59);
    let zone = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || digits > 9 {
                return false;
            }
            &rest[digits..]
        }
        rest => rest,
    };
    is_date && is_time && matches!(zone, b"" | b"Z" | b"+00:00")
}

/// Writes a text as JSON.
fn write_text(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(quoted(text).as_bytes());
    }
}

/// Writes a number. As in Gnocchi, booleans and texts that Python's `float` takes count as numbers. Those that JSON lacks
/// are written as Python writes them, which Gnocchi accepts.
fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    if value.is_number() {
        return serde_json::to_writer(out, value).map_err(|error| error.to_string());
    }
    let number = volume_number(value).ok_or("the volume is not a number")?;
    if number.is_finite() {
        return serde_json::to_writer(out, &number).map_err(|error| error.to_string());
    }
    let name = match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishers::{gnocchi::resource_cache::ResourceCache, tests::sample};

    #[test]
    fn a_resource_that_was_evicted_and_came_back_is_posted_once() {
        let definitions = Definitions::shipped(None);
        let cpu = definitions.metric("cpu").unwrap().number;
        let mut known = ResourceCache::new(1);
        let mut batch = Batch::new(0, Instant::now());
        for (id, volume) in [("a", 1.0), ("b", 2.0), ("a", 3.0)] {
            let resource = known.resource(id, 0);
            let place = batch.place(&resource, &mut resource.state.lock().place);
            batch.add(place, cpu, &sample("cpu", volume), Timestamp(0)).unwrap();
            batch.changed.push(place);
        }
        batch.sort();
        let (body, measures) = batch.body(0..batch.len(), &HashSet::new(), &definitions);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let values = |id: &str| -> Vec<f64> {
            let measures = body[id]["cpu"]["measures"].as_array().unwrap();
            measures.iter().map(|measure| measure["value"].as_f64().unwrap()).collect()
        };
        assert_eq!((values("a"), values("b"), measures), (vec![1.0, 3.0], vec![2.0], 3));
        assert_eq!(batch.changed, [2, 1, 2]);
    }

    #[test]
    fn plain_timestamps_are_known() {
        for (text, is_plain) in [
            ("2026-11-21T22:47:24", true),
            ("2026-11-21 22:47:24.123456", true),
            ("2026-11-21T22:47:24.5Z", true),
            ("2026-11-21T22:47:24+00:00", true),
            ("2026-11-21T22:47:24.", false),
            ("2026-11-21T24:47:24", false),
            ("2026-11-31T22:47:24", false),
            ("2026-11-21T22:47", false),
            ("2026-11-21T22:47:24+01:00", false),
            ("2026-11-21x22:47:24", false),
            ("yesterday and the day before", false),
        ] {
            assert_eq!(is_plain_timestamp(text.as_bytes()), is_plain, "{text}");
        }
    }

    #[test]
    fn values_are_numbers() {
        let write = |value: Value| {
            let mut out = Vec::new();
            write_value(&value, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        for (value, text) in [
            (serde_json::json!(1), "1"),
            (serde_json::json!(1.5), "1.5"),
            (true.into(), "1.0"),
            (" 2 ".into(), "2.0"),
            ("1_000".into(), "1000.0"),
            ("nan".into(), "NaN"),
            ("inf".into(), "Infinity"),
            ("-inf".into(), "-Infinity"),
        ] {
            assert_eq!(write(value), Ok(text.to_owned()));
        }
        for value in [Value::Null, "x".into(), serde_json::json!([1])] {
            assert!(write(value).is_err());
        }
    }
}

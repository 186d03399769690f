//! Fast path for a polling agent's message: one pass over the body, from which the samples borrow.
//!
//! It accepts only the usual form of these messages. Anything else, invalid or just rare, is left to the slow path,
//! which reports errors. Where both accept a message, the results are equal.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{EVENT_TYPE, SAMPLES_MAX, SOURCE, TEXT_BYTES_MAX, cursor::Cursor, memory::MetadataMemory};
use crate::{
    messaging::envelope,
    notification::read::{CONTEXT_KEYS_MAX, HEAD_BYTES_MAX},
    sample::{Metadata, Sample, SampleKind},
};

/// A message of samples.
#[derive(Debug)]
pub struct Scanned<'a> {
    pub timestamp: Cow<'a, str>,
    pub unique_id: Option<Cow<'a, str>>,
    pub samples: Vec<Sample<'a>>,
}

/// The samples in a message body, if it is a polling agent's message in the usual envelope.
pub fn scan<'a>(body: &'a [u8], memory: &MetadataMemory) -> Option<Scanned<'a>> {
    if body.len() > envelope::MESSAGE_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    let mut cursor = Cursor::new(text, envelope::start_of_message(text)?);
    let mut seen = Seen::default();
    let (mut event_type, mut priority, mut timestamp, mut unique_id) = (None, None, None, None);
    let (mut samples, mut others) = (None, 0);
    cursor.object(|cursor, key| {
        match key {
            "message_id" | "publisher_id" => read_text(cursor, &mut None, HEAD_BYTES_MAX)?,
            "event_type" if seen.is_first(0) => {
                read_text(cursor, &mut event_type, HEAD_BYTES_MAX)?;
                event_type.as_deref().filter(|text| *text == EVENT_TYPE)?;
            }
            "priority" if seen.is_first(1) => {
                read_text(cursor, &mut priority, HEAD_BYTES_MAX)?;
                priority.as_deref().filter(|text| text.eq_ignore_ascii_case("sample"))?;
            }
            "timestamp" if seen.is_first(2) => read_text(cursor, &mut timestamp, HEAD_BYTES_MAX)?,
            "_unique_id" if seen.is_first(3) => read_text(cursor, &mut unique_id, HEAD_BYTES_MAX)?,
            "payload" if seen.is_first(4) => samples = Some(payload(cursor, memory)?),
            "event_type" | "priority" | "timestamp" | "_unique_id" | "payload" => return None,
            _ => {
                others += 1;
                cursor.value().filter(|_| others <= CONTEXT_KEYS_MAX)?;
            }
        }
        Some(())
    })?;
    let is_end =
        cursor.rest().strip_prefix('"')?.trim_ascii_start().strip_prefix('}')?.trim_ascii().is_empty();
    if !is_end || event_type.is_none() || priority.is_none() {
        return None;
    }
    Some(Scanned { timestamp: timestamp.unwrap_or_default(), unique_id, samples: samples? })
}

/// The keys seen in an object: repeated keys are left to the slow path.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    fn is_first(&mut self, key: u32) -> bool {
        let before = self.0;
        self.0 |= 1 << key;
        self.0 != before
    }
}

/// Reads a text or a `null`, up to a maximum size.
fn read_text<'a>(cursor: &mut Cursor<'a>, text: &mut Option<Cow<'a, str>>, bytes_max: usize) -> Option<()> {
    *text = if cursor.is_null()? { None } else { Some(cursor.text()?) };
    text.as_ref().is_none_or(|text| text.len() <= bytes_max).then_some(())
}

fn payload<'a>(cursor: &mut Cursor<'a>, memory: &MetadataMemory) -> Option<Vec<Sample<'a>>> {
    let mut samples = None;
    cursor.object(|cursor, key| {
        if key != "samples" || samples.is_some() {
            return None;
        }
        let (mut all, mut shape) = (Vec::new(), Shape::default());
        cursor.array(|cursor| {
            all.push(sample(cursor, &mut shape, memory)?);
            (all.len() <= SAMPLES_MAX).then_some(())
        })?;
        samples = Some(all);
        Some(())
    })?;
    samples
}

/// The members of a sample by index: texts first.
const MEMBERS: [&str; 13] = [
    "counter_name",
    "counter_unit",
    "user_id",
    "user_name",
    "project_id",
    "project_name",
    "resource_id",
    "timestamp",
    "source",
    "message_id",
    "counter_type",
    "counter_volume",
    "resource_metadata",
];
const TEXTS: usize = 11;
const RESOURCE_ID: usize = 6;
const COUNTER_VOLUME: usize = 11;
const RESOURCE_METADATA: usize = 12;
/// A member that is ignored.
const OTHER: usize = MEMBERS.len();

/// The layout of the previous sample. The next one has the same members in the same order, and mostly the same values,
/// so their bytes are compared before they are parsed.
#[derive(Default)]
struct Shape<'a>(Vec<Member<'a>>);

struct Member<'a> {
    /// The text between the previous member's end and the value.
    opening: &'a str,
    place: usize,
    /// A text with its quotes, or `null`; empty if the value is not a text.
    raw: &'a str,
    text: Option<Cow<'a, str>>,
}

impl<'a> Shape<'a> {
    /// Advances to the value of the member at this index.
    fn open(&mut self, number: usize, cursor: &mut Cursor<'a>) -> Option<&mut Member<'a>> {
        let is_known = self.0.get(number).is_some_and(|member| cursor.skip_same(member.opening));
        if !is_known {
            let rest = cursor.rest();
            let key = cursor.key()?;
            let place = MEMBERS.iter().position(|name| *name == key).unwrap_or(OTHER);
            let opening = &rest[..rest.len() - cursor.rest().len()];
            self.0.truncate(number);
            self.0.push(Member { opening, place, raw: "", text: None });
        }
        self.0.get_mut(number)
    }
}

impl<'a> Member<'a> {
    fn read_text(&mut self, cursor: &mut Cursor<'a>, text: &mut Option<Cow<'a, str>>) -> Option<()> {
        if self.raw.is_empty() || !cursor.skip_same(self.raw) {
            let rest = cursor.rest();
            read_text(cursor, &mut self.text, TEXT_BYTES_MAX)?;
            self.raw = &rest[..rest.len() - cursor.rest().len()];
        }
        text.clone_from(&self.text);
        Some(())
    }
}

fn sample<'a>(cursor: &mut Cursor<'a>, shape: &mut Shape<'a>, memory: &MetadataMemory) -> Option<Sample<'a>> {
    let mut texts: [Option<Cow<'a, str>>; TEXTS] = Default::default();
    let mut volume = Value::Null;
    let mut resource_metadata = Metadata::Parsed(Map::new());
    let mut seen = Seen::default();
    let mut number = 0;
    cursor.list(b'{', b'}', |cursor| {
        let member = shape.open(number, cursor)?;
        number += 1;
        let place = member.place;
        if place != OTHER && !seen.is_first(place as u32) {
            return None;
        }
        match place {
            COUNTER_VOLUME => volume = number_or_null(cursor)?,
            RESOURCE_METADATA => {
                if !cursor.is_null()? {
                    let resource = texts[RESOURCE_ID].as_deref().unwrap_or_default();
                    resource_metadata = metadata(cursor, resource, memory)?;
                }
            }
            OTHER => drop(cursor.value()?),
            text => member.read_text(cursor, &mut texts[text])?,
        }
        Some(())
    })?;
    let [name, unit, user_id, user_name, project_id, project_name, resource_id, timestamp, source, id, kind] =
        texts;
    let is_text = |text: &Cow<'_, str>| !text.is_empty();
    Some(Sample {
        name: name.filter(is_text)?,
        kind: SampleKind::named(&kind?)?,
        unit: unit.unwrap_or_default(),
        volume,
        user_id,
        user_name,
        project_id,
        project_name,
        resource_id: resource_id.filter(is_text)?,
        timestamp,
        resource_metadata,
        source: source.unwrap_or(SOURCE.into()),
        id: id.unwrap_or_default(),
        monotonic_time: None,
    })
}

fn metadata<'a>(cursor: &mut Cursor<'a>, resource: &str, memory: &MetadataMemory) -> Option<Metadata<'a>> {
    let rest = cursor.rest();
    if let Some((length, hash)) = memory.matching_prefix(resource, rest) {
        cursor.advance(length);
        return Some(Metadata::Escaped { text: &rest[..length], hash });
    }
    let text = cursor.value()?;
    Some(Metadata::Escaped { text, hash: memory.insert(resource, text) })
}

/// Agents send texts and booleans as volumes, too; those are left to the slow path.
fn number_or_null(cursor: &mut Cursor<'_>) -> Option<Value> {
    if cursor.is_null()? {
        return Some(Value::Null);
    }
    serde_json::from_str(cursor.raw_number()?).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::{collection::vec, option, prelude::*, sample::select};
    use serde_json::json;

    use super::*;
    use crate::{
        messaging::envelope,
        notification::{polled, read},
        wire::python_json,
    };

    /// The slow path's result, if it finds no error: the notification's texts, and its samples.
    fn slow(body: &[u8]) -> Option<(String, Option<String>, Vec<String>)> {
        let message = envelope::open(body).ok()?;
        let notification = read(&message).ok()?;
        let polled = polled(notification.payload.get()).ok()?;
        if polled.bad.is_some() || notification.event_type != EVENT_TYPE || notification.priority != "sample"
        {
            return None;
        }
        let unique_id = notification.unique_id.map(Cow::into_owned);
        Some((notification.timestamp.into_owned(), unique_id, polled.samples.iter().map(shown).collect()))
    }

    fn fast(body: &[u8]) -> Option<(String, Option<String>, Vec<String>)> {
        // Earlier messages must make no difference.
        static MEMORY: LazyLock<MetadataMemory> = LazyLock::new(MetadataMemory::default);
        let scanned = scan(body, &MEMORY)?;
        let unique_id = scanned.unique_id.map(Cow::into_owned);
        Some((scanned.timestamp.into_owned(), unique_id, scanned.samples.iter().map(shown).collect()))
    }

    /// All fields of a sample, however its metadata were read.
    fn shown(sample: &Sample<'_>) -> String {
        let metadata = sample.resource_metadata.map().into_owned();
        format!("{:?}", Sample { resource_metadata: Metadata::Parsed(metadata), ..sample.clone() })
    }

    fn message(samples: &[Value]) -> Value {
        json!({
            "message_id": "m", "publisher_id": "ceilometer.polling", "event_type": "telemetry.polling", "priority": "SAMPLE",
            "payload": {"samples": samples}, "timestamp": "2026-01-01 00:00:00", "metadata": {"a": [1]}, "_unique_id": "u",
        })
    }

    /// As Python writes it: spaces after colons and commas, ASCII only.
    fn enveloped(message: &Value) -> String {
        let inner = python_json(message);
        format!(r#"{{"oslo.version": "2.0", "oslo.message": {}}}"#, python_json(&inner))
    }

    fn usual() -> Value {
        json!({
            "source": "openstack", "counter_name": "cpu", "counter_type": "cumulative", "counter_unit": "ns",
            "counter_volume": 5_010_000_000_u64, "user_id": "u", "user_name": null, "project_id": "p", "project_name": "Büro \"7\" \\ 😀",
            "resource_id": "r", "timestamp": "2026-01-01T00:00:00.5", "message_id": "m", "monotonic_time": 1.5,
            "resource_metadata": {"display_name": "a \"b\" \\é\n", "flavor": {"vcpus": 2, "x": [true, false, null, -1.5e3]}, "empty": {}},
            "message_signature": "s",
        })
    }

    #[test]
    fn what_agents_send_is_read_the_fast_way() {
        let body = enveloped(&message(&[usual(), usual()]));
        let memory = MetadataMemory::default();
        let scanned = scan(body.as_bytes(), &memory).unwrap();
        assert_eq!((&*scanned.timestamp, scanned.unique_id.as_deref()), ("2026-01-01 00:00:00", Some("u")));
        let sample = &scanned.samples[1];
        assert!(matches!(sample.resource_id, Cow::Borrowed("r")));
        assert_eq!(sample.project_name.as_deref(), Some("Büro \"7\" \\ 😀"));
        assert_eq!(sample.monotonic_time, None);
        assert_eq!(Value::Object(sample.resource_metadata.map().into_owned()), usual()["resource_metadata"]);
        assert_eq!(fast(body.as_bytes()), slow(body.as_bytes()));
        // As other libraries write it.
        let compact =
            json!({"oslo.version": "2.0", "oslo.message": message(&[usual()]).to_string()}).to_string();
        assert!(fast(compact.as_bytes()).is_some());
        assert_eq!(fast(compact.as_bytes()), slow(compact.as_bytes()));
    }

    #[test]
    fn the_rest_is_left_to_the_slow_way() {
        let changed = |from: &str, to: &str| enveloped(&message(&[usual()])).replace(from, to);
        assert!(fast(changed("none", "none").as_bytes()).is_some());
        let integer = format!("{}, false", "9".repeat(400));
        for (from, to) in [
            ("telemetry.polling", "other"),
            ("SAMPLE", "INFO"),
            ("\\\"samples", "\\\"sample"),
            ("5010000000", "\\\"5\\\""),
            ("5010000000", "05"),
            ("5010000000", "1e999"),
            ("5010000000", "NaN"),
            ("true, false", "-Infinity, false"),
            ("true, false", "1e999, false"),
            ("true, false", integer.as_str()),
            ("cumulative", "sum"),
            ("\\\"r\\\"", "\\\"\\\""),
            ("true, false", "true false"),
            ("user_name", "user_id"),
            ("-1500.0", "-"),
            ("\\\\n", "\\\\x"),
            ("}\"}", "}\"} 1"),
            ("}\"}", "},\"}"),
            ("null", "nul"),
        ] {
            let message = changed(from, to);
            assert!(message.contains(to) && fast(message.as_bytes()).is_none(), "{from} -> {to}");
        }
        let deep = changed("[true", &format!("{}[true", "[".repeat(100)));
        assert!(fast(deep.as_bytes()).is_none());
    }

    fn field() -> impl Strategy<Value = (&'static str, Value)> {
        let keys: Vec<&str> = MEMBERS.into_iter().chain(["other"]).collect();
        let value = prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            select(vec![
                Value::Null,
                true.into(),
                "gauge".into(),
                "".into(),
                json!([]),
                json!({"a": {"é": [1.5, "\\"]}})
            ]),
        ];
        (select(keys), value)
    }

    proptest! {
        /// For any mutation of a message, the fast path gives the same as the slow one, or nothing.
        #[test]
        fn both_ways_agree(
            changes in vec(vec(field(), 0..3), 0..3),
            is_compact in any::<bool>(),
            bytes in vec((any::<prop::sample::Index>(), option::of(select(br#"\"{}[],:0-1.e nu"#.to_vec()))), 0..3),
        ) {
            let samples: Vec<Value> = changes.into_iter().map(|fields| {
                let mut sample = usual();
                for (key, value) in fields {
                    sample[key] = value;
                }
                sample
            }).collect();
            let message = message(&samples);
            let mut body = if is_compact {
                json!({"oslo.version": "2.0", "oslo.message": message.to_string()}).to_string()
            } else {
                enveloped(&message)
            }.into_bytes();
            for (index, byte) in bytes {
                let place = index.index(body.len());
                match byte {
                    Some(byte) => body[place] = byte,
                    None => drop(body.remove(place)),
                }
            }
            if let Some(read) = fast(&body) {
                prop_assert_eq!(Some(read), slow(&body));
            }
        }
    }
}

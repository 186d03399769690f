//! `POST /v1/influxdb/write`

use std::{borrow::Cow, collections::BTreeMap, fmt::Write};

use gnudi_app::{
    provision::{self, Destination, LeftOut, Parcels},
    shortened,
};
use gnudi_model::{Measure, Timestamp};
use gnudi_server::{LongWork, SHORT_BYTES_MAX, gunzip};
use hyper::{StatusCode, header::CONTENT_ENCODING};

use crate::{
    influxdb::{
        Line, Precision,
        line::{FieldValue, LineError, SERIES_BYTES_MAX},
    },
    measures,
    routes::prelude::*,
};

/// The default database: the resource type.
const DEFAULT_DATABASE: &str = "influxdb";

/// The default tag that holds a line's resource id.
const DEFAULT_TAG: &str = "host";
const TAG_HEADER: &str = "x-gnocchi-influxdb-tag-resource-id";

/// The maximum total length of a request's metric names, each of which repeats the tags of its line. The maximum
/// number of measures needs less, even with the longest names that can be stored.
const NAME_BYTES_MAX: usize = 128 << 20;

/// Stores all lines or none, except for what is damaged in the index. A field is a metric of the tag's resource, named
/// `measurement.field@tag=value,...` with the other tags by name.
pub async fn write(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let arguments = call.query();
    let once = |name: &'static str| arguments.single(name, || ApiError::argument(name, "Must be given once"));
    let database = once("db")?.unwrap_or(DEFAULT_DATABASE);
    let precision = Precision::parse(once("precision")?.unwrap_or(""))
        .ok_or_else(|| ApiError::argument("precision", "Must be one of n, u, ms, s, m, h"))?;
    let tag = match call.parts.headers.get(TAG_HEADER) {
        None => DEFAULT_TAG,
        Some(header) => std::str::from_utf8(header.as_bytes())
            .map_err(|_| ApiError::argument(TAG_HEADER, "Must be UTF-8"))?,
    };
    let is_compressed = is_compressed(call)?;
    let input = body.read().await?;
    let reading = Reading {
        tag,
        precision,
        now: call.app.now(),
        creator: &call.caller.user,
        measures_max: call.app.options().limits.measures_max,
    };
    let parcels = if is_compressed {
        let bytes_max = call.app.options().limits.inflated_bytes_max;
        inflated_parcels(&reading, &input, bytes_max, body.long_work).await?
    } else {
        body.long_work.run(input.len(), || reading.parcels(&input)).await?
    };
    drop(input);
    let to = Destination { resource_type: database, type_to_create: None, archive_policy: None };
    let left_out = provision::deliver(call, to, parcels).await?;
    Ok(if left_out.is_empty() { reply::no_content() } else { partial_write(&left_out) })
}

/// InfluxDB's response to a write of which a part is dropped: clients do not repeat it.
fn partial_write(left_out: &LeftOut) -> Response {
    let text = format!("partial write: {left_out} dropped={}", left_out.measures);
    reply::json(StatusCode::BAD_REQUEST, &Value::object([("error", text.into())]))
}

/// Whether the body is compressed, as it is by telegraf's default.
fn is_compressed(call: &Call<'_>) -> Result<bool> {
    let encoding = call.parts.headers.get(CONTENT_ENCODING).map_or(&b""[..], |header| header.as_bytes());
    match encoding.to_ascii_lowercase().as_slice() {
        b"" | b"identity" => Ok(false),
        b"gzip" => Ok(true),
        _ => Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "")),
    }
}

/// Decompresses and parses a body. The output's size is unknown, so unless the body itself is long, a short prefix
/// decides whether this is long work. Parsing is part of the same work item, so that decompressed bodies do not
/// queue up in memory.
async fn inflated_parcels(
    reading: &Reading<'_>,
    compressed: &[u8],
    bytes_max: usize,
    long_work: &LongWork,
) -> Result<Parcels> {
    let whole = || reading.parcels(&gunzip(compressed, bytes_max)?);
    // Even without any output: empty members take time, too.
    if compressed.len() > SHORT_BYTES_MAX {
        return long_work.run(compressed.len(), whole).await;
    }
    match gunzip(compressed, bytes_max.min(SHORT_BYTES_MAX)) {
        Err(error) if error.status == StatusCode::PAYLOAD_TOO_LARGE && bytes_max > SHORT_BYTES_MAX => {
            long_work.run(bytes_max, whole).await
        }
        short => reading.parcels(&short?),
    }
}

/// How a request's lines are parsed.
struct Reading<'a> {
    tag: &'a str,
    precision: Precision,
    /// The timestamp of lines without one.
    now: Timestamp,
    creator: &'a str,
    measures_max: usize,
}

impl Reading<'_> {
    fn parcels(&self, input: &[u8]) -> Result<Parcels> {
        let mut parcels = Parcels::default();
        let (mut measures_left, mut name_bytes_left) = (self.measures_max, NAME_BYTES_MAX);
        let mut rest = input;
        while !rest.is_empty() {
            let before = &input[..input.len() - rest.len()];
            let number = || before.split(|byte| *byte == b'\n').count();
            let unreadable = || value_error("line", format!("Unable to parse line {}", number()));
            let too_long = |what: &str, max: usize| {
                ApiError::too_large(format!("{what} more than {max} bytes in line {}", number()))
            };
            let (line, after) = Line::first(rest, measures_left).map_err(|error| match error {
                LineError::Unreadable | LineError::OpenText(_) => unreadable(),
                LineError::Fields => measures::too_many(self.measures_max),
                LineError::Series => too_long("Measurement and tags have", SERIES_BYTES_MAX),
            })?;
            rest = after;
            let Some(line) = line else { continue };
            let timestamp = match line.timestamp {
                None => self.now,
                Some(time) => Timestamp(self.precision.to_nanoseconds(time).ok_or_else(unreadable)?),
            };
            measures_left -= line.fields.len();
            name_bytes_left = name_bytes_left
                .checked_sub(line.name_bytes())
                .ok_or_else(|| too_long("The names of all metrics come to", NAME_BYTES_MAX))?;
            self.add(&line, timestamp, &mut parcels)?;
        }
        Ok(parcels)
    }

    fn add(&self, line: &Line<'_>, timestamp: Timestamp, parcels: &mut Parcels) -> Result<()> {
        let is_resource = |entry: &&(Cow<'_, str>, Cow<'_, str>)| entry.0 == self.tag;
        let (_, resource) = line
            .tags
            .iter()
            .find(is_resource)
            .ok_or_else(|| value_error("key", format!("Unable to find key `{}' in tags", self.tag)))?;
        let mut tags = String::new();
        for (key, value) in line.tags.iter().filter(|entry| entry.0 != self.tag) {
            tags.push(if tags.is_empty() { '@' } else { ',' });
            write!(tags, "{key}={value}").expect("a String takes it");
        }
        for (field, value) in &line.fields {
            let FieldValue::Number(value) = *value else { continue };
            // Names of metrics may not contain slashes.
            let name = format!("{}.{field}{tags}", line.measurement).replace('/', "_");
            let parcel = parcels.resource(resource, self.creator, BTreeMap::new);
            parcel.metric(shortened(name)).push(Measure { timestamp, value });
        }
        Ok(())
    }
}

fn value_error(detail: &str, reason: String) -> ApiError {
    ApiError::bad_request(Value::cause_detail_reason("Value error", detail, reason))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const EMPTY_MEMBER: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0";

    /// Calls `then` while no long work can begin.
    fn while_busy(long_work: &LongWork, then: &mut dyn FnMut()) {
        // Takes one permit after the other.
        let begun = long_work.run(SHORT_BYTES_MAX + 1, || while_busy(long_work, then)).now_or_never();
        if begun.is_none() {
            then();
        }
    }

    #[tokio::test]
    async fn a_long_body_without_content_is_long_work() {
        let reading = Reading {
            tag: DEFAULT_TAG,
            precision: Precision::NANOSECONDS,
            now: Timestamp::EPOCH,
            creator: "admin",
            measures_max: 1,
        };
        let long_work = LongWork::default();
        let begins = |bytes: usize| {
            let compressed = EMPTY_MEMBER.repeat(bytes / EMPTY_MEMBER.len() + 1);
            let parcels = inflated_parcels(&reading, &compressed, 1 << 20, &long_work).now_or_never();
            parcels.map(|parcels| parcels.expect("an empty text").metrics()) == Some(0)
        };
        assert!(begins(SHORT_BYTES_MAX) && begins(0));
        let mut while_busy_begins = [true, false];
        while_busy(&long_work, &mut || while_busy_begins = [begins(SHORT_BYTES_MAX), begins(0)]);
        assert_eq!(while_busy_begins, [false, true]);
    }
}

//! OTLP: both encodings decode to the same request, limits are enforced, and invalid bytes do not panic.

mod support;

use gnudi_prometheus::{
    otlp::{Encoding, OtlpError, Rejected, read, translate},
    remote_write::{Limits, labels::check},
};
use proptest::{collection, prelude::*};
use serde_json::{Value, json};
use support::{LIMITS, varint};

/// Limits for random requests, whose `target_info` may have a thousand samples per resource.
const ROOMY: Limits = Limits { samples_max: 100_000, labels_bytes_max: 10_000_000 };

fn field(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    support::field(number, payload, &mut out);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    support::number(field, value, &mut out);
    out
}

fn fixed64(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 1, &mut out);
    out.extend_from_slice(&value.to_le_bytes());
    out
}

/// A part of a request in both encodings.
#[derive(Clone, Debug)]
struct Both {
    protobuf: Vec<u8>,
    json: Value,
}

fn list(number: u64, all: &[Both]) -> (Vec<u8>, Vec<Value>) {
    let protobuf = all.iter().flat_map(|one| field(number, &one.protobuf)).collect();
    (protobuf, all.iter().map(|one| one.json.clone()).collect())
}

fn attribute() -> impl Strategy<Value = Both> {
    let value = prop_oneof![
        ".{0,5}".prop_map(|text| Both {
            protobuf: field(1, text.as_bytes()),
            json: json!({"stringValue": text})
        }),
        any::<bool>()
            .prop_map(|value| Both { protobuf: number(2, value.into()), json: json!({"boolValue": value}) }),
        any::<i64>().prop_map(|value| {
            let json = json!({"intValue": value.to_string()});
            Both { protobuf: number(3, value as u64), json }
        }),
        (-1e30..1e30_f64).prop_map(|value| {
            Both { protobuf: fixed64(4, value.to_bits()), json: json!({"doubleValue": value}) }
        }),
    ];
    let value = value.prop_recursive(3, 8, 3, |inner| {
        let entry = ("[a-c]{1,2}", inner.clone()).prop_map(|(key, value)| Both {
            protobuf: [field(1, key.as_bytes()), field(2, &value.protobuf)].concat(),
            json: json!({"key": key, "value": value.json}),
        });
        prop_oneof![
            collection::vec(inner, 0..3).prop_map(|values| {
                let (protobuf, values) = list(1, &values);
                Both { protobuf: field(5, &protobuf), json: json!({"arrayValue": {"values": values}}) }
            }),
            collection::vec(entry, 0..3).prop_map(|entries| {
                let (protobuf, values) = list(1, &entries);
                Both { protobuf: field(6, &protobuf), json: json!({"kvlistValue": {"values": values}}) }
            }),
        ]
    });
    ("[a-z._0-9]{0,4}", value).prop_map(|(key, value)| Both {
        protobuf: [field(1, key.as_bytes()), field(2, &value.protobuf)].concat(),
        json: json!({"key": key, "value": value.json}),
    })
}

/// A data point. `attributes` and `flags` are the numbers of these fields.
fn point(attributes: u64, flags: u64, own: impl Strategy<Value = Both>) -> impl Strategy<Value = Both> {
    let time = prop_oneof![1_700_000_000_000_000_000..1_700_000_900_000_000_000_u64, any::<u64>()];
    (collection::vec(attribute(), 0..3), time, 0..2_u64, own).prop_map(move |(all, time, flag, own)| {
        let (protobuf, values) = list(attributes, &all);
        let protobuf = [protobuf, fixed64(3, time), number(flags, flag), own.protobuf].concat();
        let mut json = json!({"attributes": values, "timeUnixNano": time.to_string(), "flags": flag});
        json.as_object_mut().unwrap().extend(own.json.as_object().unwrap().clone());
        Both { protobuf, json }
    })
}

fn metric() -> impl Strategy<Value = Both> {
    let value = prop_oneof![
        any::<i64>().prop_map(|value| Both {
            protobuf: fixed64(6, value as u64),
            json: json!({"asInt": value.to_string()})
        }),
        (-1e300..1e300_f64).prop_map(|value| Both {
            protobuf: fixed64(4, value.to_bits()),
            json: json!({"asDouble": value})
        }),
    ];
    let histogram = (any::<u64>(), collection::vec(any::<u64>(), 0..4), collection::vec(-9.0..9.0_f64, 0..4))
        .prop_map(|(count, counts, bounds)| {
            let packed =
                |numbers: Vec<u64>| numbers.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
            let bits = bounds.iter().map(|bound| bound.to_bits()).collect();
            let protobuf = [
                fixed64(4, count),
                fixed64(5, 2.5_f64.to_bits()),
                field(6, &packed(counts.clone())),
                field(7, &packed(bits)),
            ];
            let json = json!({"count": count, "sum": 2.5, "bucketCounts": counts, "explicitBounds": bounds});
            Both { protobuf: protobuf.concat(), json }
        });
    let summary = (any::<u64>(), 0.0..1.0_f64).prop_map(|(count, quantile)| {
        let quantiles = [fixed64(1, quantile.to_bits()), fixed64(2, 7.5_f64.to_bits())].concat();
        let protobuf = [fixed64(4, count), fixed64(5, 1.5_f64.to_bits()), field(6, &quantiles)].concat();
        let json = json!({"count": count.to_string(), "sum": 1.5, "quantileValues": [{"quantile": quantile, "value": 7.5}]});
        Both { protobuf, json }
    });
    let data = |number: u64, name: &'static str, more: &[(u64, &'static str, u64)]| {
        let more = more.to_vec();
        move |points: Vec<Both>| {
            let (mut protobuf, points) = list(1, &points);
            let mut json = json!({"dataPoints": points});
            for (field, name, value) in &more {
                protobuf.extend(self::number(*field, *value));
                json[*name] = if *field == 3 { json!(*value != 0) } else { json!(value) };
            }
            Both { protobuf: field(number, &protobuf), json: json!({name: json}) }
        }
    };
    let some = 0..3;
    let kinds = prop_oneof![
        collection::vec(point(7, 8, value.clone()), some.clone()).prop_map(data(5, "gauge", &[])),
        collection::vec(point(7, 8, value.clone()), some.clone()).prop_map(data(
            7,
            "sum",
            &[(2, "aggregationTemporality", 2), (3, "isMonotonic", 1)]
        )),
        collection::vec(point(7, 8, value), some.clone()).prop_map(data(
            7,
            "sum",
            &[(2, "aggregationTemporality", 1)]
        )),
        collection::vec(point(9, 10, histogram), some.clone()).prop_map(data(
            9,
            "histogram",
            &[(2, "aggregationTemporality", 2)]
        )),
        collection::vec(point(7, 8, summary), some).prop_map(data(11, "summary", &[])),
    ];
    ("[a-z._0-9]{0,6}", prop::sample::select(vec!["", "1", "By/s", "ms", "{x}"]), kinds).prop_map(
        |(name, unit, kind)| {
            let mut json = json!({"name": name, "unit": unit, "description": "told"});
            json.as_object_mut().unwrap().extend(kind.json.as_object().unwrap().clone());
            let texts = [field(1, name.as_bytes()), field(2, b"told"), field(3, unit.as_bytes())];
            Both { protobuf: [texts.concat(), kind.protobuf].concat(), json }
        },
    )
}

fn request() -> impl Strategy<Value = Both> {
    let of_resource = (collection::vec(attribute(), 0..3), collection::vec(metric(), 0..4), any::<bool>());
    let resource = of_resource.prop_map(|(mut attributes, metrics, has_service)| {
        if has_service {
            let service = [field(1, b"service.name"), field(2, &field(1, b"shop"))].concat();
            let json = json!({"key": "service.name", "value": {"stringValue": "shop"}});
            attributes.push(Both { protobuf: service, json });
        }
        let (attributes, attributes_json) = list(1, &attributes);
        let (metrics, metrics_json) = list(2, &metrics);
        Both {
            protobuf: [field(1, &attributes), field(2, &metrics)].concat(),
            json: json!({"resource": {"attributes": attributes_json}, "scopeMetrics": [{"metrics": metrics_json}]}),
        }
    });
    collection::vec(resource, 0..3).prop_map(|all| {
        let (protobuf, all) = list(1, &all);
        Both { protobuf, json: json!({"resourceMetrics": all, "later": {"unknown": [1]}}) }
    })
}

/// The same with protobuf's names of fields: `data_points` instead of `dataPoints`.
fn with_protobuf_names(json: Value) -> Value {
    let named = |name: String| -> String {
        let letter = |c: char| {
            if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() }
        };
        name.chars().map(letter).collect()
    };
    match json {
        Value::Array(all) => all.into_iter().map(with_protobuf_names).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (named(name), with_protobuf_names(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// The same with null for each default, except in a `oneof`: there, null and a default differ.
fn with_nulls(json: Value) -> Value {
    let is_default = |name: &str, value: &Value| {
        let defaults = [json!(""), json!(0), json!(false), json!([]), json!({})];
        !name.ends_with("Value") && defaults.contains(value)
    };
    match json {
        Value::Array(all) => all.into_iter().map(with_nulls).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let value = if is_default(&name, &value) { Value::Null } else { with_nulls(value) };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        other => other,
    }
}

/// The samples as texts, and the rejected data points.
fn translated(body: &[u8], encoding: Encoding, limits: Limits) -> Result<(Vec<String>, Rejected), OtlpError> {
    let request = read(body, encoding, limits)?;
    let mut all = Vec::new();
    let rejected = translate(&request, limits, &mut |one| {
        assert_eq!(check(one.labels), Ok(()), "{:?}", one.labels);
        assert!(one.labels.is_sorted() && one.labels.iter().all(|(_, value)| !value.is_empty()));
        all.push(format!("{:?} {:?} {:?}", one.labels, one.sample, one.metadata));
    })?;
    Ok((all, rejected))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn both_encodings_have_the_same_result(request in request()) {
        let json = request.json.to_string();
        let read_json = read(json.as_bytes(), Encoding::Json, ROOMY).unwrap();
        prop_assert_eq!(&read(&request.protobuf, Encoding::Protobuf, ROOMY).unwrap(), &read_json);
        for same in [with_protobuf_names(request.json.clone()), with_nulls(request.json.clone())] {
            let same = same.to_string();
            prop_assert_eq!(&read(same.as_bytes(), Encoding::Json, ROOMY).unwrap(), &read_json, "{}", same);
        }
        let one = translated(&request.protobuf, Encoding::Protobuf, ROOMY).unwrap();
        prop_assert_eq!(one, translated(json.as_bytes(), Encoding::Json, ROOMY).unwrap());
    }

    #[test]
    fn truncated_and_changed_bodies_do_not_panic(request in request(), at: prop::sample::Index, byte: u8) {
        for (mut body, encoding) in [(request.protobuf, Encoding::Protobuf), (request.json.to_string().into_bytes(), Encoding::Json)] {
            if body.is_empty() {
                continue;
            }
            let at = at.index(body.len());
            body[at] = byte;
            let _ = (translated(&body, encoding, ROOMY), translated(&body[..at], encoding, ROOMY));
        }
    }
}

fn gauge(points: usize, attributes: &[u8]) -> Vec<u8> {
    let point = [fixed64(3, 1_700_000_000_000_000_000), fixed64(4, 0), attributes.to_vec()].concat();
    let points = field(1, &point).repeat(points);
    field(1, &field(2, &field(2, &[field(1, b"m"), field(5, &points)].concat())))
}

#[test]
fn limits_are_enforced() {
    let result = |body: &[u8], encoding| translated(body, encoding, LIMITS).map(|(all, _)| all.len());
    assert_eq!(result(&gauge(900, b""), Encoding::Protobuf).unwrap(), 900);
    assert!(matches!(result(&gauge(1_000, b""), Encoding::Protobuf), Err(OtlpError::TooManyItems(1_000))));
    let attributes = field(7, b"").repeat(9_000);
    assert!(matches!(
        result(&gauge(1, &attributes), Encoding::Protobuf),
        Err(OtlpError::TooManyAttributes(8_000))
    ));
    let long = [field(1, b"a"), field(2, &field(1, &[b'x'; 1_000]))].concat();
    let body = gauge(200, &field(7, &long));
    assert!(matches!(result(&body, Encoding::Protobuf), Err(OtlpError::LabelsTooLarge(100_000))));
    // One data point with more buckets than samples are allowed.
    let buckets = [field(6, &[0; 8 * 2_000]), field(7, &[0; 8 * 2_000])].concat();
    let histogram = [field(1, &buckets), number(2, 2)].concat();
    let body = field(1, &field(2, &field(2, &[field(1, b"m"), field(9, &histogram)].concat())));
    assert!(matches!(result(&body, Encoding::Protobuf), Err(OtlpError::TooManySamples(1_000))));
    let objects = format!("{{\"resourceMetrics\":[{}{{}}]}}", "{},".repeat(2_000));
    let result = result(objects.as_bytes(), Encoding::Json);
    assert!(matches!(&result, Err(error @ OtlpError::TooManyObjects(2_000)) if error.is_too_large()));
}

/// A request in JSON with one resource.
fn request_of(attributes: &Value, metrics: &Value) -> String {
    let all = json!({"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]});
    json!({"resourceMetrics": [all]}).to_string()
}

#[test]
fn data_points_of_several_types_are_rejected() {
    let point = json!({"timeUnixNano": "1700000000000000000", "asDouble": 1.0});
    let of = |fields: &[&str]| {
        let metric = fields.iter().map(|field| ((*field).to_owned(), json!({"dataPoints": [&point]})));
        let metric: serde_json::Map<_, _> = metric.chain([("name".to_owned(), json!("m"))]).collect();
        let body = request_of(&json!([]), &json!([metric]));
        let (samples, rejected) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
        (samples.len(), rejected.data_points)
    };
    assert_eq!(of(&["gauge"]), (1, 0));
    // The deltas would be stored as a gauge.
    assert_eq!(of(&["gauge", "histogram"]), (0, 2));
}

#[test]
fn fields_that_a_type_lacks_are_ignored() {
    let metric = |field: &str, own: Value| {
        let mut point = json!({"timeUnixNano": "1700000000000000000", "count": "1"});
        point.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let mut data = json!({"dataPoints": [point], "aggregationTemporality": "?", "isMonotonic": "?"});
        if field == "histogram" {
            data["aggregationTemporality"] = json!(2);
        }
        json!({"name": field, field: data})
    };
    let metrics = json!([
        metric("gauge", json!({"asDouble": 1.0})),
        metric("histogram", json!({"bucketCounts": ["1"]})),
        metric("summary", json!({"sum": 1.0})),
        metric("exponentialHistogram", json!({})),
    ]);
    let body = request_of(&json!([]), &metrics);
    let (samples, rejected) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
    for name in ["gauge", "histogram_count", "summary_count"] {
        assert!(samples.iter().any(|sample| sample.contains(&format!("{name:?}"))), "{name}: {samples:?}");
    }
    assert_eq!(rejected.data_points, 1, "{rejected:?}");
}

#[test]
fn the_samples_of_a_data_point_belong_together() {
    let point = json!({
        "timeUnixNano": "1700000000000000000", "count": "2", "bucketCounts": ["1", "1"], "explicitBounds": [1.0],
    });
    let histogram = json!({"dataPoints": [point, point], "aggregationTemporality": 2});
    let attributes =
        json!(["service.name", "host.name"].map(|key| json!({"key": key, "value": {"stringValue": "x"}})));
    let body = request_of(&attributes, &json!([{"name": "m", "histogram": histogram}]));
    let request = read(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
    let mut points = Vec::new();
    translate(&request, ROOMY, &mut |one| points.push(one.point)).unwrap();
    // The count and two buckets of each, and `target_info`.
    let counts: Vec<usize> = points.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!((counts, points[6]), (vec![3, 3, 1], None));
    assert!(points[..6].iter().all(Option::is_some));
}

#[test]
fn infinite_bounds_are_written_as_in_prometheus() {
    let point = json!({
        "timeUnixNano": "1700000000000000000", "count": "3", "bucketCounts": ["1", "1", "1"],
        "explicitBounds": ["-Infinity", 0.5],
    });
    let histogram = json!({"dataPoints": [point], "aggregationTemporality": 2});
    let body = request_of(&json!([]), &json!([{"name": "m", "histogram": histogram}]));
    let (samples, _) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
    for bound in ["-Inf", "0.5", "+Inf"] {
        assert!(
            samples.iter().any(|sample| sample.contains(&format!("(\"le\", \"{bound}\")"))),
            "{samples:?}"
        );
    }
}

#[test]
fn target_info_needs_a_label_that_identifies_the_resource() {
    for (key, has) in [("host.name", false), ("job", true), ("instance", true)] {
        let point = json!({"timeUnixNano": "1700000000000000000", "asDouble": 1.0});
        let attributes = json!([{"key": key, "value": {"stringValue": "x"}}]);
        let body = request_of(&attributes, &json!([{"name": "m", "gauge": {"dataPoints": [point]}}]));
        let (samples, _) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
        assert_eq!(samples.iter().any(|sample| sample.contains("target_info")), has, "{key} {samples:?}");
    }
}

#[test]
fn texts_that_are_not_utf_8_cost_no_data_point() {
    let attribute = [field(1, b"a"), field(2, &field(1, b"x\xff"))].concat();
    let time = fixed64(3, 1_700_000_000_000_000_000);
    let point = [field(7, &attribute), time, fixed64(4, 1.0_f64.to_bits())].concat();
    let metric = [field(1, b"m"), field(2, b"\xff"), field(5, &field(1, &point))].concat();
    let body = field(1, &field(2, &field(2, &metric)));
    let (samples, rejected) = translated(&body, Encoding::Protobuf, ROOMY).unwrap();
    assert_eq!((samples.len(), rejected.data_points), (1, 0));
    assert!(samples[0].contains("x\u{fffd}"), "{samples:?}");
}

#[test]
fn surrogates_without_their_pair_cost_no_data_point() {
    for (escaped, text) in [
        (r"\ud83d", "\u{fffd}"),
        (r"\ude00x", "\u{fffd}x"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\ude00", "\u{1f600}"),
        (r"\ud7ff\ue000", "\u{d7ff}\u{e000}"),
    ] {
        let point = json!({
            "timeUnixNano": "1700000000000000000", "asDouble": 1.0,
            "attributes": [{"key": "a", "value": {"stringValue": "ESCAPED"}}],
        });
        let body = request_of(&json!([]), &json!([{"name": "m", "gauge": {"dataPoints": [point]}}]));
        let body = body.replace("ESCAPED", escaped);
        let (samples, rejected) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
        assert_eq!((samples.len(), rejected.data_points), (1, 0), "{escaped}");
        assert!(samples[0].contains(&format!("{text:?}")), "{escaped}: {samples:?}");
    }
}

#[test]
fn texts_of_json_are_strings_of_utf_8() {
    for name in [&b"\"\xff\""[..], b"\"\\n\xff\"", b"\"a\x01\"", b"1", b"[109]", b"\"\\ud83\""] {
        let before = br#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "#;
        let body = [&before[..], name, b"}]}]}]}"].concat();
        assert!(read(&body, Encoding::Json, ROOMY).is_err(), "{}", name.escape_ascii());
    }
}

#[test]
fn a_resource_that_comes_twice_has_one_sample_of_target_info_at_a_time() {
    const FIRST: u64 = 1_700_000_000_000_000_000;
    const NEXT: u64 = FIRST + 150_000_000_000;
    let resource = |version: &str, times: &[u64]| {
        let points: Vec<Value> =
            times.iter().map(|time| json!({"timeUnixNano": time.to_string(), "asDouble": 1.0})).collect();
        let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        json!({
            "resource": {"attributes": [attribute("service.name", "a"), attribute("version", version)]},
            "scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": points}}]}],
        })
    };
    let same = resource("1", &[FIRST]);
    let all = json!([same, same, resource("2", &[FIRST]), resource("1", &[FIRST, NEXT])]);
    let body = json!({"resourceMetrics": all}).to_string();
    let (samples, _) = translated(body.as_bytes(), Encoding::Json, ROOMY).unwrap();
    let is_info = |sample: &&String| sample.contains("target_info");
    assert_eq!(samples.iter().filter(is_info).count(), 3, "{samples:?}");
    // Each counts nevertheless: it was work.
    let long = resource("1", &[FIRST, FIRST + 100 * (NEXT - FIRST)]);
    let body = json!({"resourceMetrics": [long, long]}).to_string();
    let of = |samples_max| translated(body.as_bytes(), Encoding::Json, Limits { samples_max, ..ROOMY });
    assert_eq!(of(206).unwrap().0.len(), 105);
    let refused = of(205);
    assert!(matches!(refused, Err(OtlpError::TooManySamples(205))), "{refused:?}");
}

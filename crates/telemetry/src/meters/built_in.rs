//! Samples of notifications that no definition describes: Ironic's sensors, and HTTP requests as oslo.messaging's
//! middleware reports them.

use serde_json::Value;

use super::{
    definition::{Row, check_copies, sample, whole_payload},
    metadata::SampleOptions,
};
use crate::{
    definitions::{LookupError, python},
    notification::Notification,
    polling::ipmi,
    sample::Sample,
};

/// The beginning of the event types of Ironic's sensors.
const SENSORS: &str = "hardware.ipmi";
/// The beginnings of the event types of HTTP requests.
const REQUESTS: [&str; 2] = ["http.request", "http.response"];
const CURRENT: &str = "Current";
/// The sensors' types in a payload, with their meters.
const METERS: [(&str, &str); 4] = [
    ("Temperature", "hardware.ipmi.temperature"),
    ("Voltage", "hardware.ipmi.voltage"),
    (CURRENT, "hardware.ipmi.current"),
    ("Fan", "hardware.ipmi.fan"),
];
/// Fields of a payload that the samples of all its sensors repeat.
const COMMON: [&str; 5] = ["node_uuid", "event_type", "timestamp", "user_id", "project_id"];

/// Whether notifications of this type may have such samples.
pub fn matches(event_type: &str) -> bool {
    event_type.starts_with(SENSORS) || REQUESTS.iter().any(|request| event_type.starts_with(request))
}

/// Appends the samples of a notification.
pub fn add_samples(
    notification: &Notification<'_>,
    document: &Value,
    options: &SampleOptions,
    samples: &mut Vec<Sample<'static>>,
) -> Result<(), LookupError> {
    if !matches(&notification.event_type) {
        return Ok(());
    }
    if !notification.event_type.starts_with(SENSORS) {
        let row = request(&notification.event_type, &document["payload"])?;
        let at = samples.len();
        samples.push(sample(row, notification, document, whole_payload(document), options, at)?);
        return Ok(());
    }
    let payload = &document["payload"];
    let mut sensors: Vec<(&str, &str, &Value)> = Vec::new();
    for (kind, meter) in METERS {
        let of_kind = payload["payload"][kind].as_object().into_iter().flatten();
        sensors.extend(of_kind.map(|(_, sensor)| (kind, meter, sensor)));
    }
    check_copies(&COMMON.map(|field| payload.get(field)), sensors.len())?;
    for (kind, meter, sensor) in sensors {
        let row = match sensor_row(payload, kind, meter, sensor) {
            Ok(Some(row)) => row,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(error, meter, "no sample of a sensor");
                continue;
            }
        };
        let mut metadata = sensor.as_object().cloned().unwrap_or_default();
        metadata.insert("node".to_owned(), payload["node_uuid"].clone());
        metadata.insert("event_type".to_owned(), payload["event_type"].clone());
        metadata.insert("host".to_owned(), document["publisher_id"].clone());
        let at = samples.len();
        samples.push(sample(row, notification, document, metadata, options, at)?);
    }
    Ok(())
}

/// A request counts as one, of the service that it was made to.
fn request(event_type: &str, payload: &Value) -> Result<Row, LookupError> {
    let request = payload["request"].as_object();
    let request = request.ok_or_else(|| LookupError("the payload has no request".to_owned()))?;
    let header = |name: &str| request.get(name).cloned().unwrap_or_default();
    let unit = event_type.split('.').nth(1).unwrap_or_default();
    Ok([
        event_type.into(),
        "delta".into(),
        1.into(),
        unit.into(),
        Value::Null,
        header("HTTP_X_USER_ID"),
        header("HTTP_X_PROJECT_ID"),
        header("HTTP_X_SERVICE_NAME"),
    ])
}

/// `Ok(None)` for a sensor without a value, and for one that is counted elsewhere. The error says what is wrong.
fn sensor_row(payload: &Value, kind: &str, meter: &str, sensor: &Value) -> Result<Option<Row>, String> {
    let text = |key: &str| sensor.get(key).and_then(Value::as_str).ok_or_else(|| format!("no {key}"));
    let node = python::text(payload.get("node_uuid").ok_or("no node_uuid")?);
    let id = text("Sensor ID")?;
    // Power sensors are listed among the currents.
    if kind == CURRENT && id.contains(ipmi::POWER) {
        return Ok(None);
    }
    let reading = text("Sensor Reading")?;
    if reading == "Disabled" {
        return Ok(None);
    }
    let parsed = ipmi::parsed_reading(reading);
    let (value, unit) = parsed.ok_or_else(|| format!("the reading {reading} is no number with a unit"))?;
    Ok(Some([
        meter.into(),
        "gauge".into(),
        value.into(),
        unit.into(),
        payload["timestamp"].clone(),
        payload["user_id"].clone(),
        payload["project_id"].clone(),
        format!("{node}-{}", ipmi::id_part(id)).into(),
    ]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{meters::MeterDefinitions, notification::read};

    fn made(event_type: &str, payload: &Value) -> Result<Vec<Sample<'static>>, LookupError> {
        let message = json!({"publisher_id": "p", "event_type": event_type, "priority": "info", "message_id": "m",
            "timestamp": "2026-01-02 03:04:05", "payload": payload});
        let message = message.to_string();
        let notification = read(&message).unwrap();
        let meters = MeterDefinitions::shipped(SampleOptions::default()).unwrap();
        assert!(meters.matches(event_type));
        let made = meters.samples(&notification, &notification.document().unwrap())?;
        assert!(made.looked_up.is_empty());
        Ok(made.samples)
    }

    #[test]
    fn sensors_of_ironic_make_samples() {
        let payload = json!({
            "node_uuid": "n", "timestamp": "2026-01-01T00:00:00", "event_type": "hardware.ipmi.metrics.update",
            "payload": {
                "Temperature": {
                    "a": {"Sensor ID": "Inlet Temp (0x5)", "Sensor Reading": "21 (+/- 1) degrees C", "Status": "ok"},
                    "b": {"Sensor ID": "Off (0x6)", "Sensor Reading": "Disabled"},
                    "c": {"Sensor Reading": "21 (+/- 1) degrees C"},
                    "d": 5,
                },
                "Current": {
                    "a": {"Sensor ID": "Pwr Consumption (0x76)", "Sensor Reading": "154 (+/- 0) Watts"},
                    "b": {"Sensor ID": "Current 1", "Sensor Reading": "0.7 (+/- 0) Amps"},
                },
                "Fan": {"a": {"Sensor ID": "Fan 1", "Sensor Reading": "fast"}},
                "Voltage": {"a": {"Sensor ID": "Volt", "Sensor Reading": "230 (+/- 0) Volts"}},
                "Power": {"a": {"Sensor ID": "Power", "Sensor Reading": "1 (+/- 0) Watts"}},
            },
        });
        let samples = made("hardware.ipmi.metrics", &payload).unwrap();
        let told: Vec<_> = samples.iter().map(|one| (&*one.name, &*one.resource_id, &*one.unit)).collect();
        let expected = [
            ("hardware.ipmi.temperature", "n-inlet_temp_(0x5)", "C"),
            ("hardware.ipmi.voltage", "n-volt", "V"),
            ("hardware.ipmi.current", "n-current_1", "Amps"),
        ];
        assert_eq!(told, expected);
        let first = &samples[0];
        assert_eq!(
            (&first.volume, first.timestamp.as_deref()),
            (&json!(21.0), Some("2026-01-01T00:00:00+00:00"))
        );
        let metadata = json!({"Sensor ID": "Inlet Temp (0x5)", "Sensor Reading": "21 (+/- 1) degrees C", "Status": "ok",
            "node": "n", "event_type": "hardware.ipmi.metrics.update", "host": "p"});
        assert_eq!(Value::Object(first.resource_metadata.map().into_owned()), metadata);
        assert!(made("hardware.ipmi.metrics", &json!({})).unwrap().is_empty());
    }

    #[test]
    fn copies_of_what_sensors_have_in_common_are_limited() {
        let sensor = json!({"Sensor ID": "a", "Sensor Reading": "1 V"});
        let sensors: serde_json::Map<String, Value> =
            (0..100).map(|number: i32| (number.to_string(), sensor.clone())).collect();
        let payload = |node: &str| json!({"node_uuid": node, "payload": {"Fan": sensors}});
        assert_eq!(made("hardware.ipmi.metrics", &payload("n")).unwrap().len(), 100);
        let error = made("hardware.ipmi.metrics", &payload(&"n".repeat(1 << 20))).unwrap_err();
        assert!(error.0.contains("in common"), "{error}");
    }

    #[test]
    fn requests_are_counted() {
        let payload =
            json!({"request": {"HTTP_X_USER_ID": "u", "HTTP_X_PROJECT_ID": "p", "HTTP_X_SERVICE_NAME": "s"}});
        for (event_type, unit) in [("http.request", "request"), ("http.response", "response")] {
            let samples = made(event_type, &payload).unwrap();
            let [sample] = &samples[..] else { panic!("{event_type}") };
            assert_eq!((&*sample.name, sample.kind.name(), &*sample.unit), (event_type, "delta", unit));
            assert_eq!((&sample.volume, &*sample.resource_id), (&json!(1), "s"));
            assert_eq!((sample.user_id.as_deref(), sample.project_id.as_deref()), (Some("u"), Some("p")));
            assert_eq!(sample.resource_metadata.map()["request"], payload["request"]);
        }
        assert!(made("http.request", &json!({})).is_err());
    }
}

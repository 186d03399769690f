//! Benchmark: the notification agent reads messages of samples (`cargo run --release --workspace --example
//! notification_speed`).
//!
//! Each line is the best of several rounds over the messages of 5,000 instances, on one core, in nanoseconds per
//! sample. The publisher discards them.

use std::{hint::black_box, sync::Arc, time::Instant};

use gnudi_telemetry::{
    messaging::envelope::{self, OsloMessage, Version},
    notification::{Duplicates, Figures, MessageHandler, MetadataMemory},
    publishers::TestPublisher,
};
use serde_json::{Value, json, value::to_raw_value};

const INSTANCES: u32 = 5_000;
const SAMPLES: u32 = 50;
const ROUNDS: u32 = 40;

fn main() {
    let known = messages(Version::Two, |_| json!("active"));
    let bare = messages(Version::Bare, |_| json!("active"));
    println!("{:>8.0} ns  the envelope 2.0, metadata as before", nanoseconds(|_| &known));
    println!("{:>8.0} ns  bare, as envelope 1.0", nanoseconds(|_| &bare));
    let others: Vec<Vec<Vec<u8>>> =
        (0..2).map(|round| messages(Version::Two, |_| json!(["active", "paused"][round]))).collect();
    println!(
        "{:>8.0} ns  2.0, metadata that changes each time",
        nanoseconds(|round| &others[round as usize % 2])
    );
}

fn nanoseconds<'a>(messages: impl Fn(u32) -> &'a Vec<Vec<u8>>) -> f64 {
    let handler = MessageHandler {
        pipelines: Arc::new(TestPublisher),
        meters: None,
        names: None,
        events: None,
        figures: Arc::new(Figures::default()),
        duplicates: Duplicates::default().into(),
        metadata: MetadataMemory::default(),
    };
    let round = |round| {
        let begun = Instant::now();
        for body in messages(round) {
            black_box(handler.attempt(body, 0));
        }
        begun.elapsed().as_secs_f64()
    };
    let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    assert!(handler.figures.samples.get() == u64::from(INSTANCES * ROUNDS), "all samples are read");
    best * 1e9 / f64::from(INSTANCES)
}

fn messages(version: Version, state: impl Fn(u32) -> Value) -> Vec<Vec<u8>> {
    let message = |first: u32| {
        let samples: Vec<Value> =
            (first..first + SAMPLES).map(|instance| sample(instance, &state(instance))).collect();
        let payload = to_raw_value(&json!({ "samples": samples })).expect("JSON");
        let sealed = OsloMessage {
            request_id: None,
            message_id: &uuid(1, first),
            publisher_id: "ceilometer.polling",
            event_type: "telemetry.polling",
            priority: "SAMPLE",
            payload: &payload,
            timestamp: "2026-01-01 00:00:00.000000",
            unique_id: &uuid(2, first),
        };
        envelope::seal(&sealed, version)
    };
    (0..INSTANCES / SAMPLES).map(|chunk| message(chunk * SAMPLES)).collect()
}

fn uuid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

/// With the metadata that Ceilometer's instance discovery gives.
fn sample(instance: u32, state: &Value) -> Value {
    let id = uuid(3, instance);
    json!({
        "source": "openstack", "counter_name": "cpu", "counter_type": "cumulative", "counter_unit": "ns",
        "counter_volume": 1_234_567_890_u64 + u64::from(instance), "user_id": "0123456789abcdef0123456789abcdef",
        "user_name": null, "project_id": format!("{:032x}", instance / 20), "project_name": null, "resource_id": id,
        "timestamp": "2026-01-01T00:00:00.123456",
        "resource_metadata": {
            "display_name": format!("server-{instance}"), "name": format!("instance-{instance:08x}"), "instance_id": id,
            "instance_type": "m1.small", "host": "c3f1a7d9", "instance_host": "compute-17",
            "flavor": {"id": "4b5e", "name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 0, "swap": 0},
            "status": state, "state": "running", "task_state": "", "image": {"id": "7f00"}, "image_ref": "7f00",
            "image_ref_url": null, "architecture": "x86_64", "OS-EXT-AZ:availability_zone": "nova", "vcpus": 2,
            "memory_mb": 2048, "disk_gb": 20, "ephemeral_gb": 0, "root_gb": 20,
        },
        "message_id": uuid(4, instance), "monotonic_time": null, "message_signature": "0".repeat(64),
    })
}

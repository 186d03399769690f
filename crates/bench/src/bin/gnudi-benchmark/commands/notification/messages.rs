//! The messages in the queue: those of a polling agent, identified by number.

use std::ops::Range;

use anyhow::Result;
use lapin::{
    BasicProperties, Channel, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::FieldTable,
};
use uuid::Uuid;

use crate::{
    context::Context,
    peers::rabbitmq::{self, RabbitMq},
};

pub const QUEUE: &str = "notifications.sample";
/// Per message.
pub const SAMPLES: u32 = 50;
/// Name, type and unit.
pub const METERS: [(&str, &str, &str); 4] = [
    ("cpu", "cumulative", "ns"),
    ("memory.usage", "gauge", "MB"),
    ("power.state", "gauge", "state"),
    ("vcpus", "gauge", "vcpu"),
];

/// Number of messages with each meter of each instance once.
pub fn round(instances: u32) -> u32 {
    instances.div_ceil(SAMPLES) * METERS.len() as u32
}

pub struct Content {
    round: u32,
    /// Index in `METERS`.
    pub meter: usize,
    /// The instance of the first sample; the others follow.
    first: u32,
    instances: u32,
}

impl Content {
    pub fn new(number: u32, instances: u32) -> Self {
        let chunks = instances.div_ceil(SAMPLES);
        let in_round = round(instances);
        let (round, place) = (number / in_round, number % in_round);
        Content { round, meter: (place / chunks) as usize, first: place % chunks * SAMPLES, instances }
    }

    /// ISO 8601, up to the minute; each round is one minute.
    pub fn minute(&self) -> String {
        let minutes = self.round % (28 * 24 * 60);
        let (day, hour, minute) = (1 + minutes / 1_440, minutes / 60 % 24, minutes % 60);
        format!("2026-02-{day:02}T{hour:02}:{minute:02}")
    }

    pub fn resource(&self, index: u32) -> Uuid {
        resource(self.instance(index))
    }

    fn instance(&self, index: u32) -> u32 {
        (self.first + index) % self.instances
    }
}

fn resource(instance: u32) -> Uuid {
    Uuid::from_u64_pair(2, u64::from(instance))
}

/// Publishes messages with these numbers until the run is stopped; returns how many.
pub fn fill(context: &Context, broker: &RabbitMq, instances: u32, numbers: Range<u32>) -> Result<u32> {
    const UNCONFIRMED_MAX: usize = 1_000;
    eprintln!("filling the queue: {} messages", numbers.len());
    context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channel.queue_declare(QUEUE.into(), QueueDeclareOptions::default(), FieldTable::default()).await?;
        let mut confirms = Vec::new();
        let mut filled = 0;
        for number in numbers.take_while(|_| !context.stop.is_set()) {
            confirms.push(publish(&channel, &message(number, instances)).await?);
            filled += 1;
            if confirms.len() >= UNCONFIRMED_MAX {
                for confirm in confirms.drain(..) {
                    confirm.await?;
                }
            }
        }
        for confirm in confirms {
            confirm.await?;
        }
        Ok(filled)
    })
}

async fn publish(channel: &Channel, body: &str) -> Result<PublisherConfirm> {
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    Ok(channel.basic_publish("".into(), QUEUE.into(), options, body.as_bytes(), properties).await?)
}

/// A message in the form of `ceilometer.polling`: one meter of 50 instances. Messages iterate over instances and
/// meters; each round is a minute later.
fn message(number: u32, instances: u32) -> String {
    let content = Content::new(number, instances);
    let timestamp = format!("{}:00.123456", content.minute());
    let samples: Vec<serde_json::Value> = (0..SAMPLES)
        .map(|index| {
            let volume = f64::from(content.round) + f64::from(index) / 64.0;
            sample(METERS[content.meter], &timestamp, content.instance(index), volume)
        })
        .collect();
    let id = Uuid::from_u64_pair(1, u64::from(number));
    let inner = serde_json::json!({
        "message_id": id, "publisher_id": "ceilometer.polling", "event_type": "telemetry.polling", "priority": "SAMPLE",
        "payload": { "samples": samples }, "timestamp": timestamp.replace('T', " "),
        "_unique_id": id.simple().to_string(),
    });
    serde_json::json!({ "oslo.version": "2.0", "oslo.message": inner.to_string() }).to_string()
}

fn sample(
    (name, kind, unit): (&str, &str, &str),
    timestamp: &str,
    instance: u32,
    volume: f64,
) -> serde_json::Value {
    let resource = resource(instance).to_string();
    let project = format!("{:032x}", 7 + instance / 20);
    serde_json::json!({
        "counter_name": name, "counter_type": kind, "counter_unit": unit, "counter_volume": volume,
        "user_id": "0123456789abcdef0123456789abcdef", "user_name": null, "project_id": project, "project_name": null,
        "resource_id": resource, "timestamp": timestamp, "monotonic_time": null, "source": "openstack",
        "message_id": Uuid::from_u64_pair(3, u64::from(instance)).to_string(), "message_signature": "",
        "resource_metadata": {
            "display_name": format!("server-{instance}"), "name": format!("instance-{instance:08x}"),
            "instance_id": resource, "instance_type": "m1.small", "host": "c3f1a7d9", "instance_host": "compute-17",
            "flavor": {"id": "4b5e", "name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 0, "swap": 0},
            "status": "active", "state": "running", "task_state": "", "image": {"id": "7f00"}, "image_ref": "7f00",
            "image_ref_url": null, "architecture": "x86_64", "OS-EXT-AZ:availability_zone": "nova",
            "vcpus": 2, "memory_mb": 2048, "disk_gb": 20, "ephemeral_gb": 0, "root_gb": 20,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_round_holds_each_meter_of_each_instance() {
        let mut seen = HashSet::new();
        for number in 0..8 {
            let outer: Value = serde_json::from_str(&message(number, 100)).unwrap();
            let inner: Value = serde_json::from_str(outer["oslo.message"].as_str().unwrap()).unwrap();
            for sample in inner["payload"]["samples"].as_array().unwrap() {
                seen.insert((sample["counter_name"].to_string(), sample["resource_id"].to_string()));
                assert_eq!(sample["timestamp"], "2026-02-01T00:00:00.123456");
            }
        }
        assert_eq!(seen.len(), 400);
        assert!(message(8, 100).contains("2026-02-01T00:01:00"));
    }
}

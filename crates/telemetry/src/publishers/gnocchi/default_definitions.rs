//! Ceilometer's default definitions: meters, archive policies, resource types, and the attributes in samples and
//! events. A compact form of `gnocchi_resources.yaml`; a test compares the two.

use serde_json::{Map, Value, json};

/// The default archive policy.
pub const ARCHIVE_POLICY_DEFAULT: &str = "ceilometer-low";

/// The policy of counters, with rates.
const ARCHIVE_POLICY_RATE: &str = "ceilometer-low-rate";

/// One resource type.
struct ShippedType {
    name: &'static str,
    /// Names, grouped by prefix: `("disk.device.", "usage capacity")`.
    metrics: &'static [(&'static str, &'static str)],
    /// The same for metrics with rates.
    rates: &'static [(&'static str, &'static str)],
    /// Attributes, and their paths in sample metadata where these differ from the name.
    attributes: &'static [(&'static str, &'static str)],
    create: &'static [&'static str],
    update: &'static [&'static str],
    delete: &'static [&'static str],
    /// Attributes, and the event traits they come from where these differ.
    event_attributes: &'static [(&'static str, &'static str)],
    /// Types whose resources end with this one, and the attribute that refers to it.
    associated: &'static [(&'static str, &'static str)],
}

const KINDS: &[ShippedType] = &[
    ShippedType {
        name: "identity",
        metrics: &[
            ("identity.authenticate.", "success pending failure"),
            ("identity.user.", "created deleted updated"),
            ("identity.group.", "created deleted updated"),
            ("identity.role.", "created deleted updated"),
            ("identity.project.", "created deleted updated"),
            ("identity.trust.", "created deleted"),
            ("identity.role_assignment.", "created deleted"),
        ],
        ..NOTHING
    },
    ShippedType {
        name: "ceph_account",
        metrics: &[(
            "radosgw.",
            "objects objects.size objects.containers api.request containers.objects containers.objects.size",
        )],
        ..NOTHING
    },
    ShippedType {
        name: "instance",
        metrics: &[
            ("", "memory vcpus power.state compute.instance.booting.time"),
            ("memory.", "available usage resident swap.in swap.out"),
            ("disk.", "root.size ephemeral.size latency iops capacity allocation usage"),
            ("perf.", "cpu.cycles instructions cache.references cache.misses"),
        ],
        rates: &[("", "cpu")],
        attributes: &[
            ("host", "(instance_host|host)"),
            ("image_ref", ""),
            ("launched_at", ""),
            ("created_at", ""),
            ("deleted_at", ""),
            ("display_name", ""),
            ("flavor_id", "(instance_flavor_id|(flavor.id)|flavor_id)"),
            ("flavor_name", "(instance_type|(flavor.name)|flavor_name)"),
            ("server_group", "user_metadata.server_group"),
        ],
        create: &["compute.instance.create.end"],
        delete: &["compute.instance.delete.start"],
        event_attributes: &[
            ("id", "instance_id"),
            ("display_name", ""),
            ("host", ""),
            ("availability_zone", ""),
            ("flavor_id", "instance_flavor_id"),
            ("flavor_name", "instance_type"),
            ("user_id", ""),
            ("project_id", ""),
        ],
        associated: &[("instance_network_interface", "instance_id"), ("instance_disk", "instance_id")],
        ..NOTHING
    },
    ShippedType {
        name: "instance_network_interface",
        rates: &[
            ("network.outgoing.", "packets packets.drop packets.error bytes"),
            ("network.incoming.", "packets packets.drop packets.error bytes"),
        ],
        attributes: &[("name", "vnic_name"), ("instance_id", "")],
        ..NOTHING
    },
    ShippedType {
        name: "instance_disk",
        metrics: &[("disk.device.", "read.latency write.latency capacity allocation usage")],
        rates: &[("disk.device.", "read.requests write.requests read.bytes write.bytes")],
        attributes: &[("name", "disk_name"), ("instance_id", "")],
        ..NOTHING
    },
    ShippedType {
        name: "image",
        metrics: &[("image.", "size download serve")],
        attributes: &[("name", ""), ("container_format", ""), ("disk_format", "")],
        delete: &["image.delete"],
        event_attributes: &[("id", "resource_id")],
        ..NOTHING
    },
    ShippedType {
        name: "ipmi",
        metrics: &[(
            "hardware.ipmi.node.",
            "power temperature inlet_temperature outlet_temperature fan current voltage airflow cups cpu_util \
             mem_util io_util",
        )],
        ..NOTHING
    },
    ShippedType {
        name: "ipmi_sensor",
        metrics: &[("hardware.ipmi.", "power temperature current voltage fan")],
        attributes: &[("node", "")],
        ..NOTHING
    },
    ShippedType {
        name: "network",
        metrics: &[("", "bandwidth ip.floating")],
        delete: &["floatingip.delete.end"],
        event_attributes: &[("id", "resource_id")],
        ..NOTHING
    },
    ShippedType { name: "stack", metrics: &[("stack.", "create update delete resume suspend")], ..NOTHING },
    ShippedType {
        name: "swift_account",
        metrics: &[
            ("storage.objects", " .incoming.bytes .outgoing.bytes .size .containers"),
            ("storage.containers.objects", " .size"),
        ],
        attributes: &[("storage_policy", "")],
        ..NOTHING
    },
    ShippedType {
        name: "volume",
        metrics: &[
            ("", "volume volume.size snapshot.size volume.snapshot.size volume.backup.size backup.size"),
            ("volume.manage_existing", ".start .end _snapshot.start _snapshot.end"),
        ],
        attributes: &[
            ("display_name", "(display_name|name)"),
            ("volume_type", ""),
            ("volume_type_id", ""),
            ("image_id", ""),
            ("instance_id", ""),
        ],
        update: &["volume.transfer.accept.end", "snapshot.transfer.accept.end"],
        delete: &["volume.delete.end", "snapshot.delete.end"],
        event_attributes: &[("id", "resource_id"), ("project_id", "")],
        ..NOTHING
    },
    ShippedType {
        name: "volume_provider",
        metrics: &[("volume.provider.capacity.", "total free allocated provisioned virtual_free")],
        ..NOTHING
    },
    ShippedType {
        name: "volume_provider_pool",
        metrics: &[("volume.provider.pool.capacity.", "total free allocated provisioned virtual_free")],
        attributes: &[("provider", "")],
        ..NOTHING
    },
    ShippedType {
        name: "nova_compute",
        metrics: &[(
            "compute.node.cpu.",
            "frequency percent idle.percent idle.time iowait.percent iowait.time kernel.percent kernel.time \
             user.percent user.time",
        )],
        attributes: &[("host_name", "host")],
        ..NOTHING
    },
    ShippedType {
        name: "manila_share",
        metrics: &[("manila.share.", "size status")],
        attributes: &[
            ("name", ""),
            ("host", ""),
            ("status", ""),
            ("availability_zone", ""),
            ("protocol", ""),
        ],
        ..NOTHING
    },
    ShippedType {
        name: "loadbalancer",
        metrics: &[("loadbalancer.", "operating provisioning")],
        attributes: &[("name", ""), ("availability_zone", ""), ("vip_address", ""), ("provider", "")],
        delete: &["octavia.loadbalancer.delete.end"],
        event_attributes: &[("id", "resource_id")],
        ..NOTHING
    },
    ShippedType {
        name: "volume_service",
        metrics: &[("volume.service.", "health")],
        attributes: &[("host", ""), ("binary", ""), ("zone", ""), ("status", "")],
        ..NOTHING
    },
    ShippedType {
        name: "dns_zone",
        metrics: &[("dns.zone.", "status recordsets ttl serial")],
        attributes: &[("zone_name", "name"), ("email", ""), ("zone_type", "type"), ("pool_id", "")],
        delete: &["dns.zone.delete"],
        event_attributes: &[("id", "resource_id")],
        ..NOTHING
    },
];

const NOTHING: ShippedType = ShippedType {
    name: "",
    metrics: &[],
    rates: &[],
    attributes: &[],
    create: &[],
    update: &[],
    delete: &[],
    event_attributes: &[],
    associated: &[],
};

/// The default definitions, in the form of the file.
pub fn definitions() -> Value {
    let low = json!([{ "granularity": "5 minutes", "timespan": "30 days" }]);
    let high = json!([
        { "granularity": "1 second", "timespan": "1 hour" },
        { "granularity": "1 minute", "timespan": "1 day" },
        { "granularity": "1 hour", "timespan": "365 days" },
    ]);
    let policy = |name: &str, definition: &Value, methods: &[&str]| json!({ "name": name, "aggregation_methods": methods, "back_window": 0, "definition": definition });
    json!({
        "archive_policy_default": ARCHIVE_POLICY_DEFAULT,
        "archive_policies": [
            policy(ARCHIVE_POLICY_DEFAULT, &low, &["mean"]),
            policy(ARCHIVE_POLICY_RATE, &low, &["mean", "rate:mean"]),
            policy("ceilometer-high", &high, &["mean"]),
            policy("ceilometer-high-rate", &high, &["mean", "rate:mean"]),
        ],
        "resources": KINDS.iter().map(spell_out).collect::<Vec<_>>(),
    })
}

fn spell_out(kind: &ShippedType) -> Value {
    let mut metrics = Map::new();
    for (groups, extra) in
        [(kind.metrics, Value::Null), (kind.rates, json!({ "archive_policy_name": ARCHIVE_POLICY_RATE }))]
    {
        // A name may be the prefix alone.
        let names = groups
            .iter()
            .flat_map(|(front, names)| names.split(' ').map(move |name| format!("{front}{name}")));
        metrics.extend(names.map(|name| (name, extra.clone())));
    }
    let mut out = Map::from_iter([
        ("resource_type".to_owned(), kind.name.into()),
        ("metrics".to_owned(), Value::Object(metrics)),
    ]);
    let mut put = |key: &str, pairs: Map<String, Value>| {
        if !pairs.is_empty() {
            out.insert(key.to_owned(), Value::Object(pairs));
        }
    };
    let named = |pairs: &[(&str, &str)], prefix: &str| -> Map<String, Value> {
        let path =
            |(name, path): &(&str, &str)| format!("{prefix}{}", if path.is_empty() { name } else { path });
        pairs.iter().map(|pair| (pair.0.to_owned(), path(pair).into())).collect()
    };
    put("attributes", named(kind.attributes, "resource_metadata."));
    put("event_attributes", named(kind.event_attributes, ""));
    let query = |attribute: &str| format!(r#"{{"=": {{"{attribute}": "%s"}}}}"#).into();
    let associated = kind.associated.iter().map(|(name, attribute)| ((*name).to_owned(), query(attribute)));
    put("event_associated_resources", associated.collect());
    for (key, events) in
        [("event_create", kind.create), ("event_update", kind.update), ("event_delete", kind.delete)]
    {
        match events {
            [] => {}
            [one] => drop(out.insert(key.to_owned(), (*one).into())),
            several => drop(out.insert(key.to_owned(), json!(several))),
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_and_metrics_are_there() {
        let definitions = definitions();
        let resources = definitions["resources"].as_array().unwrap();
        let metrics = resources.iter().map(|resource| resource["metrics"].as_object().unwrap().len());
        assert_eq!((resources.len(), metrics.sum::<usize>()), (19, 136));
        assert_eq!(resources[10]["metrics"].as_object().unwrap().get("storage.objects"), Some(&Value::Null));
        assert_eq!(resources[2]["attributes"]["host"], "resource_metadata.(instance_host|host)");
    }
}

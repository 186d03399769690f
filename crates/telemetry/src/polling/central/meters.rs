//! Meters of listed resources.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::statuses::{self, Statuses};
use crate::{
    polling::{
        pollster::{Meter, OfEach, Pollster, owned},
        resource::Resource,
    },
    sample::Sample,
};

/// Where the volume comes from.
#[derive(Clone, Copy)]
enum Volume {
    One,
    /// A field. No sample if it is null: Ceilometer's notification agent drops the sample that its polling agent sends.
    Field(&'static str),
    /// A field; 0 if null.
    FieldOrZero(&'static str),
    Status(&'static str, Statuses),
}

#[derive(Clone, Copy)]
struct Listed {
    meter: Meter,
    discovery: &'static str,
    volume: Volume,
    /// The owner's fields: project, then user.
    project: &'static [&'static str],
    user: &'static str,
    /// Metadata fields separated by spaces; `name=field` if the field has another name.
    fields: &'static str,
}

const PROJECT: &[&str] = &["project_id", "tenant_id"];

// Metadata fields by their sample names; `name=field` if the field has another name.
const IMAGE: &str = "\
    status visibility name container_format created_at disk_format updated_at min_disk \
    is_protected=protected checksum min_ram tags virtual_size";
const VOLUME: &str = "\
    name status volume_type volume_type_id availability_zone \
    migration_status=os-vol-mig-status-attr:migstat attachments snapshot_id os-vol-host-attr:host \
    source_volid";
const SNAPSHOT: &str = "name volume_id status description metadata os-extended-snapshot-attributes:progress";
const BACKUP: &str = "name is_incremental object_count container volume_id status description";
const FLOATING_IP: &str = "router_id status floating_network_id fixed_ip_address port_id floating_ip_address";
const VPN: &str = "\
    is_admin_state_up=admin_state_up description name status subnet_id router_id flavor_id \
    external_v4_ip external_v6_ip";
const IPSEC: &str = "\
    name description peer_address peer_id peer_cidrs peer_ep_group_id initiator ikepolicy_id \
    ipsecpolicy_id vpnservice_id mtu is_admin_state_up=admin_state_up status project_id";
const FIREWALL: &str = "\
    admin_state_up description name status ingress_firewall_policy_id egress_firewall_policy_id";
const POLICY: &str = "name description firewall_rules shared audited";
const LOAD_BALANCER: &str = "\
    name availability_zone vip_address vip_port_id provisioning_status operating_status provider \
    flavor_id";
pub(super) const ZONE: &str = "name email ttl description type status action serial pool_id";
const SHARE: &str = "\
    name availability_zone protocol=share_proto share_type share_network_id status host is_public";

/// For resources with the usual owner fields.
const fn owned_by(meter: Meter, discovery: &'static str, volume: Volume, fields: &'static str) -> Listed {
    Listed { meter, discovery, volume, project: PROJECT, user: "", fields }
}

const fn with(listed: Listed, project: &'static [&'static str], user: &'static str) -> Listed {
    Listed { project, user, ..listed }
}

const SIZE: Volume = Volume::Field("size");

#[rustfmt::skip]
const LISTED: [Listed; 16] = [
    with(owned_by(Meter::gauge("image.size", "B"), "images", SIZE, IMAGE), &["owner"], ""),
    with(owned_by(Meter::gauge("volume.size", "GiB"), "volumes", SIZE, VOLUME), &["os-vol-tenant-attr:tenant_id"], "user_id"),
    with(owned_by(Meter::gauge("volume.snapshot.size", "GiB"), "volume_snapshots", SIZE, SNAPSHOT), &["os-extended-snapshot-attributes:project_id"], "user_id"),
    with(owned_by(Meter::gauge("volume.backup.size", "GiB"), "volume_backups", SIZE, BACKUP), &["os-backup-project-attr:project_id"], "user_id"),
    with(owned_by(Meter::gauge("ip.floating", "ip"), "fip_services", Volume::Status("status", statuses::NETWORK), FLOATING_IP), PROJECT, "user_id"),
    owned_by(Meter::gauge("network.services.vpn", "vpnservice"), "vpn_services", Volume::Status("status", statuses::NETWORK), VPN),
    owned_by(Meter::gauge("network.services.vpn.connections", "ipsec_site_connection"), "ipsec_connections", Volume::One, IPSEC),
    owned_by(Meter::gauge("network.services.firewall", "firewall"), "fw_services", Volume::Status("status", statuses::NETWORK), FIREWALL),
    owned_by(Meter::gauge("network.services.firewall.policy", "firewall_policy"), "fw_policy", Volume::One, POLICY),
    owned_by(Meter::gauge("loadbalancer.operating", "status"), "lb_services", Volume::Status("operating_status", statuses::OPERATING), LOAD_BALANCER),
    owned_by(Meter::gauge("loadbalancer.provisioning", "status"), "lb_services", Volume::Status("provisioning_status", statuses::PROVISIONING), LOAD_BALANCER),
    owned_by(Meter::gauge("dns.zone.status", "status"), "dns_zones", Volume::Status("status", statuses::ZONE), ZONE),
    owned_by(Meter::gauge("dns.zone.ttl", "second"), "dns_zones", Volume::FieldOrZero("ttl"), ZONE),
    owned_by(Meter::gauge("dns.zone.serial", "serial"), "dns_zones", Volume::FieldOrZero("serial"), ZONE),
    with(owned_by(Meter::gauge("manila.share.status", "status"), "manila_shares", Volume::Status("status", statuses::SHARE), SHARE), PROJECT, "user_id"),
    with(owned_by(Meter::gauge("manila.share.size", "GiB"), "manila_shares", Volume::FieldOrZero("size"), SHARE), PROJECT, "user_id"),
];

pub(super) fn pollsters() -> Vec<Arc<dyn Pollster>> {
    let pollster = |listed: Listed| {
        let samples = move |_, resource: &Resource| listed.sample(resource);
        Arc::new(OfEach { meter: listed.meter, discovery: listed.discovery, samples }) as Arc<dyn Pollster>
    };
    let meter = Meter::gauge("alarm.evaluation_result", "evaluation_result_count");
    let results = OfEach { meter, discovery: "alarm", samples: evaluation_results };
    LISTED.into_iter().map(pollster).chain([Arc::new(results) as Arc<dyn Pollster>]).collect()
}

/// Fields under their sample names (`name`, or `name=field`); null if missing.
pub(super) fn metadata(body: &Value, fields: &str) -> Map<String, Value> {
    let field = |word: &str| {
        let (name, field) = word.split_once('=').unwrap_or((word, word));
        (name.to_owned(), body.get(field).cloned().unwrap_or_default())
    };
    fields.split(' ').map(field).collect()
}

fn project<'a>(resource: &'a Resource, fields: &[&str]) -> Option<&'a str> {
    fields.iter().find_map(|field| resource.text(field).filter(|project| !project.is_empty()))
}

impl Listed {
    fn volume(&self, resource: &Resource) -> Option<Value> {
        let field = |field| resource.body.get(field).cloned().unwrap_or_default();
        let told = |name| Some(field(name)).filter(|value| !value.is_null());
        Some(match self.volume {
            Volume::One => 1.into(),
            Volume::Field(name) => return told(name),
            Volume::FieldOrZero(name) => told(name).unwrap_or_else(|| 0.into()),
            Volume::Status(name, statuses) => {
                let status = field(name);
                let number = statuses::number(statuses, &status);
                if number == -1 {
                    tracing::warn!(%status, id = %resource.id, meter = self.meter.name, "unknown status: published as -1");
                }
                number.into()
            }
        })
    }

    fn sample(&self, resource: &Resource) -> Option<Sample<'static>> {
        let volume = self.volume(resource)?;
        let mut metadata = metadata(&resource.body, self.fields);
        if self.meter.name == "volume.size" {
            let at = |pointer: &str| resource.body.pointer(pointer).cloned().unwrap_or_default();
            metadata.insert("image_id".to_owned(), at("/volume_image_metadata/image_id"));
            metadata.insert("instance_id".to_owned(), at("/attachments/0/server_id"));
        }
        let mut sample = self.meter.sample(resource.id.to_string(), volume, metadata);
        sample.user_id = owned(resource.text(self.user));
        sample.project_id = owned(project(resource, self.project));
        Some(sample)
    }
}

/// How often each alarm was evaluated to each state.
fn evaluation_results(meter: Meter, all: &Resource) -> Vec<Sample<'static>> {
    let mut samples = Vec::new();
    let results = all.body.get("evaluation_results").and_then(Value::as_array);
    for result in results.into_iter().flatten() {
        let text = |key: &str| result.get(key).and_then(Value::as_str);
        let states = result.get("state_counters").and_then(Value::as_object);
        for (state, count) in states.into_iter().flatten() {
            let metadata = Map::from_iter([("alarm_state".to_owned(), state.as_str().into())]);
            let id = text("alarm_id").unwrap_or_default().to_owned();
            let mut sample = meter.sample(id, count.clone(), metadata);
            sample.project_id = owned(text("project_id"));
            samples.push(sample);
        }
    }
    samples
}

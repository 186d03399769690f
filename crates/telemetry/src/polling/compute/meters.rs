//! The meters of instances.

use std::{future::Future, sync::Arc, time::Instant};

use async_trait::async_trait;
use gnudi_libvirt::BlockInfo;
use serde_json::{Map, Number, Value};

use super::{
    inspector::{Disk, InspectError, InstanceStatistics, Vnic},
    instance::{self, root_size, whole},
    libvirt::{LibvirtInspector, TimedCounter},
};
use crate::{
    meters::ReservedMetadata,
    polling::{
        cycle::Cycle,
        outlet::Outlet,
        pollster::{Meter, Polled, Pollster, owned},
        resource::Resource,
    },
    sample::SampleKind,
};

/// Where a meter's value comes from.
#[derive(Clone, Copy)]
enum ComputeFigure {
    Instance(fn(&InstanceStatistics) -> Option<Value>),
    Vnic(fn(&Vnic) -> i64),
    /// The increase of a counter since the meter's last sample.
    VnicIncrease(fn(&Vnic) -> i64),
    Disk(fn(&Disk) -> Option<Value>),
    DiskSize(fn(&BlockInfo) -> u64),
    /// A size in the flavor.
    Flavor(fn(&Value) -> Option<i64>),
    /// libvirt does not report it: there are never samples.
    Rate,
}

const fn delta(name: &'static str, unit: &'static str) -> Meter {
    Meter { name, kind: SampleKind::Delta, unit }
}

fn number(number: Option<&Number>) -> Option<Value> {
    number.cloned().map(Value::Number)
}

/// All meters of the namespace `compute`.
#[rustfmt::skip]
const METERS: [(Meter, ComputeFigure); 36] = [
    (Meter::gauge("power.state", ""), ComputeFigure::Instance(|told| number(told.power_state.as_ref()))),
    (Meter::cumulative("cpu", "ns"), ComputeFigure::Instance(|told| number(told.cpu_time_ns.as_ref()))),
    (Meter::gauge("vcpus", "vcpu"), ComputeFigure::Instance(|told| number(told.vcpus.as_ref()))),
    (Meter::gauge("memory", "MiB"), ComputeFigure::Instance(|told| told.memory_actual_mib.map(Value::from))),
    (Meter::gauge("memory.available", "MiB"), ComputeFigure::Instance(|told| told.memory_available_mib.map(Value::from))),
    (Meter::gauge("memory.usage", "MiB"), ComputeFigure::Instance(|told| told.memory_usage_mib.map(Value::from))),
    (Meter::gauge("memory.resident", "MiB"), ComputeFigure::Instance(|told| told.memory_resident_mib.map(Value::from))),
    (Meter::cumulative("memory.swap.in", "MiB"), ComputeFigure::Instance(|told| told.memory_swap_in_mib.map(Value::from))),
    (Meter::cumulative("memory.swap.out", "MiB"), ComputeFigure::Instance(|told| told.memory_swap_out_mib.map(Value::from))),
    (Meter::gauge("perf.cpu.cycles", ""), ComputeFigure::Instance(|told| number(told.cpu_cycles.as_ref()))),
    (Meter::gauge("perf.instructions", ""), ComputeFigure::Instance(|told| number(told.instructions.as_ref()))),
    (Meter::gauge("perf.cache.references", ""), ComputeFigure::Instance(|told| number(told.cache_references.as_ref()))),
    (Meter::gauge("perf.cache.misses", ""), ComputeFigure::Instance(|told| number(told.cache_misses.as_ref()))),
    (Meter::cumulative("network.incoming.bytes", "B"), ComputeFigure::Vnic(|vnic| vnic.counters.rx_bytes)),
    (Meter::cumulative("network.incoming.packets", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.rx_packets)),
    (Meter::cumulative("network.outgoing.bytes", "B"), ComputeFigure::Vnic(|vnic| vnic.counters.tx_bytes)),
    (Meter::cumulative("network.outgoing.packets", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.tx_packets)),
    (Meter::gauge("network.incoming.bytes.rate", "B/s"), ComputeFigure::Rate),
    (Meter::gauge("network.outgoing.bytes.rate", "B/s"), ComputeFigure::Rate),
    (Meter::cumulative("network.incoming.packets.drop", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.rx_drop)),
    (Meter::cumulative("network.outgoing.packets.drop", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.tx_drop)),
    (Meter::cumulative("network.incoming.packets.error", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.rx_errors)),
    (Meter::cumulative("network.outgoing.packets.error", "packet"), ComputeFigure::Vnic(|vnic| vnic.counters.tx_errors)),
    (delta("network.incoming.bytes.delta", "B"), ComputeFigure::VnicIncrease(|vnic| vnic.counters.rx_bytes)),
    (delta("network.outgoing.bytes.delta", "B"), ComputeFigure::VnicIncrease(|vnic| vnic.counters.tx_bytes)),
    (Meter::cumulative("disk.device.read.requests", "request"), ComputeFigure::Disk(|disk| Some(disk.counters.read_requests.into()))),
    (Meter::cumulative("disk.device.read.bytes", "B"), ComputeFigure::Disk(|disk| Some(disk.counters.read_bytes.into()))),
    (Meter::cumulative("disk.device.write.requests", "request"), ComputeFigure::Disk(|disk| Some(disk.counters.write_requests.into()))),
    (Meter::cumulative("disk.device.write.bytes", "B"), ComputeFigure::Disk(|disk| Some(disk.counters.write_bytes.into()))),
    (Meter::cumulative("disk.device.read.latency", "ns"), ComputeFigure::Disk(|disk| number(disk.read_time_ns.as_ref()))),
    (Meter::cumulative("disk.device.write.latency", "ns"), ComputeFigure::Disk(|disk| number(disk.write_time_ns.as_ref()))),
    (Meter::gauge("disk.device.capacity", "B"), ComputeFigure::DiskSize(|size| size.capacity)),
    (Meter::gauge("disk.device.allocation", "B"), ComputeFigure::DiskSize(|size| size.allocation)),
    (Meter::gauge("disk.device.usage", "B"), ComputeFigure::DiskSize(|size| size.physical)),
    (Meter::gauge("disk.root.size", "GiB"), ComputeFigure::Flavor(|flavor| root_size(flavor.get("disk")?, flavor.get("ephemeral")?))),
    (Meter::gauge("disk.ephemeral.size", "GiB"), ComputeFigure::Flavor(|flavor| whole(flavor.get("ephemeral")?))),
];

/// All pollsters of the namespace `compute`.
pub fn pollsters(inspector: &LibvirtInspector, reserved: &ReservedMetadata) -> Vec<Arc<dyn Pollster>> {
    let started = Instant::now();
    METERS
        .into_iter()
        .map(|(meter, figure)| {
            let (inspector, reserved) = (inspector.clone(), reserved.clone());
            Arc::new(InstancePollster { meter, figure, inspector, reserved, started }) as Arc<dyn Pollster>
        })
        .collect()
}

struct InstancePollster {
    meter: Meter,
    figure: ComputeFigure,
    inspector: LibvirtInspector,
    reserved: ReservedMetadata,
    /// Origin of the monotonic time in samples.
    started: Instant,
}

/// What is specific to one sample: the resource id if not the instance's, the value, and additional metadata.
type Part = (Option<String>, Value, Map<String, Value>);

/// The hypervisor's answer, with its monotonic time.
type Inspected<T> = Result<Arc<(f64, T)>, InspectError>;

impl InstancePollster {
    /// Queries the hypervisor once per round, for whichever meter needs it first.
    async fn inspect<T, F>(&self, cycle: &Cycle, key: String, ask: impl FnOnce() -> F) -> Inspected<T>
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, InspectError>>,
    {
        let answer = cycle.shared(key, || async {
            let answer = ask().await;
            answer.map(|answer| Arc::new((self.started.elapsed().as_secs_f64(), answer)))
        });
        Arc::unwrap_or_clone(answer.await)
    }

    /// The samples of an instance, and the monotonic time of their values.
    async fn parts(&self, cycle: &Cycle, instance: &Resource) -> Result<(f64, Vec<Part>), InspectError> {
        let id = &instance.id;
        let inspector = &self.inspector;
        Ok(match self.figure {
            ComputeFigure::Instance(figure) => {
                let told = self.inspect(cycle, format!("instance {id}"), || inspector.instance(id)).await?;
                let volume = figure(&told.1).ok_or_else(unavailable)?;
                let mut more = Map::new();
                if self.meter.name == "cpu" {
                    let vcpus = number(told.1.vcpus.as_ref());
                    more.insert("cpu_number".to_owned(), vcpus.unwrap_or_default());
                }
                (told.0, vec![(None, volume, more)])
            }
            ComputeFigure::Vnic(counter) | ComputeFigure::VnicIncrease(counter) => {
                let told = self.inspect(cycle, format!("vnics {id}"), || inspector.vnics(id)).await?;
                let part = |vnic: &Vnic| {
                    let mut value = counter(vnic);
                    if let ComputeFigure::VnicIncrease(_) = self.figure {
                        let now = TimedCounter { time: told.0, value };
                        value = inspector.increase(self.meter.name, id, &vnic.name, now);
                    }
                    vnic_part(instance, vnic, value)
                };
                (told.0, told.1.iter().map(part).collect())
            }
            ComputeFigure::Disk(figure) => {
                let told = self.inspect(cycle, format!("disks {id}"), || inspector.disks(id)).await?;
                let part = |disk: &Disk| -> Result<Part, InspectError> {
                    Ok(disk_part(id, &disk.device, figure(disk).ok_or_else(unavailable)?))
                };
                (told.0, told.1.iter().map(part).collect::<Result<_, InspectError>>()?)
            }
            ComputeFigure::DiskSize(figure) => {
                let told =
                    self.inspect(cycle, format!("disk sizes {id}"), || inspector.disk_sizes(id)).await?;
                let part = |(device, size): &(String, BlockInfo)| disk_part(id, device, figure(size).into());
                (told.0, told.1.iter().map(part).collect())
            }
            ComputeFigure::Flavor(figure) => {
                let size = instance.body.get("flavor").and_then(figure).ok_or_else(unavailable)?;
                (self.started.elapsed().as_secs_f64(), vec![(None, size.into(), Map::new())])
            }
            ComputeFigure::Rate => (0.0, Vec::new()),
        })
    }
}

fn unavailable() -> InspectError {
    InspectError::Failed("the hypervisor does not report it".to_owned())
}

fn disk_part(id: &str, device: &str, volume: Value) -> Part {
    let more = Map::from_iter([("disk_name".to_owned(), device.into())]);
    (Some(format!("{id}-{device}")), volume, more)
}

fn vnic_part(instance: &Resource, vnic: &Vnic, volume: i64) -> Part {
    let vnic_name = vnic.filter.as_ref().unwrap_or(&vnic.name);
    let more = Map::from_iter([
        ("name".to_owned(), vnic.name.as_str().into()),
        ("mac".to_owned(), vnic.mac.as_deref().into()),
        ("fref".to_owned(), vnic.filter.as_deref().into()),
        ("parameters".to_owned(), Value::Object(vnic.parameters.clone())),
        ("vnic_name".to_owned(), vnic_name.as_str().into()),
    ]);
    let id = vnic.filter.clone().unwrap_or_else(|| {
        let name = instance.text("OS-EXT-SRV-ATTR:instance_name").unwrap_or("None");
        format!("{name}-{}-{}", instance.id, vnic.name)
    });
    // As for Ceilometer, an empty name of a filter is no id.
    let id = Some(id).filter(|id| !id.is_empty());
    (id, volume.into(), more)
}

#[async_trait]
impl Pollster for InstancePollster {
    fn name(&self) -> &str {
        self.meter.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("local_instances")
    }

    async fn poll(&self, cycle: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        if matches!(self.figure, ComputeFigure::Rate) {
            return Ok(());
        }
        for instance in resources {
            let meter = self.meter.name;
            let metadata = instance::metadata(&instance.body, &self.reserved)
                .inspect_err(|error| tracing::error!(error, meter, instance = %instance.id, "no sample"));
            let Ok(metadata) = metadata else { continue };
            let (monotonic_time, parts) = match self.parts(cycle, instance).await {
                Ok(parts) => parts,
                Err(error @ (InspectError::NotFound | InspectError::ShutOff)) => {
                    tracing::debug!(%error, meter, instance = %instance.id, "no sample");
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, meter, instance = %instance.id, "no sample");
                    continue;
                }
            };
            for (resource_id, volume, more) in parts {
                let mut metadata = metadata.clone();
                metadata.extend(more);
                let resource_id = resource_id.unwrap_or_else(|| instance.id.to_string());
                let mut sample = self.meter.sample(resource_id, volume, metadata);
                sample.user_id = owned(instance.text("user_id"));
                sample.project_id = owned(instance.text("tenant_id"));
                sample.monotonic_time = Some(monotonic_time);
                outlet.push(sample).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn interfaces_have_the_id_of_their_filter_if_it_is_named() {
        let instance =
            Resource::new("i".to_owned(), json!({ "OS-EXT-SRV-ATTR:instance_name": "instance-1" }));
        for (filter, expected) in
            [(None, Some("instance-1-i-tap0")), (Some("f"), Some("f")), (Some(""), None)]
        {
            let filter = filter.map(str::to_owned);
            let vnic = Vnic { name: "tap0".to_owned(), filter, ..Vnic::default() };
            assert_eq!(vnic_part(&instance, &vnic, 1).0.as_deref(), expected);
        }
    }
}

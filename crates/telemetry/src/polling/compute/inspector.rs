//! What a hypervisor reports about instances.

use gnudi_libvirt::{BlockStatistics, InterfaceStatistics};
use serde_json::{Map, Number};

/// Why an instance cannot be inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// It is gone since its discovery.
    #[error("there is no such instance any more")]
    NotFound,
    #[error("the instance is shut off")]
    ShutOff,
    #[error("an earlier call of libvirt for the instance hangs")]
    Hanging,
    #[error("{0}")]
    Failed(String),
}

/// An instance as its hypervisor describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainDescription {
    pub uuid: String,
    /// The hypervisor's name for it.
    pub name: String,
    /// `virDomainState`
    pub state: u8,
    /// libvirt's XML.
    pub xml: String,
    /// Nova's metadata, as XML; `None` for an instance that is not Nova's.
    pub metadata_xml: Option<String>,
}

/// `None` for what the hypervisor does not report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceStatistics {
    pub power_state: Option<Number>,
    pub vcpus: Option<Number>,
    pub cpu_time_ns: Option<Number>,
    pub memory_actual_mib: Option<f64>,
    pub memory_available_mib: Option<f64>,
    pub memory_usage_mib: Option<f64>,
    pub memory_resident_mib: Option<f64>,
    pub memory_swap_in_mib: Option<f64>,
    pub memory_swap_out_mib: Option<f64>,
    pub cpu_cycles: Option<Number>,
    pub instructions: Option<Number>,
    pub cache_references: Option<Number>,
    pub cache_misses: Option<Number>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vnic {
    pub name: String,
    pub mac: Option<String>,
    /// Neutron's filter.
    pub filter: Option<String>,
    /// The filter's parameters, the port id and the bridge.
    pub parameters: Map<String, serde_json::Value>,
    pub counters: InterfaceStatistics,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    pub device: String,
    pub counters: BlockStatistics,
    pub read_time_ns: Option<Number>,
    pub write_time_ns: Option<Number>,
}

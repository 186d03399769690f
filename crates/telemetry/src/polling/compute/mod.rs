//! Instances on this machine: found by their hypervisor, and asked of it.
//!
//! [`instance`] is what Nova would say of one; [`inspector`] what hypervisors tell of a running one, and [`libvirt`] the one
//! hypervisor there is; [`meters`] makes samples of both. [`extra`] and [`nova`] ask Nova, where that is wanted.

pub mod discovery;
pub mod extra;
pub mod inspector;
pub mod instance;
pub mod libvirt;
pub mod meters;
pub mod nova;
mod statistics;

pub use discovery::LocalInstances;
pub use extra::NovaExtra;
pub use inspector::Inspector;
pub use libvirt::{LibvirtInspector, LibvirtOptions};
pub use meters::pollsters;
pub use nova::NovaInstances;

//! Instances on this machine: discovered and measured through their hypervisor.
//!
//! [`instance`] describes an instance as Nova does; [`libvirt`] asks the hypervisor, [`inspector`] has its
//! answers; [`meters`] makes samples of both. [`extra`] and [`nova`] ask Nova, if configured.

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
pub use libvirt::{LibvirtInspector, LibvirtOptions};
pub use meters::pollsters;
pub use nova::NovaInstances;

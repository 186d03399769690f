//! The namespace `ipmi`: what the sensors of this machine's management controller tell, by `ipmitool`.
//!
//! [`output`] reads what that prints, [`pollster`] makes samples of it.

mod output;
mod pollster;

pub use pollster::{IpmiOptions, pollsters};

//! The namespace `ipmi`: sensors of this machine's management controller, read with `ipmitool`.
//!
//! [`output`] parses its output, [`pollster`] makes samples.

mod output;
mod pollster;

pub use output::{id_part, parsed_reading};
pub use pollster::{IpmiOptions, POWER, pollsters};

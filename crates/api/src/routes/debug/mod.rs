//! `/debug/...`: what the server tells about itself to whoever runs it.

mod cluster;
mod flamegraph;

pub use cluster::cluster;
pub use flamegraph::{FREQUENCY_HZ_DEFAULT, FREQUENCY_HZ_MAX, SECONDS_DEFAULT, SECONDS_MAX, flamegraph};

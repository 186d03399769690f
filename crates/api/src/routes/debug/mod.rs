//! `/debug/...`: what the server tells about itself to whoever runs it.

mod cluster;
mod flamegraph;

pub use cluster::cluster;
pub use flamegraph::flamegraph;

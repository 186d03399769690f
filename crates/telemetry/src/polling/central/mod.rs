//! What the services of a cloud tell over HTTP: images, volumes, addresses, networks' services, objects ...
//!
//! [`listing`] finds things by listing them, [`meters`] and [`pools`] make samples of what such a list tells of each; [`swift`]
//! and [`zones`] ask once more for each thing, and [`radosgw`] the gateway itself, with the signature that it wants.

mod aws_signature;
pub mod listing;
mod meters;
mod pools;
mod projects;
mod radosgw;
mod statuses;
mod swift;
mod zones;

use std::sync::Arc;

pub use aws_signature::Keys;
pub use radosgw::RadosgwOptions;

use super::{cloud::Cloud, discovery::Discovery, pollster::Pollster};

/// What the namespace `central` is told.
#[derive(Clone)]
pub struct CentralOptions {
    /// Types of services in the catalogue, where they are not the usual ones: (usual, instead).
    pub service_types: Vec<(String, String)>,
    /// Beginning of Swift's accounts.
    pub reseller_prefix: String,
    pub ignore_disabled_projects: bool,
    /// `None` where nothing says how it is found.
    pub radosgw: Option<RadosgwOptions>,
}

impl CentralOptions {
    /// The type by which the catalogue has a service.
    pub fn service_type<'a>(&'a self, usual: &'a str) -> &'a str {
        let instead = self.service_types.iter().find(|(name, _)| name == usual);
        instead.map_or(usual, |(_, instead)| instead)
    }
}

/// All pollsters of the namespace.
pub fn pollsters(cloud: &Cloud, options: &CentralOptions) -> Vec<Arc<dyn Pollster>> {
    let mut all = meters::pollsters();
    all.extend(pools::pollsters());
    all.extend(swift::pollsters(cloud, options));
    all.push(Arc::new(zones::RecordsetCount::new(cloud, options)));
    all.extend(options.radosgw.iter().flat_map(|radosgw| radosgw::pollsters(cloud, radosgw)));
    all
}

/// All discoveries of the namespace.
pub fn discoveries(cloud: &Cloud, options: &CentralOptions) -> Vec<Arc<dyn Discovery>> {
    let mut all = listing::discoveries(cloud, options);
    all.push(Arc::new(projects::Projects::new(cloud, options)));
    all.push(Arc::new(listing::Endpoints(cloud.clone())));
    all
}

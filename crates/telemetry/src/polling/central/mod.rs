//! Polls the cloud's services over HTTP: images, volumes, addresses, network services, objects ...
//!
//! [`listing`] discovers resources by listing them; [`meters`] and [`pools`] make samples of the listed items;
//! [`swift`] and [`zones`] send a request per resource, and [`radosgw`] signed requests to the gateway.

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

/// Options of the namespace `central`.
#[derive(Clone)]
pub struct CentralOptions {
    /// Configured service types that differ from the usual ones: (usual, configured).
    pub service_types: Vec<(String, String)>,
    /// Prefix of Swift's accounts.
    pub reseller_prefix: String,
    pub ignore_disabled_projects: bool,
    /// `None` if not configured.
    pub radosgw: Option<RadosgwOptions>,
}

impl CentralOptions {
    /// The service's type in the catalogue.
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
    let service = options.service_type("dns").to_owned();
    all.push(Arc::new(zones::RecordsetCount::new(cloud.clone(), service)));
    all.extend(options.radosgw.iter().flat_map(|radosgw| radosgw::pollsters(cloud, radosgw)));
    all
}

/// All discoveries of the namespace.
pub fn discoveries(cloud: &Cloud, options: &CentralOptions) -> Vec<Arc<dyn Discovery>> {
    let mut all = listing::discoveries(cloud, options);
    let enabled_only = options.ignore_disabled_projects;
    all.push(Arc::new(projects::Projects { cloud: cloud.clone(), enabled_only }));
    all.push(Arc::new(listing::Endpoints(cloud.clone())));
    all
}

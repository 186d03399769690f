//! Discoveries of the central agent: the listings of services, and their endpoints.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::CentralOptions;
use crate::polling::{
    cloud::{Cloud, CloudError},
    cycle::Cycle,
    discovery::{Discovery, DiscoveryError},
    resource::Resource,
};

/// A listing of a service, and its name as a discovery.
#[derive(Clone, Copy)]
struct Listing {
    name: &'static str,
    /// The service's usual type in the catalogue; options may name another.
    service: &'static str,
    version: &'static str,
    /// After the version in the URL.
    path: &'static str,
    /// The key of the items in the response; empty: the whole response is the one item.
    key: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

/// Needed for the users of snapshots and backups, and the type ids of volumes.
const CINDER: &[(&str, &str)] = &[("openstack-api-version", "volume 3.64")];
/// Needed for all the fields of shares.
const MANILA: &[(&str, &str)] = &[("x-openstack-manila-api-version", "2.69")];
pub(super) const ALL_PROJECTS: &[(&str, &str)] = &[("x-auth-all-projects", "True")];

const fn listing(
    name: &'static str,
    (service, version): (&'static str, &'static str),
    path: &'static str,
    key: &'static str,
    headers: &'static [(&'static str, &'static str)],
) -> Listing {
    Listing { name, service, version, path, key, headers }
}

const BLOCK: (&str, &str) = ("volumev3", "v3");
const NETWORK: (&str, &str) = ("network", "v2.0");

const LISTINGS: [Listing; 15] = [
    listing("images", ("image", "v2"), "/images", "images", &[]),
    listing("volumes", BLOCK, "/volumes/detail?all_tenants=True", "volumes", CINDER),
    listing("volume_snapshots", BLOCK, "/snapshots/detail?all_tenants=True", "snapshots", CINDER),
    listing("volume_backups", BLOCK, "/backups/detail?all_tenants=True", "backups", CINDER),
    listing("volume_pools", BLOCK, "/scheduler-stats/get_pools?detail=True", "pools", CINDER),
    listing("volume_services", BLOCK, "/os-services", "services", CINDER),
    listing("fip_services", NETWORK, "/floatingips", "floatingips", &[]),
    listing("vpn_services", NETWORK, "/vpn/vpnservices", "vpnservices", &[]),
    listing("ipsec_connections", NETWORK, "/vpn/ipsec-site-connections", "ipsec_site_connections", &[]),
    listing("fw_services", NETWORK, "/fwaas/firewall_groups", "firewall_groups", &[]),
    listing("fw_policy", NETWORK, "/fwaas/firewall_policies", "firewall_policies", &[]),
    listing("lb_services", ("load-balancer", "v2"), "/lbaas/loadbalancers", "loadbalancers", &[]),
    listing("dns_zones", ("dns", "v2"), "/zones", "zones", ALL_PROJECTS),
    listing("manila_shares", ("sharev2", "v2"), "/shares/detail?all_tenants=True", "shares", MANILA),
    listing("alarm", ("alarming", "v2"), "/metrics?all_projects=True", "", &[]),
];

struct ListingDiscovery {
    listing: Listing,
    cloud: Cloud,
    service: String,
}

pub(super) fn discoveries(cloud: &Cloud, options: &CentralOptions) -> Vec<Arc<dyn Discovery>> {
    let discovery = |listing: Listing| ListingDiscovery {
        listing,
        cloud: cloud.clone(),
        service: options.service_type(listing.service).to_owned(),
    };
    LISTINGS.into_iter().map(|listing| Arc::new(discovery(listing)) as Arc<dyn Discovery>).collect()
}

#[async_trait]
impl Discovery for ListingDiscovery {
    fn name(&self) -> &'static str {
        self.listing.name
    }

    async fn discover(&self, _: &Cycle, _: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let Listing { name, version, path, key, headers, .. } = self.listing;
        let items = async {
            let url = format!("{}{path}", self.cloud.versioned(&self.service, version).await?);
            if key.is_empty() {
                return Ok(vec![self.cloud.get_json(&url, headers).await?]);
            }
            self.cloud.list(&url, key, headers).await
        };
        match items.await {
            Ok(items) => Ok(items.into_iter().filter_map(|item| resource(name, item)).collect()),
            Err(CloudError::NoService(service)) => {
                tracing::warn!(
                    service,
                    discovery = name,
                    "the catalogue has no such service: nothing is polled there"
                );
                Ok(Vec::new())
            }
            // The service lacks an extension, or its statistics are disabled.
            Err(CloudError::Refused { url, status: 403 | 404, text }) => {
                tracing::warn!(url, text, discovery = name, "nothing is polled there");
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// `None` for items without an id, and for firewall groups with the status `error`.
fn resource(name: &str, item: Value) -> Option<Resource> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    if name == "fw_services" && text("status") == Some("error") {
        return None;
    }
    let id = match name {
        "volume_pools" => text("name")?.to_owned(),
        "volume_services" => format!("{}@{}", text("binary")?, text("host")?),
        "alarm" => "evaluation results".to_owned(),
        _ => text("id")?.to_owned(),
    };
    Some(Resource::new(id, item))
}

/// `endpoint:TYPE`: the addresses of a service, one in each region unless one is configured.
pub struct Endpoints(pub Cloud);

#[async_trait]
impl Discovery for Endpoints {
    fn name(&self) -> &'static str {
        "endpoint"
    }

    async fn discover(&self, _: &Cycle, service: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        let service = service.filter(|service| !service.is_empty());
        let service = service.ok_or_else(|| DiscoveryError("name a service: endpoint:TYPE".to_owned()))?;
        match self.0.endpoints(Some(service), None).await {
            Ok(endpoints) => Ok(endpoints.iter().map(|endpoint| Resource::named(endpoint)).collect()),
            Err(CloudError::NoService(service)) => {
                tracing::warn!(service, "the catalogue has no such service");
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

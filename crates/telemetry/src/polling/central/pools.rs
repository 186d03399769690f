//! Cinder's pools and services.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::meters::metadata;
use crate::polling::{
    cycle::Cycle,
    outlet::Outlet,
    pollster::{Meter, PollError, Pollster},
    resource::Resource,
};

/// `Ok(None)`: the pool does not tell, and there is no sample.
type Capacity = fn(&Value) -> Result<Option<Value>, String>;

struct Pool(Meter, Capacity);

const fn gauge(name: &'static str) -> Meter {
    Meter::gauge(name, "GiB")
}

pub(super) fn pollsters() -> Vec<Arc<dyn Pollster>> {
    vec![
        Arc::new(Pool(gauge("volume.provider.pool.capacity.total"), |pool| {
            Ok(told(pool, "total_capacity_gb"))
        })),
        Arc::new(Pool(gauge("volume.provider.pool.capacity.free"), |pool| {
            Ok(told(pool, "free_capacity_gb"))
        })),
        Arc::new(Pool(gauge("volume.provider.pool.capacity.provisioned"), |pool| {
            Ok(told(pool, "provisioned_capacity_gb").filter(|value| value.as_f64() != Some(0.0)))
        })),
        Arc::new(Pool(gauge("volume.provider.pool.capacity.virtual_free"), virtual_free)),
        Arc::new(Pool(gauge("volume.provider.pool.capacity.allocated"), |pool| {
            let missing = || "no allocated_capacity_gb".to_owned();
            told(pool, "allocated_capacity_gb").ok_or_else(missing).map(Some)
        })),
        Arc::new(Health),
    ]
}

fn told(pool: &Value, key: &str) -> Option<Value> {
    pool.get(key).filter(|value| !value.is_null()).cloned()
}

/// What can still be given away, by the rules of Cinder's scheduler.
fn virtual_free(pool: &Value) -> Result<Option<Value>, String> {
    let number = |key: &str| match pool.get(key) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_f64(),
        None => None,
    };
    let needed = |key: &str| number(key).ok_or(format!("{key} is no number"));
    let provisioned = match number("provisioned_capacity_gb") {
        Some(provisioned) if provisioned != 0.0 => provisioned,
        _ => return Ok(None),
    };
    let total = needed("total_capacity_gb")?;
    let reserved = (needed("reserved_percentage")? / 100.0 * total).floor();
    let is_thin = match pool.get("thin_provisioning_support") {
        Some(Value::Bool(is_thin)) => *is_thin,
        Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(value) => value.as_f64() != Some(0.0),
        None => return Err("no thin_provisioning_support".to_owned()),
    };
    let ratio = match pool.get("max_over_subscription_ratio") {
        Some(_) if is_thin => needed("max_over_subscription_ratio")?,
        _ => 1.0,
    };
    Ok(Some((ratio * (total - reserved) - provisioned).into()))
}

#[async_trait]
impl Pollster for Pool {
    fn name(&self) -> &str {
        self.0.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("volume_pools")
    }

    async fn poll(
        &self,
        _: &Cycle,
        resources: &[Resource],
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PollError> {
        for pool in resources {
            let capabilities = pool.body.get("capabilities").unwrap_or(&Value::Null);
            let volume = match (self.1)(capabilities) {
                Ok(Some(volume)) => volume,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(error, pool = %pool.id, meter = self.0.name, "no sample");
                    continue;
                }
            };
            let name = told(capabilities, "pool_name").filter(|name| name != "");
            let provider = pool.id.split('#').next().unwrap_or_default();
            let metadata = Map::from_iter([
                ("pool_name".to_owned(), name.unwrap_or_default()),
                ("provider".to_owned(), provider.into()),
            ]);
            outlet.push(self.0.sample(pool.id.to_string(), volume, metadata)).await?;
        }
        Ok(())
    }
}

/// Whether Cinder's services are up.
struct Health;

const HEALTH: Meter = Meter::gauge("volume.service.health", "health");
const SERVICE: &[(&str, &str)] =
    &[("binary", "binary"), ("host", "host"), ("status", "status"), ("zone", "zone")];

#[async_trait]
impl Pollster for Health {
    fn name(&self) -> &str {
        HEALTH.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("volume_services")
    }

    async fn poll(
        &self,
        _: &Cycle,
        resources: &[Resource],
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PollError> {
        for service in resources {
            let state = service.text("state").unwrap_or_default().to_lowercase();
            let volume = match state.as_str() {
                "up" => 1,
                "down" => 0,
                _ => {
                    tracing::warn!(state, service = %service.id, meter = HEALTH.name, "unknown state: no sample");
                    continue;
                }
            };
            let metadata = metadata(&service.body, SERVICE);
            outlet.push(HEALTH.sample(service.id.to_string(), volume.into(), metadata)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_can_be_given_away_depends_on_thin_provisioning() {
        let pool = |thin: bool, ratio: &str| {
            json!({"total_capacity_gb": 100.0, "reserved_percentage": 15, "provisioned_capacity_gb": 30,
                   "thin_provisioning_support": thin, "max_over_subscription_ratio": ratio})
        };
        assert_eq!(virtual_free(&pool(true, "20.0")), Ok(Some(json!(1670.0))));
        assert_eq!(virtual_free(&pool(false, "20.0")), Ok(Some(json!(55.0))));
        assert!(virtual_free(&pool(true, "auto")).is_err());
        assert_eq!(virtual_free(&json!({"provisioned_capacity_gb": 0})), Ok(None));
    }
}

//! Cinder's pools and services.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::meters::metadata;
use crate::{
    polling::{
        pollster::{Meter, OfEach, Pollster},
        resource::Resource,
    },
    sample::Sample,
};

const SERVICE: &str = "binary host status zone";

pub(super) fn pollsters() -> Vec<Arc<dyn Pollster>> {
    vec![
        pool("volume.provider.pool.capacity.total", |pool| Ok(reported(pool, "total_capacity_gb"))),
        pool("volume.provider.pool.capacity.free", |pool| Ok(reported(pool, "free_capacity_gb"))),
        pool("volume.provider.pool.capacity.provisioned", |pool| {
            Ok(reported(pool, "provisioned_capacity_gb").filter(|value| value.as_f64() != Some(0.0)))
        }),
        pool("volume.provider.pool.capacity.virtual_free", virtual_free),
        pool("volume.provider.pool.capacity.allocated", |pool| {
            let missing = || "no allocated_capacity_gb".to_owned();
            reported(pool, "allocated_capacity_gb").ok_or_else(missing).map(Some)
        }),
        Arc::new(OfEach {
            meter: Meter::gauge("volume.service.health", "health"),
            discovery: "volume_services",
            samples: health,
        }),
    ]
}

/// `Ok(None)`: the pool does not report it, so there is no sample.
type Capacity = fn(&Value) -> Result<Option<Value>, String>;

fn pool(name: &'static str, capacity: Capacity) -> Arc<dyn Pollster> {
    let samples = move |meter, pool: &Resource| pool_sample(meter, pool, capacity);
    Arc::new(OfEach { meter: Meter::gauge(name, "GiB"), discovery: "volume_pools", samples })
}

fn pool_sample(meter: Meter, pool: &Resource, capacity: Capacity) -> Option<Sample<'static>> {
    let capabilities = pool.body.get("capabilities").unwrap_or(&Value::Null);
    let volume = capacity(capabilities).unwrap_or_else(|error| {
        tracing::warn!(error, pool = %pool.id, meter = meter.name, "no sample");
        None
    })?;
    let name = reported(capabilities, "pool_name").filter(|name| name != "");
    let provider = pool.id.split('#').next().unwrap_or_default();
    let metadata = Map::from_iter([
        ("pool_name".to_owned(), name.unwrap_or_default()),
        ("provider".to_owned(), provider.into()),
    ]);
    Some(meter.sample(pool.id.to_string(), volume, metadata))
}

/// Whether one of Cinder's services is up.
fn health(meter: Meter, service: &Resource) -> Option<Sample<'static>> {
    let state = service.text("state").unwrap_or_default().to_lowercase();
    let volume = match state.as_str() {
        "up" => 1,
        "down" => 0,
        _ => {
            tracing::warn!(state, service = %service.id, meter = meter.name, "unknown state: no sample");
            return None;
        }
    };
    Some(meter.sample(service.id.to_string(), volume.into(), metadata(&service.body, SERVICE)))
}

fn reported(pool: &Value, key: &str) -> Option<Value> {
    pool.get(key).filter(|value| !value.is_null()).cloned()
}

/// Free virtual capacity, by the rules of Cinder's scheduler.
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

//! The objects that hold the store's parameters, its cluster, and its state.
//!
//! The format is created once; of a store of an older version only the version is raised. The state is a second object
//! that only moves write: other stores have none.

use std::{num::NonZeroU16, ops::RangeInclusive, path::PathBuf};

use bytes::Bytes;
use gnudi_model::SackCount;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{names, requests::Requests};
use crate::{
    OpenError,
    aggregates::{Access, Result, StoreError, StoreState},
    objects::ObjectError,
};

/// A store created for use.
const VERSION_USED: u32 = 5;
/// A store created by a move: without a state it is not complete. Programs that know no states must not open
/// it.
const VERSION_FILLED: u32 = 6;
/// The numbers of both kinds before manifests' objects could hold tables: two less each. Earlier ones are of development
/// versions.
const VERSIONS_WITHOUT_TABLES: RangeInclusive<u32> = 3..=4;

#[derive(Serialize, Deserialize)]
struct Format {
    version: u32,
    shards: NonZeroU16,
    cluster: Uuid,
}

/// The number of shards of the cluster's store, which is created if `access` allows.
pub(super) async fn open(requests: &Requests, own: Uuid, access: Access) -> Result<SackCount, OpenError> {
    let place = requests.objects.place();
    let engine = |reason: String| OpenError::Engine { engine: place.clone(), reason };
    let path = PathBuf::from(requests.damage.place(names::FORMAT));
    let mut found = requests.get(names::FORMAT).await.map_err(|error| engine(error.to_string()))?;
    if found.is_none() {
        let version = match access {
            Access::Use => VERSION_USED,
            Access::MoveTo => VERSION_FILLED,
            Access::UseKnown | Access::MoveFrom => return Err(access.missing(place)),
        };
        let format = Format { version, shards: requests.options.shards.0, cluster: own };
        let text = serde_json::to_vec(&format).expect("plain data");
        let created = requests.create_object(names::FORMAT, text.into()).await;
        if let Err(error @ (ObjectError::NoSpace(_) | ObjectError::Refused(_))) = created {
            return Err(engine(error.to_string()));
        }
        found = requests.get(names::FORMAT).await.map_err(|error| engine(error.to_string()))?;
    }
    let text = found.ok_or_else(|| engine("what was written cannot be read".to_owned()))?;
    let invalid = |error: serde_json::Error| OpenError::invalid(&path, error.to_string());
    // A newer format may change everything but this.
    let named: serde_json::Value = serde_json::from_slice(&text).map_err(invalid)?;
    let Some(mut version) = named["version"].as_u64().and_then(|version| u32::try_from(version).ok()) else {
        return Err(OpenError::invalid(path, "it names no format version"));
    };
    if version > VERSION_FILLED {
        return Err(OpenError::TooNew { path, found: version, known: VERSION_FILLED });
    }
    if version < *VERSIONS_WITHOUT_TABLES.start() {
        let reason = format!("format version {version} was of a development version, and is no longer read");
        return Err(OpenError::invalid(path, reason));
    }
    let Format { shards, cluster, .. } = serde_json::from_slice(&text).map_err(invalid)?;
    if cluster != own {
        return Err(OpenError::OtherCluster { place, found: cluster, own });
    }
    if VERSIONS_WITHOUT_TABLES.contains(&version) {
        // Programs that do not know such tables must not open it any more.
        version += 2;
        let format = Format { version, shards, cluster };
        let text = serde_json::to_vec(&format).expect("plain data");
        requests.put(names::FORMAT, &text.into()).await.map_err(|error| engine(error.to_string()))?;
    }
    let state = kept_state(requests, version).await.map_err(|error| engine(error.to_string()))?;
    access.check(state, || place.clone())?;
    Ok(SackCount(shards))
}

/// The store's identity, which is created if it has none.
pub(super) async fn identity(requests: &Requests) -> Result<Uuid> {
    let mut found = requests.get(names::IDENTITY).await?;
    if found.is_none() {
        let created = requests.create_object(names::IDENTITY, Uuid::new_v4().to_string().into()).await;
        if let Err(error @ (ObjectError::NoSpace(_) | ObjectError::Refused(_))) = created {
            return Err(requests.failure(error));
        }
        // Another process may have been first.
        found = requests.get(names::IDENTITY).await?;
    }
    let place = || requests.damage.place(names::IDENTITY);
    let found = found.ok_or_else(|| StoreError::Unavailable(format!("{}: is not there yet", place())))?;
    Uuid::parse_str(&String::from_utf8_lossy(&found))
        .map_err(|error| StoreError::Io(format!("{}: {error}", place())))
}

pub(super) async fn state(requests: &Requests) -> Result<StoreState> {
    let invalid = || StoreError::Io(format!("{} cannot be read", requests.damage.place(names::FORMAT)));
    let text = requests.get(names::FORMAT).await?.ok_or_else(invalid)?;
    let format: Format = serde_json::from_slice(&text).map_err(|_| invalid())?;
    kept_state(requests, format.version).await
}

async fn kept_state(requests: &Requests, version: u32) -> Result<StoreState> {
    let Some(name) = requests.get(names::STATE).await? else {
        return Ok(if version == VERSION_USED { StoreState::InUse } else { StoreState::Filling });
    };
    let name = String::from_utf8_lossy(&name);
    let unknown =
        || StoreError::Io(format!("{} is not a valid state: {name:?}", requests.damage.place(names::STATE)));
    StoreState::of_name(&name).ok_or_else(unknown)
}

pub(super) async fn set_state(requests: &Requests, state: StoreState) -> Result<()> {
    requests.put(names::STATE, &Bytes::from_static(state.name().as_bytes())).await
}

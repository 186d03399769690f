//! `gnocchi://`: stores samples in Gnocchi or gnudi, and creates, updates and ends resources by events.
//!
//! `definitions` maps meters and events to resources, `publisher` collects the samples of many messages in a `batch`,
//! `delivery` posts it to the `store`, those of `damaged` metrics apart, `resource_cache` caches what the store knows of
//! resources, `events` applies events; `resource_types` and `filter` run at start.
//!
//! There is deliberately no short cut to a store in the same process: it uses HTTP, like any client.

mod batch;
mod damaged;
mod definitions;
mod delivery;
mod events;
mod figures;
mod filter;
mod options;
mod publisher;
mod resource_cache;
mod resource_types;
mod store;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{OpenError, Opened, Publisher, PublisherTasks, PublisherUrl};
use crate::pipeline::PipelineKind;

pub use definitions::{Definition, Definitions, EventOperation, Metric, shipped_definitions};
pub use figures::GnocchiFigures;
pub use options::{FilterProject, GnocchiLimits, GnocchiOptions, GnocchiUrl, StoreAccess};
pub use publisher::GnocchiPublisher;
pub use store::{Store, StoreError};

pub type Result<T, E = GnocchiError> = std::result::Result<T, E>;

/// Why a publisher cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GnocchiError {
    /// An error in the URL.
    #[error("{0}")]
    Url(String),
    /// Names file, line and key.
    #[error("{0}")]
    Definitions(String),
    /// Names the option.
    #[error("{0}")]
    Options(String),
}

/// Opens publishers of this kind, for [`Publishers::add`](super::Publishers::add). Pipelines with the same URL share
/// one publisher, which keeps samples and events in order.
pub fn opener(
    options: GnocchiOptions,
    figures: GnocchiFigures,
    tasks: PublisherTasks,
) -> impl Fn(&PublisherUrl, PipelineKind) -> Opened + Send + Sync + 'static {
    let opened: Mutex<HashMap<String, Arc<dyn Publisher>>> = Mutex::default();
    move |url, _| {
        let mut opened = opened.lock();
        let key = url.query.encoded();
        if let Some(publisher) = opened.get(&key) {
            return Ok(publisher.clone());
        }
        let publisher = GnocchiPublisher::start(url, &options, figures.clone(), &tasks);
        let publisher: Arc<dyn Publisher> =
            Arc::new(publisher.map_err(|error| OpenError(error.to_string()))?);
        opened.insert(key, publisher.clone());
        Ok(publisher)
    }
}

/// Creates missing resource types and attributes in the store, as `ceilometer-upgrade` does. Waits while the store is
/// not available.
pub async fn upgrade(options: &GnocchiOptions) -> Result<()> {
    let store = Store::new(options, std::time::Duration::from_mins(1), GnocchiFigures::default())?;
    resource_types::upgrade(&store).await.map_err(|error| GnocchiError::Options(error.to_string()))
}

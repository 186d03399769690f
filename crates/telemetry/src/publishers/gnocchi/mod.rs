//! The publisher that brings samples into Gnocchi or gnudi, and begins, changes and ends resources by events: `gnocchi://`.
//!
//! `definitions` says what goes where (`shipped` is what needs no file), `publisher` gathers samples of many messages in a
//! `batch`, `delivery` brings it into the `store`, `known` remembers what the store was told of resources, `events` takes
//! events, `resource_types` and `filter` are for the start.
//!
//! It deliberately takes no short cut into a store of the same process: it speaks HTTP, like anybody else.

mod batch;
mod definitions;
mod delivery;
mod events;
mod figures;
mod filter;
mod options;
mod publisher;
mod resource_cache;
mod resource_types;
mod shipped;
mod store;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{OpenError, Opened, Publisher, PublisherUrl};
use crate::pipeline::Purpose;

pub use definitions::{Definition, Definitions, Metric, Operation};
pub use figures::Figures;
pub use options::{Access, FilterProject, GnocchiLimits, GnocchiOptions, GnocchiUrl};
pub use publisher::GnocchiPublisher;
pub use shipped::definitions as shipped_definitions;
pub use store::{Store, StoreError};

/// Why a publisher cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GnocchiError {
    /// What stands in the URL.
    #[error("{0}")]
    Url(String),
    /// Names file, line and key.
    #[error("{0}")]
    Definitions(String),
    /// Names the option.
    #[error("{0}")]
    Options(String),
}

/// How publishers of this kind are opened, for [`Publishers::add`](super::Publishers::add). Pipelines that say the same URL share one publisher, so that it
/// knows in which order samples and events came.
pub fn opener(
    options: GnocchiOptions,
    figures: Figures,
) -> impl Fn(&PublisherUrl, Purpose) -> Opened + Send + Sync + 'static {
    let opened: Mutex<HashMap<String, Arc<dyn Publisher>>> = Mutex::default();
    move |url, _| {
        let mut opened = opened.lock();
        let key = url.query.encoded();
        if let Some(publisher) = opened.get(&key) {
            return Ok(publisher.clone());
        }
        let publisher = GnocchiPublisher::start(url, &options, figures.clone());
        let publisher: Arc<dyn Publisher> =
            Arc::new(publisher.map_err(|error| OpenError(error.to_string()))?);
        opened.insert(key, publisher.clone());
        Ok(publisher)
    }
}

/// Makes the types of resources that are missing in the store, and attributes of types that are there, as
/// `ceilometer-upgrade` does. Waits while the store is away.
pub async fn upgrade(options: &GnocchiOptions) -> Result<(), GnocchiError> {
    let store = Store::new(options, std::time::Duration::from_mins(1), Figures::default())?;
    resource_types::upgrade(&store).await.map_err(|error| GnocchiError::Options(error.to_string()))
}

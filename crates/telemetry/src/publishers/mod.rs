//! Publishers of samples and events: one file or folder per URL scheme.
//!
//! A publisher copies what it needs and returns immediately; the receipt resolves once the data is safe. Publishers
//! retry transient errors themselves: while a store is down, receipts just take longer. An error is therefore permanent,
//! and the rest of the message is published in spite of it: nobody publishes the message again, which would repeat it to
//! all other publishers. Memory is bounded by the number of unacknowledged messages that an agent accepts.

mod built_in;
mod bus;
mod figures;
mod file;
pub mod gnocchi;
mod http;
mod notifier;
mod open;
mod opentelemetry;
mod peer_health;
mod prometheus;
mod tasks;
mod tcp;
mod test;
mod udp;
mod url;
mod zaqar;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};

use crate::{event::Event, sample::Sample};

pub use built_in::PublisherContext;
pub use bus::{BusOptions, bus_opener};
pub use figures::PublisherFigures;
pub use notifier::{Bus, BusOpener, NotifierOptions};
pub use open::{OpenError, Opened, Opener, Publishers};
pub use tasks::{PublisherPanics, PublisherTasks};
pub use test::TestPublisher;
pub use url::PublisherUrl;
pub use zaqar::ZaqarPublisher;

/// Why a part of a message was not published, in spite of retries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PublishError(pub String);

/// Resolves when the data is safe: acknowledged by the store, or as safe as the publisher promises (a datagram was
/// sent).
pub struct Receipt(BoxFuture<'static, Result<(), PublishError>>);

impl Receipt {
    /// A resolved receipt.
    pub fn done() -> Self {
        Receipt(std::future::ready(Ok(())).boxed())
    }

    pub fn failed(error: PublishError) -> Self {
        Receipt(std::future::ready(Err(error)).boxed())
    }

    pub fn of(future: impl Future<Output = Result<(), PublishError>> + Send + 'static) -> Self {
        Receipt(future.boxed())
    }

    /// Waits for all; fails with the first error.
    pub fn all(receipts: Vec<Receipt>) -> Self {
        Receipt::of(async move { join_all(receipts).await.into_iter().collect() })
    }
}

impl Future for Receipt {
    type Output = Result<(), PublishError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

/// Publishes samples and events. Must be called within a Tokio runtime.
pub trait Publisher: Send + Sync {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt;

    /// Publishers of samples only are opened for nothing else.
    fn events(&self, _events: &[Event]) -> Receipt {
        Receipt::failed(PublishError("publishes samples only".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::Sample;

    /// A gauge of resource `r` in project `p`.
    pub fn sample(name: &str, volume: f64) -> Sample<'static> {
        Sample {
            name: name.to_owned().into(),
            unit: "B".into(),
            volume: volume.into(),
            project_id: Some("p".into()),
            resource_id: "r".into(),
            timestamp: Some("2026-01-02T03:04:05.000006".into()),
            source: "openstack".into(),
            id: "i".into(),
            ..Sample::default()
        }
    }
}

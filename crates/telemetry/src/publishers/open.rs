//! The registry of publisher kinds, which opens publishers by URL.
//!
//! Kinds that need more than this crate (a store's credentials) are added from outside.

use std::{collections::BTreeMap, sync::Arc};

use super::{Publisher, PublisherUrl};
use crate::pipeline::PipelineKind;

/// Why a publisher cannot be opened; says what to do, and reveals no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

pub type Opened = Result<Arc<dyn Publisher>, OpenError>;

/// Opens publishers of one kind. Called within a Tokio runtime.
pub type Opener = Box<dyn Fn(&PublisherUrl, PipelineKind) -> Opened + Send + Sync>;

/// The kinds of publishers by URL scheme.
#[derive(Default)]
pub struct Publishers(BTreeMap<&'static str, Opener>);

/// Schemes of Ceilometer, past and present, that are not supported, and their replacements.
const GONE: &[(&str, &str)] = &[
    ("database", "it went with Ceilometer's own database; use gnocchi://"),
    ("direct", "it went with Ceilometer's own database; use gnocchi://"),
    ("rpc", "it is called notifier:// now"),
    ("kafka", "use notifier:// with RabbitMQ, or http://"),
    ("panko", "Panko is retired; use gnocchi:// or notifier://"),
];

impl Publishers {
    /// Adds or replaces a kind.
    pub fn add(
        &mut self,
        scheme: &'static str,
        opener: impl Fn(&PublisherUrl, PipelineKind) -> Opened + Send + Sync + 'static,
    ) {
        self.0.insert(scheme, Box::new(opener));
    }

    /// Opens a publisher. Must be called within a Tokio runtime.
    pub fn open(&self, url: &str, purpose: PipelineKind) -> Opened {
        let url = PublisherUrl::parse(url)?;
        let within = |error: OpenError| OpenError(format!("{}://: {error}", url.scheme));
        if let Some(opener) = self.0.get(url.scheme.as_str()) {
            return opener(&url, purpose).map_err(within);
        }
        let gone = GONE.iter().find(|(scheme, _)| *scheme == url.scheme);
        let reason = gone.map_or_else(
            || {
                let known: Vec<&str> = self.0.keys().copied().collect();
                format!("no such kind of publisher; there are: {}", known.join(", "))
            },
            |(_, reason)| (*reason).to_owned(),
        );
        Err(within(OpenError(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishers::TestPublisher;

    #[test]
    fn kinds_that_are_not_there_are_told_with_what_is() {
        let mut publishers = Publishers::default();
        publishers.add("test", |_, _| Ok(Arc::new(TestPublisher::default())));
        assert!(publishers.open("test://", PipelineKind::Events).is_ok());
        let error = |url| publishers.open(url, PipelineKind::Samples).err().unwrap().to_string();
        assert_eq!(error("x://u:secret@h"), "x://: no such kind of publisher; there are: test");
        assert!(error("kafka://h").contains("RabbitMQ"));
    }
}

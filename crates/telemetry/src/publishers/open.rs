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
pub struct Publishers(BTreeMap<&'static str, Result<Opener, OpenError>>);

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
        self.0.insert(scheme, Ok(Box::new(opener)));
    }

    /// Adds or replaces a kind of which none can be opened, and the reason.
    pub fn refuse(&mut self, scheme: &'static str, reason: OpenError) {
        self.0.insert(scheme, Err(reason));
    }

    /// Opens a publisher. Must be called within a Tokio runtime.
    pub fn open(&self, url: &str, kind: PipelineKind) -> Opened {
        let (url, opener) = self.opener(url)?;
        opener(&url, kind).map_err(|error| within(&url.scheme, &error))
    }

    /// Whether publishers of the URL's kind can be opened at all; opens none.
    pub fn check(&self, url: &str) -> Result<(), OpenError> {
        self.opener(url).map(drop)
    }

    fn opener(&self, url: &str) -> Result<(PublisherUrl, &Opener), OpenError> {
        let url = PublisherUrl::parse(url)?;
        let reason = match self.0.get(url.scheme.as_str()) {
            Some(Ok(opener)) => return Ok((url, opener)),
            Some(Err(reason)) => reason.clone(),
            None => self.unknown(&url.scheme),
        };
        Err(within(&url.scheme, &reason))
    }

    fn unknown(&self, scheme: &str) -> OpenError {
        let gone = GONE.iter().find(|(gone, _)| *gone == scheme);
        OpenError(gone.map_or_else(
            || {
                let known: Vec<&str> = self.0.keys().copied().collect();
                format!("no such kind of publisher; there are: {}", known.join(", "))
            },
            |(_, reason)| (*reason).to_owned(),
        ))
    }
}

/// With the kind in front of the reason.
fn within(scheme: &str, error: &OpenError) -> OpenError {
    OpenError(format!("{scheme}://: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishers::TestPublisher;

    #[test]
    fn kinds_that_are_not_there_are_told_with_what_is() {
        let mut publishers = Publishers::default();
        publishers.add("test", |_, _| Ok(Arc::new(TestPublisher)));
        assert!(publishers.open("test://", PipelineKind::Events).is_ok());
        let error = |url| publishers.open(url, PipelineKind::Samples).err().unwrap().to_string();
        assert_eq!(error("x://u:secret@h"), "x://: no such kind of publisher; there are: test");
        assert!(error("kafka://h").contains("RabbitMQ"));
    }

    #[test]
    fn a_kind_that_cannot_be_opened_is_known_before() {
        let mut publishers = Publishers::default();
        publishers.add("test", |_, _| panic!("nothing is opened"));
        publishers.refuse("gnocchi", OpenError("no credentials".to_owned()));
        assert_eq!(publishers.check("test://"), Ok(()));
        let refused = OpenError("gnocchi://: no credentials".to_owned());
        assert_eq!(publishers.check("gnocchi://?timeout=1"), Err(refused.clone()));
        assert_eq!(publishers.open("gnocchi://", PipelineKind::Events).err(), Some(refused));
        assert!(publishers.check("x://").is_err() && publishers.check("x").is_err());
    }
}

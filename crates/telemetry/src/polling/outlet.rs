//! Completes a pollster's samples, batches them into messages, and sends them.

use std::borrow::Cow;

use async_trait::async_trait;

use super::{exporter::ExportedSeries, names::Names, pollster::PollError};
use crate::sample::Sample;

/// Signs, wraps and publishes messages of samples. It retries transient errors itself.
#[async_trait]
pub trait SampleSender: Send + Sync {
    async fn send(&self, samples: &[Sample<'_>]) -> Result<(), PollError>;
}

/// The outlet of one pollster, for one round.
pub struct Outlet<'a> {
    pub(super) sender: &'a dyn SampleSender,
    pub(super) names: Option<&'a Names>,
    /// Start of the round, the timestamp of all its samples.
    pub(super) timestamp: String,
    pub(super) source: String,
    /// Creates sample ids.
    pub(super) new_id: &'a (dyn Fn() -> String + Send + Sync),
    /// Samples per message; 0 sends each in a message of its own.
    pub(super) batch_size: usize,
    pub(super) waiting: Vec<Sample<'static>>,
    /// Number of samples sent.
    pub(super) samples: u64,
    /// Series for the exporter; `None` without one.
    pub(super) shown: Option<Vec<ExportedSeries>>,
    /// Why samples were not sent, while the exporter still gets the rest: nothing more is sent in this round.
    pub(super) failure: Option<PollError>,
}

impl Outlet<'_> {
    /// Completes a sample and adds it to the batch; sends a full batch.
    pub async fn push(&mut self, mut sample: Sample<'static>) -> Result<(), PollError> {
        sample.timestamp = Some(Cow::Owned(self.timestamp.clone()));
        sample.source = Cow::Owned(self.source.clone());
        sample.id = Cow::Owned((self.new_id)());
        self.waiting.push(sample);
        if self.waiting.len() >= self.batch_size.max(1) { self.flush().await } else { Ok(()) }
    }

    /// Sends the batch. With an exporter a failure is kept for [`Outlet::finish`], since the pollster would end with it.
    pub async fn flush(&mut self) -> Result<(), PollError> {
        let mut samples = std::mem::take(&mut self.waiting);
        if samples.is_empty() {
            return Ok(());
        }
        if let Some(names) = self.names {
            names.complete(&mut samples).await;
        }
        if let Some(shown) = &mut self.shown {
            shown.extend(samples.iter().filter_map(ExportedSeries::of));
        }
        if self.failure.is_some() {
            return Ok(());
        }
        let sent = self.sender.send(&samples).await;
        if sent.is_ok() {
            self.samples += samples.len() as u64;
        }
        if self.shown.is_none() {
            return sent;
        }
        self.failure = sent.err();
        Ok(())
    }

    /// Sends the last batch, and returns the failure of any.
    pub async fn finish(&mut self) -> Result<(), PollError> {
        self.flush().await?;
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// A sender for tests of pollsters.
#[cfg(test)]
pub mod kept {
    use parking_lot::Mutex;

    use super::*;

    /// Keeps the resources of the samples.
    #[derive(Default)]
    pub struct Kept(Mutex<Vec<String>>);

    impl Kept {
        /// For one round.
        pub fn outlet(&self) -> Outlet<'_> {
            Outlet {
                sender: self,
                names: None,
                timestamp: String::new(),
                source: String::new(),
                new_id: &String::new,
                batch_size: 0,
                waiting: Vec::new(),
                samples: 0,
                shown: None,
                failure: None,
            }
        }

        /// The resources since the last call.
        pub fn take(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    #[async_trait]
    impl SampleSender for Kept {
        async fn send(&self, samples: &[Sample<'_>]) -> Result<(), PollError> {
            self.0.lock().extend(samples.iter().map(|sample| sample.resource_id.to_string()));
            Ok(())
        }
    }
}

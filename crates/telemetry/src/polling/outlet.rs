//! Where samples leave a pollster: completed, gathered to messages, and sent.

use std::borrow::Cow;

use async_trait::async_trait;

use super::{exporter::Series, names::Names, pollster::PollError};
use crate::sample::Sample;

/// Takes messages of samples: signs, wraps and publishes them. It tries again by itself for as long as that makes sense.
#[async_trait]
pub trait Sender: Send + Sync {
    async fn send(&self, samples: &[Sample<'_>]) -> Result<(), PollError>;
}

/// One pollster's way out, for one round.
pub struct Outlet<'a> {
    pub(super) sender: &'a dyn Sender,
    pub(super) names: Option<&'a Names>,
    /// Of all samples of the round: when it began.
    pub(super) timestamp: String,
    pub(super) source: String,
    /// Makes the samples' ids.
    pub(super) new_id: &'a (dyn Fn() -> String + Send + Sync),
    /// 0 sends each sample for itself.
    pub(super) batch_size: usize,
    pub(super) waiting: Vec<Sample<'static>>,
    pub(super) samples: u64,
    /// What the exporter shows; `None` where there is none.
    pub(super) shown: Option<Vec<Series>>,
}

impl Outlet<'_> {
    /// Completes a sample and sends it with others, when they are many.
    pub async fn push(&mut self, mut sample: Sample<'static>) -> Result<(), PollError> {
        sample.timestamp = Some(Cow::Owned(self.timestamp.clone()));
        sample.source = Cow::Owned(self.source.clone());
        sample.id = Cow::Owned((self.new_id)());
        self.waiting.push(sample);
        if self.waiting.len() >= self.batch_size.max(1) { self.flush().await } else { Ok(()) }
    }

    /// Sends the queue.
    pub async fn flush(&mut self) -> Result<(), PollError> {
        let mut samples = std::mem::take(&mut self.waiting);
        if samples.is_empty() {
            return Ok(());
        }
        if let Some(names) = self.names {
            names.complete(&mut samples).await;
        }
        self.samples += samples.len() as u64;
        if let Some(shown) = &mut self.shown {
            shown.extend(samples.iter().filter_map(Series::of));
        }
        self.sender.send(&samples).await
    }
}

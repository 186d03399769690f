//! `test://`: keeps the newest samples and events in memory, for tests.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{Publisher, Receipt};
use crate::{event::Event, sample::Sample, wire};

/// Samples and events kept, each.
const KEPT_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct TestPublisher {
    samples: Mutex<VecDeque<String>>,
    events: Mutex<VecDeque<Event>>,
}

impl TestPublisher {
    /// Takes out the samples, as JSON.
    pub fn take_samples(&self) -> Vec<String> {
        self.samples.lock().drain(..).collect()
    }

    /// Takes out the events.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.lock().drain(..).collect()
    }
}

fn keep<T>(kept: &Mutex<VecDeque<T>>, items: impl Iterator<Item = T>) {
    let mut kept = kept.lock();
    kept.extend(items);
    let beyond = kept.len().saturating_sub(KEPT_MAX);
    kept.drain(..beyond);
}

impl Publisher for TestPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        keep(&self.samples, samples.iter().map(wire::sample_record_json));
        Receipt::done()
    }

    fn events(&self, events: &[Event]) -> Receipt {
        keep(&self.events, events.iter().cloned());
        Receipt::done()
    }
}

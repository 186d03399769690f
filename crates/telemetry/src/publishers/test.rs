//! `test://`: discards samples and events, for tests.

use super::{Publisher, Receipt};
use crate::{event::Event, sample::Sample};

#[derive(Debug)]
pub struct TestPublisher;

impl Publisher for TestPublisher {
    fn samples(&self, _: &[Sample<'_>]) -> Receipt {
        Receipt::done()
    }

    fn events(&self, _: &[Event]) -> Receipt {
        Receipt::done()
    }
}

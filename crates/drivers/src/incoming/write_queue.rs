//! Shared by all that queue batches to be written: limits the bytes in a queue, and takes the batches that are written
//! together.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::segments::Frame;

/// A batch's overhead beside its bytes; thus limits the number of batches, too.
const BATCH_OVERHEAD_BYTES: usize = 256;

/// The room of a queue, in bytes.
pub(super) struct QueueRoom {
    free: Arc<Semaphore>,
    bytes_max: u32,
}

impl QueueRoom {
    pub(super) fn new(bytes_max: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes_max as usize)), bytes_max }
    }

    /// Waits for room for a batch, which has it until the permit is dropped. A batch larger than the queue takes
    /// all of its room.
    pub(super) async fn take(&self, bytes: usize) -> OwnedSemaphorePermit {
        let bytes = u32::try_from(bytes + BATCH_OVERHEAD_BYTES).unwrap_or(u32::MAX).min(self.bytes_max);
        Arc::clone(&self.free).acquire_many_owned(bytes).await.expect("the room is never closed")
    }
}

/// Takes the first batches whose frames fit into `room` bytes; at least one.
pub(super) fn take_fitting<T>(queue: &mut VecDeque<T>, room: usize, frame: impl Fn(&T) -> &Frame) -> Vec<T> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while let Some(next) = queue.pop_front_if(|next| group.is_empty() || bytes + frame(next).len() <= room) {
        bytes += frame(&next).len();
        group.push(next);
    }
    group
}

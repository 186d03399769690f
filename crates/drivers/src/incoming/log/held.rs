//! Frames that were just written, held in memory: what waits is mostly folded within a second, and need not be read back.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use crate::segments::{Frame, frame::ITEM_HEADER_BYTES};

/// How many bytes of frames are held, below a limit; those beyond it are read from the disk.
pub struct Holder {
    bytes: Arc<AtomicU64>,
    bytes_max: u64,
}

/// A frame, held as long as a part of it waits.
#[derive(Debug)]
pub struct Held {
    bytes: Bytes,
    all: Arc<AtomicU64>,
}

impl Holder {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: Arc::default(), bytes_max }
    }

    /// `None` where there is no room for it.
    pub fn hold(&self, frame: Frame) -> Option<Arc<Held>> {
        let bytes = frame.into_bytes();
        let within = |held: u64| held.checked_add(bytes.len() as u64).filter(|sum| *sum <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).ok()?;
        Some(Arc::new(Held { bytes, all: Arc::clone(&self.bytes) }))
    }
}

impl Held {
    /// The payload of the item at `offset` from the frame's start.
    pub fn payload(&self, offset: u32, length: u32) -> Bytes {
        let start = offset as usize + ITEM_HEADER_BYTES;
        self.bytes.slice(start..start + length as usize)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_held_up_to_the_limit_and_while_somebody_wants_them() {
        let frame = || {
            let mut frame = Frame::with_capacity(100);
            let (offset, length) = frame.push(7, |out| out.extend_from_slice(b"points"));
            (frame, offset, length)
        };
        let bytes = frame().0.len() as u64;
        let holder = Holder::new(2 * bytes);
        let (first, offset, length) = frame();
        let first = holder.hold(first).unwrap();
        assert_eq!(first.payload(offset, length), "points");
        let second = holder.hold(frame().0).unwrap();
        let part = Arc::clone(&second);
        assert!(holder.hold(frame().0).is_none());
        drop(second);
        assert!(holder.hold(frame().0).is_none(), "a part of it is still wanted");
        drop(part);
        assert!(holder.hold(frame().0).is_some());
    }
}

//! Cache of frames just written: most are folded within a second, and need not be read back.

use std::sync::Arc;

use bytes::Bytes;

use super::queue::{Admission, Gate};
use crate::segments::{Frame, frame::ITEM_HEADER_BYTES};

/// A frame, held in memory while a part of it waits.
#[derive(Debug)]
pub struct RecentFrame {
    bytes: Bytes,
    /// Reduces the gate's count when the frame is dropped.
    _admission: Admission,
}

impl RecentFrame {
    /// `None` if the gate's limit is reached: then the frame is read from the disk.
    pub fn hold(frame: Frame, gate: &Arc<Gate>) -> Option<Arc<Self>> {
        let bytes = frame.into_bytes();
        let admission = gate.admit(bytes.len() as u64).ok()?;
        Some(Arc::new(Self { bytes, _admission: admission }))
    }

    /// The payload of the item at `offset` from the frame's start.
    pub fn payload(&self, offset: u32, length: u32) -> Bytes {
        let start = offset as usize + ITEM_HEADER_BYTES;
        self.bytes.slice(start..start + length as usize)
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
        let gate = Gate::new(2 * bytes);
        let (first, offset, length) = frame();
        let first = RecentFrame::hold(first, &gate).unwrap();
        assert_eq!(first.payload(offset, length), "points");
        let second = RecentFrame::hold(frame().0, &gate).unwrap();
        let part = Arc::clone(&second);
        assert!(RecentFrame::hold(frame().0, &gate).is_none());
        drop(second);
        assert!(RecentFrame::hold(frame().0, &gate).is_none(), "a part of it is still wanted");
        drop(part);
        assert!(RecentFrame::hold(frame().0, &gate).is_some());
    }
}

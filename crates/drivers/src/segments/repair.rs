//! Overwrites damaged places of a log with whole frames, so that it reads without damage from then on.
//!
//! A position is a place in the log, so the surviving items of a damaged frame stay where they are: a new
//! frame holds them, with padding items in between. If nothing survives, an empty frame covers the place.
//! Mending is idempotent: surviving items are overwritten with the same bytes.

use std::io::{self, IoSlice};

use super::{
    Location, SEGMENT_HEADER_BYTES,
    frame::{FRAME_HEADER_BYTES, Frame, ITEM_HEADER_BYTES, filler},
};
use crate::disk::{DiskFile, write_all_at};

/// A damaged place of a segment.
pub(crate) struct Hole {
    pub start: Location,
    pub length: u32,
    /// The surviving items, in order.
    pub left: Vec<LeftItem>,
}

/// An item that is whole.
pub(crate) struct LeftItem {
    /// From the hole's start.
    pub offset: u32,
    pub tag: u64,
    pub payload: Vec<u8>,
}

/// Builds a padding payload of the given length, if one exists; one of length 0 always does.
pub(crate) type Padding = fn(usize) -> Option<Vec<u8>>;

/// Writes a whole frame over a hole of `file`, not yet durable. False if the hole is too short for one.
pub(crate) fn cover(file: &dyn DiskFile, hole: &Hole, padding: Padding) -> io::Result<bool> {
    let length = hole.length as usize;
    if length < FRAME_HEADER_BYTES {
        return Ok(false);
    }
    let rebuilt = rebuilt(hole, padding).filter(|frame| frame.len() == length);
    let mut frame = rebuilt.unwrap_or_else(|| filler(length));
    // Claim nothing before the hole as synced: the frames behind it prove what was.
    frame.stamp(hole.start, hole.start.offset - SEGMENT_HEADER_BYTES);
    write_all_at(file, &mut [IoSlice::new(frame.bytes())], hole.start.offset.into())?;
    Ok(true)
}

fn rebuilt(hole: &Hole, padding: Padding) -> Option<Frame> {
    hole.left.first()?;
    let mut frame = Frame::with_capacity(hole.length as usize);
    for left in &hole.left {
        fill_up(&mut frame, left.offset as usize, padding)?;
        frame.push(left.tag, |out| out.extend_from_slice(&left.payload));
    }
    fill_up(&mut frame, hole.length as usize, padding)?;
    Some(frame)
}

/// Adds padding items up to `end`.
fn fill_up(frame: &mut Frame, end: usize, padding: Padding) -> Option<()> {
    while frame.len() < end {
        let room = (end - frame.len()).checked_sub(ITEM_HEADER_BYTES)?;
        let payload = padding(room).unwrap_or_default();
        frame.push(0, |out| out.extend_from_slice(&payload));
    }
    (frame.len() == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::{Disk as _, LocalDisk, read_file},
        segments::frame::{FrameHeader, ItemView, items},
    };

    fn padding(length: usize) -> Option<Vec<u8>> {
        (length == 0 || length >= 24).then(|| vec![0; length])
    }

    /// All surviving items keep their places.
    #[test]
    fn what_is_left_stays_at_its_place() {
        let at = Location { segment: 3, offset: SEGMENT_HEADER_BYTES };
        let mut frame = Frame::with_capacity(0);
        for (tag, length) in [(1, 30), (2, 24), (3, 100), (4, 8)] {
            frame.push(tag, |out| out.resize(out.len() + length, tag as u8));
        }
        let whole = items(frame.bytes());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for kept in 0..16_u32 {
            let file = LocalDisk.create(&path).unwrap();
            let is_kept = |item: &&ItemView| kept >> (item.tag - 1) & 1 == 1;
            let left = whole.iter().filter(is_kept).map(|item| {
                let payload = item.payload(frame.bytes()).to_vec();
                LeftItem { offset: item.offset, tag: item.tag, payload }
            });
            let hole = Hole { start: at, length: frame.len() as u32, left: left.collect() };
            assert!(cover(&*file, &hole, padding).unwrap());
            let bytes = read_file(&LocalDisk, &path).unwrap().split_off(SEGMENT_HEADER_BYTES as usize);
            let header = FrameHeader::parse(&bytes, at).unwrap();
            assert_eq!(header.length, frame.len());
            let found = if header.items == 0 { Vec::new() } else { items(&bytes) };
            assert!(header.matches(&found), "{kept:b}");
            // The last item is shorter than the smallest padding item: then the whole frame is given up.
            let expected =
                if kept & 8 == 0 && kept > 0 { Vec::new() } else { whole.iter().filter(is_kept).collect() };
            assert!(expected.iter().all(|item| found.contains(item)), "{kept:b}: {found:?}");
        }
    }
}

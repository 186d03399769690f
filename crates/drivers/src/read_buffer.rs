//! A pool of buffers for large reads. A new buffer costs more than a read of cached bytes: the system zeroes its pages,
//! and the program zeroes them again.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

/// Smaller buffers are cheap to make, larger ones are rare. The sizes are powers of two.
const BUFFER_BYTES_MIN: usize = 16 << 10;
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The memory of all free buffers, in bytes.
const FREE_BYTES_MAX: usize = 8 << 20;

static FREE: Mutex<Free> = Mutex::new(Free { buffers: VecDeque::new(), bytes: 0 });

struct Free {
    /// The one that was used last is at the back.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Free {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let place = self.buffers.iter().rposition(|buffer| buffer.len() == size)?;
        self.bytes -= size;
        self.buffers.remove(place)
    }

    /// Drops those that were not used for longest: a merge leaves large ones, which queries do not need.
    fn put(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.len();
        self.buffers.push_back(buffer);
        while self.bytes > FREE_BYTES_MAX {
            self.bytes -= self.buffers.pop_front().map_or(0, |oldest| oldest.len());
        }
    }
}

/// The front of a buffer that is free again when dropped.
struct Front {
    buffer: Vec<u8>,
    length: usize,
}

impl AsRef<[u8]> for Front {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        FREE.lock().put(std::mem::take(&mut self.buffer));
    }
}

/// `length` bytes that `fill` has written. It gets bytes of any content.
pub fn filled<E>(length: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Bytes, E> {
    if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&length) {
        let mut bytes = vec![0; length];
        fill(&mut bytes)?;
        return Ok(bytes.into());
    }
    let size = length.next_power_of_two();
    let free = FREE.lock().take(size);
    let mut front = Front { buffer: free.unwrap_or_else(|| vec![0; size]), length };
    fill(&mut front.buffer[..length])?;
    Ok(Bytes::from_owner(front))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(length: usize, byte: u8) -> Bytes {
        filled::<()>(length, |bytes| {
            bytes.fill(byte);
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn bytes_have_their_length_and_stay_while_they_are_used() {
        for length in
            [0, 1, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MIN, 40_000, BUFFER_BYTES_MAX, BUFFER_BYTES_MAX + 1]
        {
            let one = bytes_of(length, 1);
            let end = one.slice(length / 2..);
            drop(one);
            let other = bytes_of(length, 2);
            assert_eq!((other.len(), end.len()), (length, length - length / 2));
            assert!(end.iter().all(|byte| *byte == 1) && other.iter().all(|byte| *byte == 2));
        }
        assert_eq!(filled(50_000, |_| Err("unreadable")), Err("unreadable"));
    }

    #[test]
    fn free_buffers_hold_limited_memory() {
        let mut free = Free { buffers: VecDeque::new(), bytes: 0 };
        for _ in 0..2 * FREE_BYTES_MAX / BUFFER_BYTES_MAX {
            free.put(vec![0; BUFFER_BYTES_MAX]);
        }
        assert_eq!(free.bytes, FREE_BYTES_MAX);
        // Other sizes are used from now on.
        free.put(vec![0; BUFFER_BYTES_MIN]);
        assert!(free.take(BUFFER_BYTES_MIN).is_some() && free.bytes < FREE_BYTES_MAX);
        while free.take(BUFFER_BYTES_MAX).is_some() {}
        assert_eq!(free.bytes, 0);
    }
}

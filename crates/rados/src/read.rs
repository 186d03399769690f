//! Read operations: an object's data, its size, its omap.
//!
//! librados writes into the job's slot while the operation is in flight: the job is on the heap, is not moved before
//! the callback, and there are no references into it meanwhile.

use std::{
    ffi::{CStr, c_char, c_int, c_uchar},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    Pool, Result,
    cluster::{NO_KEY, c_string},
    flight::{Pending, Slot},
    library::{Api, Handle},
};

/// Properties of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bytes of data, without the omap.
    pub size: u64,
    /// Time of the last write, in whole seconds.
    pub modified: SystemTime,
}

/// Part of an object's omap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapPage {
    /// Keys with values, sorted by the bytes of the keys.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether there are more keys.
    pub more: bool,
}

impl Pool {
    /// Reads at most `len_max` bytes from `offset`, fewer if the object ends before, none past its end; and the object's size
    /// at the same moment.
    pub fn read(&self, object: &str, offset: u64, len_max: usize) -> Pending<(Vec<u8>, u64)> {
        // For an OSD a length of 0 means the whole object.
        let buffer_len = len_max.max(1);
        let stat = StatSlot::default();
        let slot = DataSlot { data: vec![0; buffer_len], len_max, len: 0, code: 0, stat };
        self.submit("read", object, slot, |context, completion, object, slot| {
            let operation = ReadOperation::new(self.api());
            // SAFETY: the slot is on the heap and outlives the operation; its data are `buffer_len` bytes without other
            // users. The reference to the vector ends before librados knows the pointers.
            unsafe {
                let data = (*slot).data.as_mut_ptr().cast::<c_char>();
                (self.api().rados_read_op_stat)(
                    operation.handle,
                    &raw mut (*slot).stat.size,
                    &raw mut (*slot).stat.mtime,
                    &raw mut (*slot).stat.code,
                );
                (self.api().rados_read_op_read)(
                    operation.handle,
                    offset,
                    buffer_len,
                    data,
                    &raw mut (*slot).len,
                    &raw mut (*slot).code,
                );
            }
            operation.submit(context, completion, object)
        })
    }

    /// The object's size; `NotFound` if it does not exist.
    pub fn stat(&self, object: &str) -> Pending<Stat> {
        self.submit("stat", object, StatSlot::default(), |context, completion, object, slot| {
            let operation = ReadOperation::new(self.api());
            // SAFETY: the slot outlives the operation, on the heap.
            unsafe {
                (self.api().rados_read_op_stat)(
                    operation.handle,
                    &raw mut (*slot).size,
                    &raw mut (*slot).mtime,
                    &raw mut (*slot).code,
                );
            }
            operation.submit(context, completion, object)
        })
    }

    /// The keys after `start_after` that begin with `prefix`, at most `count_max` (the cluster may return fewer, and
    /// say that there are more); `NotFound` if the object does not exist.
    pub fn omap_page(
        &self,
        object: &str,
        start_after: Option<&[u8]>,
        prefix: &[u8],
        count_max: u64,
    ) -> Pending<OmapPage> {
        let start_after = start_after.map(|key| c_string(key, "an omap key")).transpose();
        let (start_after, prefix) = match (start_after, c_string(prefix, "a prefix of omap keys")) {
            (Ok(start_after), Ok(prefix)) => (start_after, prefix),
            (Err(error), _) | (_, Err(error)) => return Pending::ready(Err(error)),
        };
        let start_after = start_after.as_deref().unwrap_or(NO_KEY);
        let slot = OmapSlot { iterator: std::ptr::null_mut(), more: 0, code: 0 };
        self.submit("read keys of", object, slot, |context, completion, object, slot| {
            let operation = ReadOperation::new(self.api());
            // SAFETY: the slot is on the heap and outlives the operation; both strings are copied during the call. The
            // iterator is set immediately, and filled when the operation completes.
            unsafe {
                (self.api().rados_read_op_omap_get_vals2)(
                    operation.handle,
                    start_after.as_ptr(),
                    prefix.as_ptr(),
                    count_max,
                    &raw mut (*slot).iterator,
                    &raw mut (*slot).more,
                    &raw mut (*slot).code,
                );
            }
            operation.submit(context, completion, object)
        })
    }
}

/// A read operation under construction; librados takes its steps at submission.
struct ReadOperation {
    api: Arc<Api>,
    handle: Handle,
}

impl ReadOperation {
    fn new(api: &Arc<Api>) -> Self {
        // SAFETY: takes nothing, allocates.
        let handle = unsafe { (api.rados_create_read_op)() };
        ReadOperation { api: Arc::clone(api), handle }
    }

    fn submit(self, context: Handle, completion: Handle, object: &CStr) -> c_int {
        // SAFETY: all handles are alive, and `object` is a C string that librados copies.
        unsafe { (self.api.rados_aio_read_op_operate)(self.handle, context, completion, object.as_ptr(), 0) }
    }
}

impl Drop for ReadOperation {
    fn drop(&mut self) {
        // SAFETY: the handle is from rados_create_read_op, and not used after this.
        unsafe { (self.api.rados_release_read_op)(self.handle) }
    }
}

/// The operation's code, or else its step's.
fn worst(code: c_int, step: c_int) -> Result<(), c_int> {
    match (code, step) {
        (code, _) if code < 0 => Err(code),
        (_, step) if step < 0 => Err(step),
        _ => Ok(()),
    }
}

struct DataSlot {
    data: Vec<u8>,
    len_max: usize,
    len: usize,
    code: c_int,
    stat: StatSlot,
}

impl Slot for DataSlot {
    type Value = (Vec<u8>, u64);

    fn take(mut self, api: &Api, code: c_int) -> Result<(Vec<u8>, u64), c_int> {
        let stat = self.stat.take(api, code)?;
        worst(code, self.code)?;
        self.data.truncate(self.len.min(self.len_max));
        Ok((self.data, stat.size))
    }
}

#[derive(Default)]
struct StatSlot {
    size: u64,
    mtime: i64,
    code: c_int,
}

impl Slot for StatSlot {
    type Value = Stat;

    fn take(self, _: &Api, code: c_int) -> Result<Stat, c_int> {
        worst(code, self.code)?;
        let since_1970 = Duration::from_secs(u64::try_from(self.mtime).unwrap_or(0));
        Ok(Stat { size: self.size, modified: SystemTime::UNIX_EPOCH + since_1970 })
    }
}

struct OmapSlot {
    iterator: Handle,
    more: c_uchar,
    code: c_int,
}

// SAFETY: the iterator belongs to the slot alone; the thread of the callback uses it after the one that submitted it.
unsafe impl Send for OmapSlot {}

impl Slot for OmapSlot {
    type Value = OmapPage;

    fn take(self, api: &Api, code: c_int) -> Result<OmapPage, c_int> {
        let outcome = worst(code, self.code).map(|()| OmapPage {
            // SAFETY: the operation succeeded, so the iterator is filled.
            entries: unsafe { entries(api, self.iterator) },
            more: self.more != 0,
        });
        if !self.iterator.is_null() {
            // SAFETY: the operation is complete: librados no longer uses the iterator, which is freed only here.
            unsafe { (api.rados_omap_get_end)(self.iterator) };
        }
        outcome
    }
}

/// All entries of an iterator.
///
/// # Safety
/// The iterator is from an operation that succeeded, and has not been freed.
unsafe fn entries(api: &Api, iterator: Handle) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    loop {
        let (mut key, mut value): (*mut c_char, *mut c_char) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator is alive, and the four output parameters outlive the call.
        let code = unsafe {
            (api.rados_omap_get_next2)(
                iterator,
                &raw mut key,
                &raw mut value,
                &raw mut key_len,
                &raw mut value_len,
            )
        };
        // At the end the key is null.
        if code < 0 || key.is_null() {
            return entries;
        }
        // SAFETY: both point into the iterator, which is alive; they are copied here.
        entries.push(unsafe { (copy(key, key_len), copy(value, value_len)) });
    }
}

/// # Safety
/// There are `len` bytes at `start`, or `start` is null.
unsafe fn copy(start: *const c_char, len: usize) -> Vec<u8> {
    if start.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_fails_the_operation() {
        assert_eq!(worst(0, 0), Ok(()));
        assert_eq!(worst(5, 0), Ok(()), "a read's code may be the count of its bytes");
        assert_eq!(worst(0, -2), Err(-2));
        assert_eq!(worst(-110, -2), Err(-110));
    }
}

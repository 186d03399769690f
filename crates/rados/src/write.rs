//! Write operations: several steps on one object, executed atomically.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
};

use crate::{
    Error, Pool,
    flight::{Nothing, Pending},
    library::{Api, CREATE_EXCLUSIVE, FULL_TRY, Handle},
};

/// Steps to execute on one object, in order. librados copies the arguments of a step.
pub struct WriteOperation {
    api: Arc<Api>,
    handle: Handle,
    /// The first step, for the text of an error.
    verb: Option<&'static str>,
    flags: c_int,
    invalid: Option<Error>,
}

// SAFETY: the handle is a list of steps on the heap without other users; any one thread may own it.
unsafe impl Send for WriteOperation {}

impl std::fmt::Debug for WriteOperation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "WriteOperation({})", self.verb.unwrap_or("nothing"))
    }
}

impl Drop for WriteOperation {
    fn drop(&mut self) {
        // SAFETY: the handle is from rados_create_write_op; librados took its steps at submission.
        unsafe { (self.api.rados_release_write_op)(self.handle) }
    }
}

impl WriteOperation {
    pub(crate) fn new(api: &Arc<Api>) -> Self {
        // SAFETY: takes nothing, allocates.
        let handle = unsafe { (api.rados_create_write_op)() };
        WriteOperation { api: Arc::clone(api), handle, verb: None, flags: 0, invalid: None }
    }

    fn step(mut self, verb: &'static str, add: impl FnOnce(&Api, Handle)) -> Self {
        self.verb.get_or_insert(verb);
        add(&self.api, self.handle);
        self
    }

    /// Creates the object; the operation fails with `AlreadyExists` if it exists.
    pub fn create_exclusive(self) -> Self {
        // SAFETY: the handle is alive; the category is no longer used and may be null.
        self.step("create", |api, handle| unsafe {
            (api.rados_write_op_create)(handle, CREATE_EXCLUSIVE, std::ptr::null());
        })
    }

    /// Writes the whole object, replacing its data; its omap stays.
    pub fn write_full(self, data: &[u8]) -> Self {
        // SAFETY: the handle is alive; `data` is read during the call only.
        self.step("write", |api, handle| unsafe {
            (api.rados_write_op_write_full)(handle, data.as_ptr().cast(), data.len());
        })
    }

    /// Removes the object with its omap, also from a full pool: by default librados holds back whatever changes one until
    /// it has space again. Other steps leave the default: such operations pass the OSDs' last limit, too.
    pub fn remove(mut self) -> Self {
        self.flags = FULL_TRY;
        // SAFETY: the handle is alive.
        self.step("remove", |api, handle| unsafe { (api.rados_write_op_remove)(handle) })
    }

    /// Sets keys of the object's omap; creates the object if missing. A key with a NUL byte fails the operation:
    /// librados could not list past it.
    pub fn omap_set<K: AsRef<[u8]>, V: AsRef<[u8]>>(mut self, entries: &[(K, V)]) -> Self {
        if entries.iter().any(|(key, _)| key.as_ref().contains(&0)) {
            self.invalid.get_or_insert(Error::Nul { what: "an omap key" });
        }
        let keys = Slices::of(entries.iter().map(|(key, _)| key.as_ref()));
        let values = Slices::of(entries.iter().map(|(_, value)| value.as_ref()));
        // SAFETY: the handle is alive; the four arrays have `entries.len()` items each, and point into `entries`: all
        // is read during the call only.
        self.step("set keys of", |api, handle| unsafe {
            (api.rados_write_op_omap_set2)(
                handle,
                keys.starts.as_ptr(),
                values.starts.as_ptr(),
                keys.lens.as_ptr(),
                values.lens.as_ptr(),
                entries.len(),
            );
        })
    }

    pub(crate) fn submit(mut self, pool: &Pool, object: &str) -> Pending<()> {
        if let Some(error) = self.invalid.take() {
            return Pending::ready(Err(error));
        }
        let verb = self.verb.unwrap_or("change");
        pool.submit(verb, object, Nothing, |context, completion, object, _| -> c_int {
            // SAFETY: the operation, the context and the completion are alive, and librados copies `object`, a C
            // string; no mtime means now. librados takes the steps before it returns.
            unsafe {
                (self.api.rados_aio_write_op_operate)(
                    self.handle,
                    context,
                    completion,
                    object.as_ptr(),
                    std::ptr::null_mut(),
                    self.flags,
                )
            }
        })
    }
}

/// Byte strings as two arrays for C. Valid as long as the strings are.
struct Slices {
    starts: Vec<*const c_char>,
    lens: Vec<usize>,
}

impl Slices {
    fn of<'a>(slices: impl Iterator<Item = &'a [u8]>) -> Self {
        let (starts, lens) = slices.map(|slice| (slice.as_ptr().cast::<c_char>(), slice.len())).unzip();
        Slices { starts, lens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_keep_their_places_and_lengths() {
        let strings: [&[u8]; 3] = [b"a", b"", b"three"];
        let slices = Slices::of(strings.iter().copied());
        assert_eq!(slices.lens, [1, 0, 5]);
        for (string, start) in strings.iter().zip(slices.starts) {
            assert_eq!(string.as_ptr().cast(), start);
        }
    }
}

//! Listing the objects of a pool's namespace.

use std::ffi::{CStr, c_char};

use crate::{Pool, Result, cluster::check, library::Handle};

/// librados' code for the end of a list: `ENOENT`.
const END: std::ffi::c_int = -2;

impl Pool {
    /// The names of all objects of the namespace that begin with `prefix`, unordered. The cluster has no index of
    /// names: it scans the whole pool. Blocks; names that are not UTF-8 are skipped.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut list = List { pool: self, handle: std::ptr::null_mut() };
        // SAFETY: the context is alive, and `handle` takes one pointer.
        let code = unsafe { (self.api().rados_nobjects_list_open)(self.context(), &raw mut list.handle) };
        list.check(code)?;
        let mut names = Vec::new();
        while let Some(name) = list.next()? {
            if name.to_bytes().starts_with(prefix.as_bytes())
                && let Ok(name) = name.to_str()
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

struct List<'a> {
    pool: &'a Pool,
    handle: Handle,
}

impl List<'_> {
    /// The next name; valid until the next call.
    fn next(&mut self) -> Result<Option<&CStr>> {
        let (mut object, mut locator, mut namespace): (*const c_char, *const c_char, *const c_char) =
            (std::ptr::null(), std::ptr::null(), std::ptr::null());
        // SAFETY: the list is open, used by this thread only, and the three output parameters outlive the call.
        let code = unsafe {
            (self.pool.api().rados_nobjects_list_next)(
                self.handle,
                &raw mut object,
                &raw mut locator,
                &raw mut namespace,
            )
        };
        if code == END {
            return Ok(None);
        }
        self.check(code)?;
        // SAFETY: librados returned a C string that is valid until the next call on this list, which the borrow of
        // `self` prevents.
        Ok(Some(unsafe { CStr::from_ptr(object) }))
    }

    fn check(&self, code: std::ffi::c_int) -> Result<()> {
        check(code, || format!("list {}", self.pool.name()))
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the list is from rados_nobjects_list_open, and not used after this.
            unsafe { (self.pool.api().rados_nobjects_list_close)(self.handle) }
        }
    }
}

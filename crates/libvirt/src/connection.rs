//! A connection to a hypervisor.

use std::sync::Arc;

use crate::{
    Domain, Libvirt, Result,
    library::{Api, Handle, c_string, free},
};

/// A read-only connection; clones share it. It is closed with the last clone and the last [`Domain`] from it.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Link>);

pub(crate) struct Link {
    pub(crate) api: Arc<Api>,
    handle: Handle,
    uri: String,
}

// SAFETY: libvirt locks its connections internally; any threads may use one concurrently.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

impl std::fmt::Debug for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Link").field(&self.uri).finish()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the handle is from virConnectOpenReadOnly and has no other users: each domain holds this link.
        unsafe { (self.api.virConnectClose)(self.handle) };
    }
}

impl Connection {
    /// Connects to `qemu:///system`, `test:///default` etc.
    pub fn open(libvirt: &Libvirt, uri: &str) -> Result<Self> {
        let name = c_string(uri, "the URI")?;
        let api = Arc::clone(libvirt.api());
        // SAFETY: the URI is a C string that outlives the call.
        let handle = unsafe { (api.virConnectOpenReadOnly)(name.as_ptr()) };
        if handle.is_null() {
            return Err(api.failed(format_args!("connect to {uri}")));
        }
        Ok(Connection(Arc::new(Link { api, handle, uri: uri.to_owned() })))
    }

    /// Whether the connection is alive, as far as known without a request.
    pub fn is_alive(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { (self.0.api.virConnectIsAlive)(self.0.handle) == 1 }
    }

    /// All domains, running or not.
    pub fn domains(&self) -> Result<Vec<Domain>> {
        let mut list: *mut Handle = std::ptr::null_mut();
        // SAFETY: the handle is alive, and `list` takes one pointer.
        let count = unsafe { (self.0.api.virConnectListAllDomains)(self.0.handle, &raw mut list, 0) };
        let count = self.0.api.checked(count, "list the domains")?;
        if list.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the array has as many domains, each of them this caller's from here on, and is freed once.
        unsafe {
            let handles = std::slice::from_raw_parts(list, count).to_vec();
            free(list.cast());
            Ok(handles.into_iter().map(|handle| Domain::new(Arc::clone(&self.0), handle)).collect())
        }
    }

    /// The domain with this UUID; an error with [`is_no_domain`](crate::Error::is_no_domain) if there is none.
    pub fn domain(&self, uuid: &str) -> Result<Domain> {
        let text = c_string(uuid, "the UUID")?;
        // SAFETY: the handle is alive, and the UUID a C string that outlives the call.
        let handle = unsafe { (self.0.api.virDomainLookupByUUIDString)(self.0.handle, text.as_ptr()) };
        if handle.is_null() {
            return Err(self.0.api.failed(format_args!("look up domain {uuid}")));
        }
        Ok(Domain::new(Arc::clone(&self.0), handle))
    }
}

//! A connection to a hypervisor.

use std::{collections::HashMap, ffi::c_int, sync::Arc};

use crate::{
    Domain, Libvirt, Result, Statistics,
    library::{Api, Handle, StatsRecord, c_string, free},
    statistics::parameters,
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
            return Err(api.failed(format!("connect to {uri}")));
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
        let Ok(count) = usize::try_from(count) else {
            return Err(self.0.api.failed("list the domains"));
        };
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
            return Err(self.0.api.failed(format!("look up domain {uuid}")));
        }
        Ok(Domain::new(Arc::clone(&self.0), handle))
    }

    /// All statistics of all domains by UUID, in one call. Not supported by all drivers.
    pub fn statistics(&self) -> Result<HashMap<String, Statistics>> {
        let mut records: *mut *mut StatsRecord = std::ptr::null_mut();
        // SAFETY: the handle is alive, and `records` takes one pointer.
        let count =
            unsafe { (self.0.api.virConnectGetAllDomainStats)(self.0.handle, 0, &raw mut records, 0) };
        if count < 0 {
            return Err(self.0.api.failed("read the statistics of all domains"));
        }
        take_records(&self.0.api, records, count)
    }
}

/// Copies records and frees them.
pub(crate) fn take_records(
    api: &Api,
    records: *mut *mut StatsRecord,
    count: c_int,
) -> Result<HashMap<String, Statistics>> {
    let mut all = HashMap::new();
    if records.is_null() {
        return Ok(all);
    }
    let mut failed = None;
    // SAFETY: there are `count` records, each with as many parameters as it says; they are valid until the list is
    // freed, once, and nothing returned points into them.
    unsafe {
        for record in std::slice::from_raw_parts(records, usize::try_from(count).unwrap_or(0)) {
            match crate::domain::uuid(api, (**record).domain) {
                Ok(uuid) => {
                    let parameters = parameters((**record).parameters, (**record).count);
                    all.insert(uuid, parameters);
                }
                Err(error) => failed = Some(error),
            }
        }
        (api.virDomainStatsRecordListFree)(records);
    }
    failed.map_or(Ok(all), Err)
}

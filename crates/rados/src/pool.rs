//! A pool of objects. Operations are submitted immediately and return a [`Pending`].

use std::{ffi::CStr, sync::Arc};

use crate::{
    Result,
    cluster::{Connection, c_string},
    flight::{Flights, Pending, Slot, Title, submit},
    library::{Api, Handle},
    write::WriteOperation,
};

/// A pool of a cluster; clones share it. Dropping the last one waits for operations in flight.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

struct Inner {
    connection: Arc<Connection>,
    context: Handle,
    name: Arc<str>,
    flights: Arc<Flights>,
}

// SAFETY: threads may share an I/O context as long as its settings (namespace, locator, snapshot) do not change, and
// nothing here changes them.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.name)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.flights.wait_all();
        // SAFETY: the context is from rados_ioctx_create, and no operation uses it any more.
        unsafe { (self.connection.api.rados_ioctx_destroy)(self.context) }
    }
}

impl Pool {
    pub(crate) fn new(connection: Arc<Connection>, context: Handle, name: &str) -> Self {
        Pool(Arc::new(Inner { connection, context, name: Arc::from(name), flights: Arc::default() }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The addresses of the client, by which the cluster's blocklist names it.
    pub fn client_addresses(&self) -> Result<String> {
        self.0.connection.addresses()
    }

    /// An empty write operation: add steps, then call [`Pool::operate`].
    pub fn write_operation(&self) -> WriteOperation {
        WriteOperation::new(self.api())
    }

    /// Executes all steps on the object, or none.
    pub fn operate(&self, object: &str, operation: WriteOperation) -> Pending<()> {
        operation.submit(self, object)
    }

    /// Writes a whole object, replacing its data.
    pub fn write_full(&self, object: &str, data: &[u8]) -> Pending<()> {
        self.operate(object, self.write_operation().write_full(data))
    }

    /// Creates an object with these bytes; `AlreadyExists` if it exists.
    pub fn create_full(&self, object: &str, data: &[u8]) -> Pending<()> {
        self.operate(object, self.write_operation().create_exclusive().write_full(data))
    }

    /// Removes an object with its omap; `NotFound` if it does not exist.
    pub fn remove(&self, object: &str) -> Pending<()> {
        self.operate(object, self.write_operation().remove())
    }

    /// For librados' blocking calls only: an asynchronous one could outlive the context.
    pub(crate) fn context(&self) -> Handle {
        self.0.context
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.0.connection.api
    }

    /// Submits an operation on an object; `start` also gets the I/O context, which outlives the operation.
    pub(crate) fn submit<S: Slot>(
        &self,
        verb: &'static str,
        object: &str,
        slot: S,
        start: impl FnOnce(Handle, Handle, &CStr, *mut S) -> std::ffi::c_int,
    ) -> Pending<S::Value> {
        let object = match c_string(object, "the object's name") {
            Ok(object) => object,
            Err(error) => return Pending::ready(Err(error)),
        };
        let title = Title { verb, pool: Arc::clone(&self.0.name), object };
        submit(self.api(), &self.0.flights, title, slot, |completion, object, slot| {
            start(self.0.context, completion, object, slot)
        })
    }
}

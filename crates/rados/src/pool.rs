//! A pool: where objects are written and read. Every operation is submitted at once; its answer is a [`Pending`].

use std::{ffi::CStr, sync::Arc};

use crate::{
    Result,
    cluster::{Connection, c_string},
    flight::{Flights, Pending, Slot, Title, submit},
    library::{Api, Handle},
    write::WriteOperation,
};

/// A pool of a cluster; clones share it. The last one to be dropped waits for the operations that are on their way.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

struct Inner {
    connection: Arc<Connection>,
    context: Handle,
    name: Arc<str>,
    flights: Arc<Flights>,
}

// SAFETY: librados lets threads share an I/O context as long as nobody changes its settings (namespace, locator, snapshot),
// and nothing here does.
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

    /// The number that placement groups carry before the dot.
    pub fn id(&self) -> i64 {
        // SAFETY: the context is alive.
        unsafe { (self.api().rados_ioctx_get_id)(self.0.context) }
    }

    /// An empty write operation: add steps, then [`Pool::operate`].
    pub fn write_operation(&self) -> WriteOperation {
        WriteOperation::new(self.api())
    }

    /// Carries out all steps on the object, or none.
    pub fn operate(&self, object: &str, operation: WriteOperation) -> Pending<()> {
        operation.submit(self, object)
    }

    /// Writes a whole object, in place of what it held.
    pub fn write_full(&self, object: &str, data: &[u8]) -> Pending<()> {
        self.operate(object, self.write_operation().write_full(data))
    }

    /// Creates an empty object; `AlreadyExists` if it is there.
    pub fn create_exclusive(&self, object: &str) -> Pending<()> {
        self.operate(object, self.write_operation().create_exclusive())
    }

    /// Creates an object with these bytes; `AlreadyExists` if it is there.
    pub fn create_full(&self, object: &str, data: &[u8]) -> Pending<()> {
        self.operate(object, self.write_operation().create_exclusive().write_full(data))
    }

    /// Removes an object with its omap; `NotFound` if it is not there.
    pub fn remove(&self, object: &str) -> Pending<()> {
        self.operate(object, self.write_operation().remove())
    }

    /// For the calls of librados that block; nothing else may be done with it.
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

/// Used by callers that check before they submit.
pub(crate) fn refused<T>(error: crate::Error) -> Pending<T> {
    Pending::ready(Result::Err(error))
}

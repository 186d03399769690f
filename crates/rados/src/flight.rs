//! Operations in flight: the memory that each owns while librados works on it, and how its result is returned.
//!
//! An operation's [`Job`] is on the heap and belongs to librados from submission to its callback, whether or not the
//! result is awaited: librados writes into its buffers.

use std::{
    ffi::{CString, c_int, c_void},
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    Error, Result,
    library::{Api, Handle},
};

/// The result of a submitted operation: a future, or [`Pending::wait`].
///
/// Dropping it does not cancel the operation.
#[derive(Debug)]
#[must_use = "the operation is on its way; its answer says whether it worked"]
pub struct Pending<T>(oneshot::Receiver<Result<T>>);

impl<T> Pending<T> {
    /// An available result.
    pub(crate) fn ready(answer: Result<T>) -> Self {
        let (sender, receiver) = oneshot::channel();
        // The receiver is still alive.
        let _ = sender.send(answer);
        Pending(receiver)
    }

    /// Blocks the thread until the result is available. Not for threads that drive futures: await it there.
    pub fn wait(self) -> Result<T> {
        self.0.blocking_recv().expect("librados completes every operation")
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.expect("librados completes every operation"))
    }
}

/// Number of a pool's operations in flight: its handle must outlive them.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    count: Mutex<usize>,
    landed: Condvar,
}

impl Flights {
    fn start(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn land(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            self.landed.notify_all();
        }
    }

    /// Waits until none is in flight.
    pub(crate) fn wait_all(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.landed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The output buffers of an operation, and the value made from them.
pub(crate) trait Slot: Send + 'static {
    type Value: Send + 'static;

    /// Called once, when librados is done with the slot; `Err` has the negative code.
    fn take(self, api: &Api, code: c_int) -> Result<Self::Value, c_int>;
}

/// A write has no output.
pub(crate) struct Nothing;

impl Slot for Nothing {
    type Value = ();

    fn take(self, _: &Api, code: c_int) -> Result<(), c_int> {
        if code < 0 { Err(code) } else { Ok(()) }
    }
}

/// The operation and its object, for the text of an error.
pub(crate) struct Title {
    pub(crate) verb: &'static str,
    pub(crate) pool: Arc<str>,
    pub(crate) object: CString,
}

impl Title {
    fn error(&self, code: c_int) -> Error {
        Error::failed(format!("{} {}/{}", self.verb, self.pool, self.object.to_string_lossy()), code)
    }
}

/// Everything that an operation owns while it is in flight.
pub(crate) struct Job<S: Slot> {
    api: Arc<Api>,
    flights: Arc<Flights>,
    title: Title,
    answer: oneshot::Sender<Result<S::Value>>,
    pub(crate) slot: S,
}

/// Submits an operation. `start` gets the completion, the object's name and the job's slot, passes them to librados,
/// and returns its code; if negative, librados has kept nothing.
pub(crate) fn submit<S: Slot>(
    api: &Arc<Api>,
    flights: &Arc<Flights>,
    title: Title,
    slot: S,
    start: impl FnOnce(Handle, &std::ffi::CStr, *mut S) -> c_int,
) -> Pending<S::Value> {
    let (answer, pending) = oneshot::channel();
    let job = Job { api: Arc::clone(api), flights: Arc::clone(flights), title, answer, slot };
    let job = Box::into_raw(Box::new(job));
    let mut completion: Handle = std::ptr::null_mut();
    // SAFETY: `complete::<S>` is the callback for a `Job<S>`, which `job` is; `completion` outlives the call.
    let code = unsafe { (api.rados_aio_create_completion2)(job.cast(), complete::<S>, &raw mut completion) };
    assert!(code == 0 && !completion.is_null(), "rados_aio_create_completion2 knows no failure");
    flights.start();
    // SAFETY: the job is alive and has no references into it: librados does not know it before `start`. The name is
    // cloned, since the callback may free the job before `start` returns. The slot is only a pointer here.
    let (object, slot) = unsafe { ((*job).title.object.clone(), &raw mut (*job).slot) };
    let code = start(completion, &object, slot);
    if code < 0 {
        // SAFETY: librados rejected the operation: there is no callback, so this is the only owner of both.
        let job = unsafe {
            (api.rados_aio_release)(completion);
            Box::from_raw(job)
        };
        job.flights.land();
        let _ = job.answer.send(Err(job.title.error(code)));
    }
    Pending(pending)
}

/// librados' callback, on one of its threads. It must not unwind, and must not drop a pool or a cluster (which wait for
/// these threads): a job holds neither.
unsafe extern "C" fn complete<S: Slot>(completion: Handle, argument: *mut c_void) {
    // SAFETY: `argument` is the job of `submit::<S>`, and each completion has one callback: this is its only owner again.
    let job = unsafe { Box::from_raw(argument.cast::<Job<S>>()) };
    let Job { api, flights, title, answer, slot } = *job;
    // SAFETY: the operation is complete, so its code is set; this is its last use here, and librados holds its own
    // reference during the callback.
    let code = unsafe {
        let code = (api.rados_aio_get_return_value)(completion);
        (api.rados_aio_release)(completion);
        code
    };
    let value = slot.take(&api, code).map_err(|code| title.error(code));
    // The receiver may be gone.
    let _ = answer.send(value);
    flights.land();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_one_to_land_ends_the_waiting() {
        let flights = Arc::new(Flights::default());
        flights.wait_all();
        flights.start();
        flights.start();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = Arc::clone(&flights);
        let waiter = std::thread::spawn(move || {
            waiting.wait_all();
            sender.send(()).unwrap();
        });
        flights.land();
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "one is still on its way");
        flights.land();
        assert!(receiver.recv_timeout(Duration::from_mins(1)).is_ok());
        waiter.join().unwrap();
    }

    #[test]
    fn an_answer_that_is_there_is_awaited_and_waited_for_alike() {
        assert_eq!(Pending::ready(Ok(7)).wait().unwrap(), 7);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(Pending::ready(Ok(8))).unwrap(), 8);
    }
}

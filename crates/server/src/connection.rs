//! Timeouts of a connection: its current phase and since when.
//!
//! The request path touches no clocks and no timers. The server's sweeper counts ticks; a connection stores
//! the tick at which its phase began; the sweeper aborts connections whose phase has timed out. Deadlines are
//! therefore only as precise as the sweeper's interval, [`TICK`].

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    body::{Body, Frame, SizeHint},
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::{limits::HttpLimits, reply::ReplyBody};

/// The sweeper's interval.
pub const TICK: Duration = Duration::from_millis(250);

/// How many bytes of a refused body are discarded at most.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Stands for no point in time.
const NEVER_MS: u64 = u64::MAX;

/// The sweeper's clock: ticks since the server started.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU32);

impl Ticks {
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn advance(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Phase {
    /// Between requests.
    Idle,
    /// The request line and headers are arriving. A new connection starts here.
    Head,
    /// A body is arriving.
    Body,
    /// The request is being handled.
    Handling,
    /// The client does not read what is written.
    Blocked,
    /// The response is written; remaining input is read and discarded.
    Lingering,
}

impl Phase {
    fn from_code(code: u32) -> Phase {
        [Phase::Idle, Phase::Head, Phase::Body, Phase::Handling, Phase::Blocked, Phase::Lingering]
            [code as usize]
    }
}

/// The minimum transfer rates of a client.
#[derive(Clone, Copy, Debug)]
struct Pace {
    body_grace_ms: u64,
    write_timeout_ms: u64,
    bytes_per_second_min: u64,
}

impl Pace {
    fn of(limits: &HttpLimits) -> Self {
        Pace {
            body_grace_ms: millis(limits.body_grace),
            write_timeout_ms: millis(limits.write_timeout),
            bytes_per_second_min: limits.body_bytes_per_second_min.max(1),
        }
    }
}

/// The phase of a connection. The connection writes it, the sweeper reads it.
#[derive(Debug)]
pub struct Watch {
    ticks: Arc<Ticks>,
    /// The address at the other end.
    peer: IpAddr,
    /// Whether the connection uses TLS.
    is_secure: bool,
    pace: Pace,
    /// The phase in the high half, the tick at which it began in the low half.
    phase: AtomicU64,
    /// While a body arrives: the deadline for more bytes, in milliseconds of `ticks`.
    body_due_ms: AtomicU64,
    /// While writes block: the deadline for more reads, in milliseconds of `ticks`; 0 if none has blocked.
    read_due_ms: AtomicU64,
    /// Since when the next piece of the response has been computed, in milliseconds of `ticks`; [`NEVER_MS`] if none is.
    computing_since_ms: AtomicU64,
    /// The connection will be closed before the request's body is read.
    closes_early: AtomicBool,
    /// The client takes the end of the connection for that of the response, which is not complete yet.
    ends_by_closing: AtomicBool,
}

impl Watch {
    pub fn new(ticks: Arc<Ticks>, peer: IpAddr, is_secure: bool, limits: &HttpLimits) -> Self {
        let watch = Watch {
            ticks,
            peer: peer.to_canonical(),
            is_secure,
            pace: Pace::of(limits),
            phase: AtomicU64::new(0),
            body_due_ms: AtomicU64::new(0),
            read_due_ms: AtomicU64::new(0),
            computing_since_ms: AtomicU64::new(NEVER_MS),
            closes_early: AtomicBool::new(false),
            ends_by_closing: AtomicBool::new(false),
        };
        watch.enter(Phase::Head);
        watch
    }

    /// The address at the other end; an IPv4 address is never given in IPv6-mapped form.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether the client speaks HTTPS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn enter(&self, phase: Phase) {
        let packed = u64::from(phase as u32) << 32 | u64::from(self.ticks.now());
        self.phase.store(packed, Ordering::Relaxed);
    }

    fn phase(&self) -> (Phase, u32) {
        let packed = self.phase.load(Ordering::Relaxed);
        (Phase::from_code((packed >> 32) as u32), packed as u32)
    }

    /// Starts the phase in which the request's body is read.
    pub fn begin_body(&self) {
        self.body_due_ms.store(self.now_ms() + self.pace.body_grace_ms, Ordering::Relaxed);
        self.enter(Phase::Body);
    }

    /// Extends the body's deadline in proportion to `bytes`, up to the initial grace period from now: a burst
    /// earns no more than that.
    pub fn received(&self, bytes: usize) {
        self.extend(&self.body_due_ms, bytes, self.pace.body_grace_ms);
    }

    /// Extends the deadline by the time that `bytes` take at the minimum rate, up to `ms_max` from now.
    fn extend(&self, due_ms: &AtomicU64, bytes: usize, ms_max: u64) {
        let earned_ms = bytes as u64 * 1000 / self.pace.bytes_per_second_min;
        let latest_ms = self.now_ms() + ms_max;
        due_ms.store((due_ms.load(Ordering::Relaxed) + earned_ms).min(latest_ms), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::from(self.ticks.now()) * millis(TICK)
    }

    /// The request is being handled. This phase has no timeout.
    pub fn begin_handling(&self) {
        self.read_due_ms.store(0, Ordering::Relaxed);
        self.computing_since_ms.store(NEVER_MS, Ordering::Relaxed);
        self.enter(Phase::Handling);
    }

    /// Whether the next piece of the response is still being computed. Until then the client has nothing to read, so that
    /// no deadline passes, unless it has not read what came before.
    fn compute(&self, is_computing: bool) {
        let since_ms = self.computing_since_ms.load(Ordering::Relaxed);
        if is_computing == (since_ms != NEVER_MS) {
            return;
        }
        let now_ms = self.now_ms();
        if is_computing {
            self.computing_since_ms.store(now_ms, Ordering::Relaxed);
            if self.phase().0 == Phase::Idle {
                self.enter(Phase::Handling);
            }
            return;
        }
        self.computing_since_ms.store(NEVER_MS, Ordering::Relaxed);
        let due_ms = self.read_due_ms.load(Ordering::Relaxed);
        if due_ms > 0 {
            let latest_ms = now_ms + self.pace.write_timeout_ms;
            let due_ms = (due_ms + now_ms.saturating_sub(since_ms)).min(latest_ms);
            self.read_due_ms.store(due_ms, Ordering::Relaxed);
        }
    }

    fn is_computing(&self) -> bool {
        self.computing_since_ms.load(Ordering::Relaxed) != NEVER_MS
    }

    /// The rest of the body will not be read. Closing a socket with unread input resets the connection, and
    /// the client may never see the response, so this connection lingers.
    pub fn will_close_early(&self) {
        self.closes_early.store(true, Ordering::Relaxed);
    }

    /// Whether only the end of the connection tells the client that the response has ended. If so, and the response is cut
    /// short, the connection is reset: a close would make it look complete.
    pub(crate) fn set_ends_by_closing(&self, ends_by_closing: bool) {
        self.ends_by_closing.store(ends_by_closing, Ordering::Relaxed);
    }

    /// Whether the current phase has timed out.
    pub fn is_overdue(&self, limits: &HttpLimits) -> bool {
        let (phase, since) = self.phase();
        let elapsed = TICK * self.ticks.now().saturating_sub(since);
        let allowed = match phase {
            Phase::Idle => limits.idle_timeout,
            Phase::Head => limits.header_timeout,
            Phase::Body => return self.now_ms() > self.body_due_ms.load(Ordering::Relaxed),
            Phase::Handling => return false,
            Phase::Blocked => return self.now_ms() > self.read_due_ms.load(Ordering::Relaxed),
            Phase::Lingering => limits.linger_timeout,
        };
        elapsed > allowed
    }

    fn after_read(&self) {
        if self.phase().0 == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The TLS layer buffers what the socket does not take, so only a flush shows that the client blocks.
    fn after_flush(&self, blocked: bool) {
        if blocked || self.phase().0 == Phase::Blocked {
            self.after_write(blocked, 0);
        }
    }

    fn after_write(&self, blocked: bool, bytes: usize) {
        if self.read_due_ms.load(Ordering::Relaxed) > 0 {
            self.extend(&self.read_due_ms, bytes, self.pace.write_timeout_ms);
        } else if blocked {
            self.read_due_ms.store(self.now_ms() + self.pace.write_timeout_ms, Ordering::Relaxed);
        }
        match (self.phase().0, blocked) {
            // An interim response (`100 Continue`), or a final one sent before the whole body arrived.
            (Phase::Body, _) | (Phase::Blocked, true) => {}
            (_, true) => self.enter(Phase::Blocked),
            (_, false) if self.is_computing() => self.enter(Phase::Handling),
            (_, false) => self.enter(Phase::Idle),
        }
    }
}

/// A connection's byte stream: plain TCP or TLS.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A stream that reports its reads and writes to the watch.
pub struct Watched {
    stream: TokioIo<Stream>,
    watch: Arc<Watch>,
    /// How much more input may be discarded; `None` until the connection lingers.
    linger_bytes: Option<usize>,
}

impl Watched {
    pub fn new(stream: Stream, watch: Arc<Watch>) -> Self {
        Watched { stream: TokioIo::new(stream), watch, linger_bytes: None }
    }

    /// Discards input until the client closes or the limit is reached; the sweeper enforces the timeout.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger_bytes.is_none() {
            self.watch.enter(Phase::Lingering);
        }
        let left = self.linger_bytes.get_or_insert(LINGER_BYTES_MAX);
        let mut buffer = [0; 4096];
        loop {
            let mut unread = ReadBuf::new(&mut buffer);
            let read = Pin::new(self.stream.inner_mut()).poll_read(cx, &mut unread);
            match (read, unread.filled().len()) {
                (Poll::Pending, _) => return Poll::Pending,
                (Poll::Ready(Ok(())), 1..) if *left > 0 => *left = left.saturating_sub(unread.filled().len()),
                (Poll::Ready(_), _) => return Poll::Ready(Ok(())),
            }
        }
    }

    fn socket(&self) -> &TcpStream {
        match self.stream.inner() {
            Either::Left(socket) => socket,
            Either::Right(stream) => stream.get_ref().0,
        }
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = if let Poll::Ready(Ok(bytes)) = &result { *bytes } else { 0 };
        self.watch.after_write(result.is_pending(), bytes);
        result
    }
}

impl Read for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if result.is_ready() {
            self.watch.after_read();
        }
        result
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch.after_flush(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        if shut.is_ready() {
            // Everything is written: hyper shuts nothing down before.
            self.watch.set_ends_by_closing(false);
        }
        if self.watch.closes_early.load(Ordering::Relaxed) && matches!(shut, Poll::Ready(Ok(()))) {
            return self.poll_linger(cx);
        }
        shut
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.watch.ends_by_closing.load(Ordering::Relaxed)
            && let Err(error) = self.socket().set_zero_linger()
        {
            tracing::debug!(%error, "cannot reset a connection");
        }
    }
}

/// A response's body that tells the watch when a piece is not there yet.
pub struct WatchedBody {
    body: ReplyBody,
    watch: Arc<Watch>,
}

impl WatchedBody {
    pub fn new(body: ReplyBody, watch: Arc<Watch>) -> Self {
        WatchedBody { body, watch }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.watch.compute(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ticks: &Ticks, seconds: u32) {
        for _ in 0..seconds * 4 {
            ticks.advance();
        }
    }

    #[test]
    fn each_phase_has_its_deadline() {
        let limits = HttpLimits::default();
        let ticks = Arc::new(Ticks::default());
        let watch = Watch::new(ticks.clone(), [127, 0, 0, 1].into(), false, &limits);
        let overdue_after = |seconds: u32| {
            pass(&ticks, seconds);
            let before = watch.is_overdue(&limits);
            pass(&ticks, 1);
            (before, watch.is_overdue(&limits))
        };
        assert_eq!(overdue_after(10), (false, true), "the first byte");
        watch.after_write(false, 0);
        assert_eq!(overdue_after(75), (false, true), "idle");
        watch.after_write(false, 0);
        watch.after_read();
        watch.after_read();
        assert_eq!(overdue_after(10), (false, true), "headers");
        watch.begin_body();
        pass(&ticks, 5);
        watch.received(24 << 10);
        watch.after_read();
        watch.after_write(false, 0);
        assert_eq!(overdue_after(8), (false, true), "body");
        watch.begin_body();
        watch.received(32 << 20);
        assert_eq!(overdue_after(10), (false, true), "a body of which much came at once");
        watch.begin_handling();
        assert_eq!(overdue_after(10_000), (false, false), "handling");
        watch.after_write(true, 0);
        pass(&ticks, 20);
        watch.after_write(true, 0);
        assert_eq!(overdue_after(10), (false, true), "blocked");
        watch.begin_handling();
        watch.after_write(true, 0);
        pass(&ticks, 20);
        watch.after_write(false, 80 << 10);
        watch.after_write(true, 0);
        assert_eq!(overdue_after(20), (false, true), "read slowly");
        watch.begin_handling();
        watch.after_write(true, 0);
        watch.after_write(false, 800 << 20);
        watch.after_write(true, 0);
        assert_eq!(overdue_after(30), (false, true), "read fast, and then not at all");
        watch.after_flush(false);
        assert_eq!(overdue_after(75), (false, true), "flushed");
        watch.begin_handling();
        watch.after_write(false, 0);
        watch.after_flush(true);
        assert_eq!(overdue_after(30), (false, true), "not flushed");
        watch.begin_handling();
        watch.after_flush(false);
        assert_eq!(overdue_after(10_000), (false, false), "nothing to flush");
    }

    #[test]
    fn no_deadline_passes_while_the_server_computes() {
        let limits = HttpLimits::default();
        let ticks = Arc::new(Ticks::default());
        let watch = Watch::new(ticks.clone(), [127, 0, 0, 1].into(), false, &limits);
        let is_overdue_after = |seconds: u32| {
            pass(&ticks, seconds);
            watch.is_overdue(&limits)
        };
        watch.begin_handling();
        watch.compute(true);
        // The response's head.
        watch.after_write(false, 100);
        assert!(!is_overdue_after(10_000), "the first piece");
        watch.compute(false);
        watch.after_write(true, 0);
        assert!(!is_overdue_after(20), "it is being read");
        watch.after_write(false, 1 << 20);
        watch.compute(true);
        assert!(!is_overdue_after(10_000), "the second piece");
        watch.compute(false);
        watch.after_write(true, 0);
        assert!(!is_overdue_after(30) && is_overdue_after(1), "the second piece is not read");
        watch.begin_handling();
        watch.after_write(true, 0);
        watch.compute(true);
        assert!(!is_overdue_after(30) && is_overdue_after(1), "the first piece is not read");
        watch.after_write(false, 100);
        assert!(!is_overdue_after(10_000), "it is read at last");
        watch.compute(false);
        watch.after_write(false, 5);
        assert!(!is_overdue_after(75) && is_overdue_after(1), "the end of the response");
    }
}

//! Samples the stacks of all threads of this process at fixed intervals of its CPU time.
//!
//! A CPU-time timer (`ITIMER_PROF`) sends a signal to the running thread; the handler writes the thread's
//! stack to a preallocated buffer. The handler must be async-signal-safe: it neither allocates nor blocks. A
//! sample is dropped if another handler is running, or the buffer is full.
//!
//! pprof works the same way, but keeps 250 MB of tables for good. Here memory is proportional to the samples
//! and freed with the profile. Each sample's address is kept, which tells inlined functions apart.

#![expect(unsafe_code, reason = "a signal handler, and the stack it finds; each block says why it holds")]

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    fs, io, mem,
    ops::Range,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use super::stacks::Sample;

/// The maximum depth of a sampled stack; outer callers are dropped.
const DEPTH_MAX: usize = 128;
/// The kernel's limit on a thread's name, with the terminating zero.
const THREAD_NAME_BYTES: usize = 16;
/// The header of a sample in words: the number of addresses, and the thread's name.
const HEADER_WORDS: usize = 1 + THREAD_NAME_BYTES / WORD_BYTES;
const WORD_BYTES: usize = mem::size_of::<usize>();
/// Preallocated words per expected sample, on average.
const SAMPLE_WORDS: usize = 64;
/// The maximum size of the buffer.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// The samples, and the code to exclude.
struct Recording {
    words: Vec<usize>,
    used: usize,
    /// Address ranges of code in which no stack is read.
    excluded: Vec<Range<usize>>,
}

/// Written by the handlers; the recording is `None` while no profile runs.
struct Shared {
    is_in_use: AtomicBool,
    recording: UnsafeCell<Option<Recording>>,
}

// SAFETY: only the one who has set `is_in_use` accesses the recording, until resetting it.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { is_in_use: AtomicBool::new(false), recording: UnsafeCell::new(None) };

impl Shared {
    /// Accesses the recording, unless it is in use: a handler must not block.
    fn try_with<T>(&self, work: impl FnOnce(&mut Option<Recording>) -> T) -> Option<T> {
        if self.is_in_use.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this call has set `is_in_use`, so there is no other reference.
        let done = work(unsafe { &mut *self.recording.get() });
        self.is_in_use.store(false, Ordering::Release);
        Some(done)
    }

    /// [`Shared::try_with`] for callers that may block.
    fn with<T>(&self, mut work: impl FnMut(&mut Option<Recording>) -> T) -> T {
        loop {
            if let Some(done) = self.try_with(&mut work) {
                return done;
            }
            thread::yield_now();
        }
    }
}

/// Samples while it exists. Only one may exist at a time.
#[derive(Debug)]
pub struct Sampler(());

impl Sampler {
    /// Starts sampling. `duration` sizes the buffer; `libraries` are parts of names of libraries to exclude.
    ///
    /// # Errors
    /// If the kernel refuses the signal handler or the timer.
    pub fn start(frequency_hz: u16, duration: Duration, libraries: &[&str]) -> io::Result<Self> {
        let excluded = code_of(libraries, &fs::read_to_string("/proc/self/maps")?);
        // Load the unwinder now: its first use allocates, which a handler must not do.
        backtrace::trace(|_| true);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // One more second, in case the caller stops late.
        let seconds = usize::try_from(duration.as_secs()).unwrap_or(usize::MAX).saturating_add(1);
        let expected = usize::from(frequency_hz).saturating_mul(seconds).saturating_mul(processors);
        let words = expected.saturating_mul(SAMPLE_WORDS).min(BUFFER_BYTES_MAX / WORD_BYTES);
        let recording = Recording { words: vec![0; words + HEADER_WORDS + DEPTH_MAX], used: 0, excluded };
        let mut recording = Some(recording);
        SHARED.with(|shared| *shared = recording.take());
        let sampler = Sampler(());
        set_handler(take_sample as *const () as usize)?;
        set_clock(1_000_000 / i64::from(frequency_hz.max(1)))?;
        Ok(sampler)
    }

    /// Stops, and returns the samples.
    pub fn stop(self) -> Vec<Sample> {
        let recording = end();
        // Already ended: skip the drop.
        mem::forget(self);
        recording.map_or_else(Vec::new, |recording| samples(&recording.words[..recording.used]))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        end();
    }
}

/// Stops the profile, if one runs.
fn end() -> Option<Recording> {
    // Both succeeded before, so they cannot fail. A pending signal is ignored.
    let _ = set_clock(0);
    let _ = set_handler(libc::SIG_IGN);
    SHARED.with(Option::take)
}

fn set_clock(microseconds: i64) -> io::Result<()> {
    let time = libc::timeval { tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000 };
    let clock = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the kernel reads one itimerval and writes none.
    let done = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const clock, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_handler(handler: usize) -> io::Result<()> {
    // SAFETY: all zeros are a valid sigaction: no flags, no blocked signals.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO requires, or is SIG_IGN.
    let done = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The signal handler.
extern "C" fn take_sample(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own errno, saved because the interrupted code may read it next.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes the interrupted thread's context.
    let interrupted = unsafe { interrupted_at(context) };
    SHARED.try_with(|recording| {
        if let Some(recording) = recording {
            recording.add(interrupted);
        }
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The instruction address at which the thread was interrupted.
///
/// # Safety
/// `context` is the handler's third argument.
unsafe fn interrupted_at(context: *mut c_void) -> Option<usize> {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the caller guarantees it.
    let registers = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let address = Some(registers.gregs[libc::REG_RIP as usize] as usize);
    #[cfg(target_arch = "aarch64")]
    let address = Some(registers.pc as usize);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let address = None;
    address
}

impl Recording {
    /// Adds the stack of this thread, from the interrupted address on.
    fn add(&mut self, interrupted: Option<usize>) {
        if interrupted.is_some_and(|address| self.excluded.iter().any(|range| range.contains(&address))) {
            return;
        }
        let first = self.used + HEADER_WORDS;
        if first + DEPTH_MAX > self.words.len() {
            return;
        }
        let mut end = first;
        let mut is_interrupted = interrupted.is_none();
        let words = &mut self.words;
        // SAFETY: this function does not run concurrently with itself while `SHARED` is in use. Threads that
        // unwind by other means do not modify what it reads.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let address = frame.ip() as usize;
                // The innermost frames are this handler and the kernel's signal trampoline.
                is_interrupted |= Some(address) == interrupted;
                if is_interrupted {
                    words[end] = address;
                    end += 1;
                }
                end < first + DEPTH_MAX
            });
        }
        if let Some(address) = interrupted.filter(|_| end == first) {
            self.words[first] = address;
            end += 1;
        }
        self.words[self.used] = end - first;
        let mut name = [0_u8; THREAD_NAME_BYTES];
        // SAFETY: the kernel writes at most 16 bytes there.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        for (word, bytes) in self.words[self.used + 1..first].iter_mut().zip(name.chunks_exact(WORD_BYTES)) {
            *word = usize::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        self.used = end;
    }
}

fn samples(mut words: &[usize]) -> Vec<Sample> {
    let mut samples = Vec::new();
    while let Some((length, rest)) = words.split_first() {
        let (name, rest) = rest.split_at(HEADER_WORDS - 1);
        let (addresses, behind) = rest.split_at(*length);
        let name: Vec<u8> =
            name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        samples.push(Sample {
            thread: String::from_utf8_lossy(&name).into_owned(),
            addresses: addresses.to_vec(),
        });
        words = behind;
    }
    samples
}

/// Parses `/proc/<pid>/maps` for the executable ranges of libraries.
fn code_of(libraries: &[&str], maps: &str) -> Vec<Range<usize>> {
    let lines = maps.lines().filter(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1).is_some_and(|rights| rights.contains('x'))
            && fields.nth(3).is_some_and(|path| libraries.iter().any(|library| path.contains(library)))
    });
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(number(start)?..number(end)?)
    };
    lines.filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_libraries_is_found_in_maps() {
        let maps = "\
            1000-2000 r--p 00000000 fd:01 7    /usr/lib/libgcc_s.so.1\n\
            2000-3000 r-xp 00001000 fd:01 7    /usr/lib/libgcc_s.so.1\n\
            5000-6000 rwxp 00000000 00:00 0 \n\
            7000-8000 r-xp 00000000 00:00 0    [vdso]\n\
            9000-a000 r-xp 00000000 fd:01 8    /lib/libc.so.6\n";
        assert_eq!(code_of(&["libgcc", "vdso"], maps), [0x2000..0x3000, 0x7000..0x8000]);
    }

    #[test]
    fn what_was_recorded_is_read_back() {
        let mut recording =
            Recording { words: vec![0; 3 * (HEADER_WORDS + DEPTH_MAX)], used: 0, excluded: Vec::new() };
        let here = what_was_recorded_is_read_back as fn() as usize;
        recording.add(Some(here));
        // No frame has this address, so the sample consists of it alone.
        let used = recording.used;
        recording.add(None);
        recording.excluded.push(here..here + 1);
        recording.add(Some(here));
        let found = samples(&recording.words[..recording.used]);
        assert_eq!((found.len(), used), (2, HEADER_WORDS + 1));
        assert_eq!(found[0].addresses, [here]);
        assert!(found[1].addresses.len() > 5, "{found:?}");
        let name = thread::current().name().unwrap()[..10].to_owned();
        assert!(name.contains(&found[0].thread[..5]) || found[0].thread.len() < THREAD_NAME_BYTES);
    }
}

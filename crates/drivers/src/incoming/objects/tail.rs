//! Reads the log: each process follows it object by object, and reads each one once.
//!
//! Objects below the mark are deleted, and a suspended writer may create one of those numbers again; so an
//! object is valid only if its number is not below the mark. Reading the mark each time would double the
//! reads; so the mark moves beyond an object only `keep` after it was seen, and a process that saw a number
//! unused less than `lease` ago need not read the mark. The clocks of two processes need not agree, but must
//! run at similar speeds.
//!
//! If the log's generation begins at a later number (`registration`), an older copy is read up to the first
//! missing number. Nobody writes there any more, so all processes find the same one, and continue where the
//! generation begins.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{
    LogState,
    listing::Listing,
    mark::Mark,
    names,
    object::{Head, LogObjectKind, Object, check_version, encode},
    unavailable,
};
use crate::{
    incoming::{IncomingError, Result},
    objects::{ObjectError, clock::Moment},
};

/// Most objects read at once while there is more to read.
const READ_AHEAD_MAX: u64 = 16;

/// The state of reading. Its lock's holder reads; others wait and share the result.
pub struct Tail {
    pub mark: Mark,
    /// When the view's next number, or one before it, was last seen unused; `None` if unknown.
    pub known: Option<Moment>,
    /// A missing number with later ones present, and since when that is known.
    pub missing: Option<(u64, Instant)>,
}

impl Tail {
    pub fn new(mark: Mark) -> Self {
        Self { mark, known: None, missing: None }
    }
}

impl LogState {
    /// Reads everything that was in the log at `since`. Returns whether anything was new.
    pub async fn catch_up(&self, since: Instant) -> Result<bool> {
        let mut tail = self.tail.lock().await;
        if self.looked.lock().is_some_and(|looked| looked >= since) {
            return Ok(false);
        }
        let started = Instant::now();
        let found = self.read_on(&mut tail, None).await?;
        *self.looked.lock() = Some(started);
        Ok(found)
    }

    /// Reads up to a number that another process has taken.
    pub async fn pass(&self, number: u64) -> Result<()> {
        let mut tail = self.tail.lock().await;
        self.view.lock().expect(number);
        self.read_on(&mut tail, Some(number)).await.map(|_| ())
    }

    /// Applies an object that this process created after `asked`. Returns whether it is valid: not if it was
    /// created below the mark.
    pub async fn created(&self, number: u64, object: &Object, body: &Bytes, asked: Moment) -> Result<bool> {
        let mut tail = self.tail.lock().await;
        let (next, own) = {
            let view = self.view.lock();
            (view.next(), view.own())
        };
        if next != number {
            // It may have been read meanwhile.
            return Ok(object.head.is_some_and(|head| head.sequence == own));
        }
        if !self.is_genuine(&mut tail).await? {
            return Ok(false);
        }
        self.apply(number, object, body);
        tail.known = Some(asked);
        Ok(true)
    }

    async fn read_on(&self, tail: &mut Tail, enough: Option<u64>) -> Result<bool> {
        // If the end is unknown, read ahead: an object may be missing.
        let (mut found, mut width) = (false, if tail.known.is_none() { READ_AHEAD_MAX } else { 1 });
        loop {
            let next = self.view.lock().next();
            if enough.is_some_and(|enough| next > enough) {
                return Ok(found);
            }
            let asked = Moment::now();
            let read = async |number| self.objects.get(&names::log(number)).await.map_err(unavailable);
            let bodies = try_join_all((next..next + width).map(read)).await?;
            let whole = bodies.iter().take_while(|body| body.is_some()).count();
            if let Some(last) = bodies.iter().rposition(Option::is_some) {
                self.view.lock().expect(next + last as u64);
            }
            if !self.is_genuine(tail).await? {
                (found, width) = (true, READ_AHEAD_MAX);
                continue;
            }
            for (number, body) in (next..).zip(bodies.iter().flatten().take(whole)) {
                let object = Object::parse(number, body);
                if let Some(version) = object.newer {
                    check_version(&names::log(number), version)?;
                }
                self.report(number, &object, body);
                self.apply(number, &object, body);
            }
            found |= whole > 0;
            let end = next + whole as u64;
            if (whole as u64) < width {
                if self.view.lock().pass_hole() {
                    if bodies.iter().skip(whole).any(Option::is_some) {
                        tracing::error!(
                            from = end,
                            "objects of a replaced log are skipped: one before them is missing"
                        );
                    }
                    continue;
                }
                if self.view.lock().is_behind() {
                    self.fill(tail, end).await?;
                    continue;
                }
                (tail.known, tail.missing) = (Some(asked), None);
                return Ok(found);
            }
            width = (width * 2).min(READ_AHEAD_MAX);
        }
    }

    /// Whether what was found at the view's next number, or behind it, is valid; otherwise moves the view
    /// beyond the mark.
    async fn is_genuine(&self, tail: &mut Tail) -> Result<bool> {
        if tail.known.is_some_and(|known| known.elapsed() < self.options.lease()) {
            return Ok(true);
        }
        tail.mark = tail.mark.newest(&*self.objects).await?;
        let mut view = self.view.lock();
        if tail.mark.through < view.next() {
            view.forget(&tail.mark);
            return Ok(true);
        }
        tracing::warn!(
            from = view.next(),
            through = tail.mark.through,
            "the log was trimmed beyond what this process has read"
        );
        view.skip(&tail.mark);
        tail.known = None;
        Ok(false)
    }

    fn apply(&self, number: u64, object: &Object, body: &Bytes) {
        if self.view.lock().apply(number, object, body, Instant::now()) {
            self.arrived.notify_one();
        }
    }

    /// Handles a missing object with a later one present. Concurrent reads are not simultaneous: it may have
    /// been created after its read, and the later one before its own. A number is only written once its
    /// predecessor exists, so a second read decides. After a while the missing object is replaced with a
    /// placeholder, so that all processes can continue, and no late write is invisible to some.
    async fn fill(&self, tail: &mut Tail, number: u64) -> Result<()> {
        tail.mark = tail.mark.newest(&*self.objects).await?;
        if tail.mark.through >= number {
            self.view.lock().skip(&tail.mark);
            tail.known = None;
            return Ok(());
        }
        let name = names::log(number);
        if self.objects.get(&name).await.map_err(unavailable)?.is_some() {
            tail.missing = None;
            return Ok(());
        }
        let since = match tail.missing {
            Some((missing, since)) if missing == number => since,
            _ => Instant::now(),
        };
        tail.missing = Some((number, since));
        if since.elapsed() < self.options.missing_wait {
            return Err(IncomingError::Unavailable(format!("the object {name} is missing")));
        }
        let head = Head { writer: self.process, sequence: 0, kind: LogObjectKind::Lost };
        match self.objects.create(&name, encode(number, &head, std::iter::empty())).await {
            Ok(()) | Err(ObjectError::Exists(_)) => {}
            Err(error) => return Err(unavailable(error)),
        }
        // The next one may be missing, too: nobody waits for each of thousands.
        tail.missing = Some((number + 1, since));
        Ok(())
    }

    /// Moves the mark as far as everything is trimmed, and deletes the objects below it.
    pub async fn advance_mark(&self) -> Result<()> {
        let mut tail = self.tail.lock().await;
        let trimmable = self.view.lock().trimmable(Instant::now(), self.options.keep);
        tail.mark = tail.mark.newest(&*self.objects).await?;
        if let Some((through, numbering)) = trimmable
            && through > tail.mark.through
        {
            tail.mark = tail.mark.advance(&*self.objects, through, numbering).await?;
            // The process that moved the mark deletes what it covers.
            let trimmed = self.view.lock().kept_through(through.min(tail.mark.through));
            self.delete(&trimmed.into_iter().map(names::log).collect::<Vec<_>>()).await?;
        }
        self.view.lock().forget(&tail.mark);
        Ok(())
    }

    async fn delete(&self, names: &[String]) -> Result<()> {
        for names in names.chunks(DELETED_AT_ONCE) {
            self.objects.delete(names).await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Deletes leftovers below the mark: from interrupted deletions, or created by suspended writers. False if the
    /// listing takes long: then the next call continues.
    pub async fn sweep(&self, listing: &mut Option<Listing>) -> Result<bool> {
        let through = self.tail.lock().await.mark.through;
        let under_way = listing.get_or_insert_with(|| Listing::begin(&self.objects, names::LOG));
        let Some(listed) = under_way.ended(self.options.timeout / 2).await else { return Ok(false) };
        *listing = None;
        let names = listed.names.map_err(unavailable)?;
        let below = |name: &String| names::log_number(name).is_some_and(|number| number <= through);
        let old: Vec<String> = names.into_iter().take_while(below).collect();
        self.delete(&old).await?;
        Ok(true)
    }
}

const DELETED_AT_ONCE: usize = 1000;

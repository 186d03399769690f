//! Reads the backlog, trims what is acknowledged, and maintains the log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use gnudi_model::{MetricId, Sack};

use super::{
    LIST_AGE_MAX, LogState, SWEEP_DELAY, entries::decode, names, registration::IdentityLooks, unavailable,
    view::PendingExtent,
};
use crate::{
    incoming::{Pending, Position, Record, Result},
    segments::frame::{ITEM_HEADER_BYTES, open_item},
};

/// Concurrent reads of objects that are not cached.
const READS_AT_ONCE: usize = 8;
/// Interval of the slow poll: other processes' acknowledgements, hint, mark.
const RARE_POLL_DELAY: Duration = Duration::from_secs(1);

impl LogState {
    pub async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending> {
        let looked = *self.looked.lock();
        if looked.is_none_or(|looked| looked.elapsed() > self.options.pending_age_max) {
            self.catch_up(Instant::now()).await?;
        }
        // Workers read sack after sack: objects read again must stay cached for the next sack.
        let span_bytes_max = self.options.bodies_bytes_max / 2;
        loop {
            let (parts, more) = self.view.lock().pending(sack, after, bytes_max, span_bytes_max);
            if parts.is_empty() {
                self.pass_lost(sack);
                return Ok(Pending::default());
            }
            let bodies = self.bodies(&parts).await?;
            let mut records = Vec::new();
            for part in &parts {
                let Some(body) = bodies.get(&part.number()) else { continue };
                if !self.decode(sack, part, body, &mut records) {
                    self.view.lock().give_up(sack, part);
                }
            }
            // If all of them were lost or trimmed meanwhile, read on.
            if !records.is_empty() {
                return Ok(Pending { records, more });
            }
        }
    }

    /// Adds the part's records that belong to the sack; false if it is damaged, which is reported.
    fn decode(&self, sack: Sack, part: &PendingExtent, body: &Bytes, records: &mut Vec<Record>) -> bool {
        let (start, end) = (part.offset as usize, (part.offset + part.length) as usize);
        let item = body.get(start - ITEM_HEADER_BYTES..end).and_then(open_item);
        let before = records.len();
        if item.is_none() || decode(&body.slice(start..end), part.position, records).is_none() {
            self.report_small(&names::log(part.number()));
            records.truncate(before);
            return false;
        }
        if records[before..].iter().any(|record| !sack.contains(record.metric)) {
            let of_sack = records.split_off(before).into_iter().filter(|record| sack.contains(record.metric));
            records.extend(of_sack);
        }
        true
    }

    /// The objects that contain the parts, cached or read. Missing ones are left out, and their parts no
    /// longer wait.
    async fn bodies(&self, parts: &[PendingExtent]) -> Result<HashMap<u64, Bytes>> {
        let now = Instant::now();
        let (mut bodies, mut wanted) = (HashMap::new(), Vec::new());
        {
            let mut view = self.view.lock();
            for number in parts.iter().map(PendingExtent::number) {
                if bodies.contains_key(&number) || wanted.last() == Some(&number) {
                    continue;
                }
                match view.bodies.get(number, now) {
                    Some(body) => drop(bodies.insert(number, body)),
                    None => wanted.push(number),
                }
            }
        }
        for numbers in wanted.chunks(READS_AT_ONCE) {
            let read = async |number| self.objects.get(&names::log(number)).await.map_err(unavailable);
            let found = try_join_all(numbers.iter().map(|number| read(*number))).await?;
            for (number, body) in numbers.iter().zip(found) {
                let body = body.filter(|body| self.view.lock().is_same(*number, body));
                match body {
                    Some(body) => {
                        self.view.lock().bodies.keep(*number, &body, now);
                        bodies.insert(*number, body);
                    }
                    None => self.gone(*number).await?,
                }
            }
        }
        Ok(bodies)
    }

    /// Handles a missing object: it was trimmed, or is lost.
    async fn gone(&self, number: u64) -> Result<()> {
        let mut tail = self.tail.lock().await;
        tail.mark = tail.mark.newest(&*self.objects).await?;
        let mut view = self.view.lock();
        view.forget(&tail.mark);
        let lost: Vec<(Sack, PendingExtent)> =
            view.all_waiting().into_iter().filter(|(_, waiting)| waiting.number() == number).collect();
        if !lost.is_empty() {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            let name = names::log(number);
            tracing::error!(name, "an object of the log is missing; its measures are lost");
        }
        for (sack, waiting) in &lost {
            view.give_up(*sack, waiting);
        }
        Ok(())
    }

    /// Acknowledges the parts that were given up, once nothing else of the sack waits. Otherwise the other
    /// processes would wait for them, and their objects would never be trimmed.
    pub fn pass_lost(&self, sack: Sack) {
        let mut view = self.view.lock();
        let Some(progress) = view.past_lost(sack) else { return };
        view.progress(sack, progress);
        drop(view);
        self.acknowledgements.add([(sack, progress)]);
    }

    pub async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>> {
        let mut objects: BTreeMap<u64, Vec<(Sack, PendingExtent)>> = BTreeMap::new();
        for (sack, waiting) in self.view.lock().all_waiting() {
            objects.entry(waiting.number()).or_default().push((sack, waiting));
        }
        let mut measures: HashMap<MetricId, u64> = HashMap::new();
        let mut records = Vec::new();
        for parts in objects.into_values() {
            let bodies = self.within(self.bodies(&[parts[0].1])).await?;
            let Some(body) = bodies.values().next() else { continue };
            for (sack, part) in &parts {
                self.decode(*sack, part, body, &mut records);
            }
            for record in records.drain(..) {
                *measures.entry(record.metric).or_default() += u64::from(record.measures);
            }
        }
        Ok(measures)
    }

    /// Stores what is trimmed, and moves the mark if due.
    pub async fn trim(&self) -> Result<()> {
        self.acknowledgements.flush().await;
        let mut marked = self.marked.lock().await;
        if marked.moved.is_some_and(|moved| moved.elapsed() < self.options.mark_delay) {
            return Ok(());
        }
        self.refresh(LIST_AGE_MAX).await?;
        self.advance_mark().await?;
        marked.moved = Some(Instant::now());
        let is_due = marked.swept.is_none_or(|swept| swept.elapsed() > SWEEP_DELAY);
        if is_due && self.sweep(&mut marked.listing).await? {
            self.take_over().await?;
            marked.swept = Some(Instant::now());
        }
        Ok(())
    }

    /// Polls what changes rarely: acknowledgements while nothing is read, the hint, the mark.
    async fn poll_rarely(&self, mark_polled_at: &mut Option<Instant>) -> Result<()> {
        let now = Instant::now();
        if !self.view.lock().is_idle() {
            self.poll_acknowledgements(now, Duration::from_secs(10)).await?;
        }
        let hint = self.hint().await?;
        let mut tail = self.tail.lock().await;
        self.view.lock().expect(hint);
        if mark_polled_at.is_none_or(|at| at.elapsed() >= self.options.mark_delay) {
            tail.mark = tail.mark.newest(&*self.objects).await?;
            self.view.lock().forget(&tail.mark);
            *mark_polled_at = Some(now);
        }
        Ok(())
    }
}

/// Follows the log until the process ends.
pub async fn follow(shared: Arc<LogState>) {
    let options = &shared.options;
    let (mut delay, mut mark_polled_at, mut rarely_polled_at) =
        (options.look_delay_min, None, Instant::now());
    let (mut is_answering, mut identity_looks) = (true, IdentityLooks::default());
    loop {
        let pause = if shared.is_listening.load(Ordering::Relaxed) { delay } else { options.look_delay_idle };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.listening.notified() => {}
        }
        let mut look = shared.within(shared.catch_up(Instant::now())).await;
        if rarely_polled_at.elapsed() >= RARE_POLL_DELAY
            && let Ok(found) = look
        {
            rarely_polled_at = Instant::now();
            look = shared.within(shared.poll_rarely(&mut mark_polled_at)).await.map(|()| found);
        }
        if look.is_ok()
            && let Err(error) = shared.within(shared.check_identity(&mut identity_looks)).await
        {
            look = Err(error);
        }
        delay = match &look {
            Ok(true) => options.look_delay_min,
            _ => (delay * 2).min(options.look_delay_max),
        };
        if let Err(error) = &look
            && is_answering
        {
            tracing::warn!(%error, "the log cannot be read; retrying");
        }
        is_answering = look.is_ok();
    }
}

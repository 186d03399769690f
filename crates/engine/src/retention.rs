//! Ends resources whose metrics get no measures any more, and removes resources that ended long ago.
//!
//! New measures revive an ended resource, see [`gnudi_indexer::revival`]. The time of a metric's last
//! measures is not stored: heads have the last applied request, and [`Activity`] records the sacks' positions
//! at some times. So it costs the hot path nothing, and starts from scratch in each process. A mark stays
//! valid across splits: positions keep growing in an old sack's successors, so a metric got nothing since the
//! mark if its head is not beyond its sack's position then.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use gnudi_drivers::incoming::{Consume, IncomingError, Position};
use gnudi_indexer::{
    Comparison, Filter, FilterValue, MICROSECOND, ResourceListing, ResourceMarker, ResourcePage,
};
use gnudi_model::{
    Metric, MetricId, Resource, Sack, SackCount, SackId, Timespan, Timestamp, resource_type::GENERIC,
};
use uuid::Uuid;

use crate::{Engine, Result, damage, figures::Figures, last_measure::HEADS_AT_ONCE};

/// Resources processed at once.
const RESOURCES_AT_ONCE: usize = 1000;

/// How long a sack's backlog may take to be applied before resources are deleted.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);

/// Number of marks: the resolution of the inactivity time.
const MARKS_MAX: i64 = 16;

/// Each sack's newest position, at some times in the past.
#[derive(Debug)]
pub struct Activity {
    inactive_after: Timespan,
    marks: VecDeque<Mark>,
}

/// A time by two clocks: the system's, which may be set, and one that runs while the machine does.
#[derive(Clone, Copy, Debug)]
pub struct ClockTimes {
    pub at: Timestamp,
    /// Since any time that is the same for all moments.
    pub up: Duration,
}

impl ClockTimes {
    /// The time since an earlier moment: a clock that was set forward, or a machine that was suspended, does not make it
    /// longer.
    fn since(self, earlier: ClockTimes) -> Timespan {
        let up = i64::try_from(self.up.saturating_sub(earlier.up).as_nanos()).unwrap_or(i64::MAX);
        Timespan(self.at.0.saturating_sub(earlier.at.0).min(up))
    }

    /// How far the system's clock was set forward since an earlier moment; below zero if it was set back.
    pub(crate) fn step_since(self, earlier: ClockTimes) -> Timespan {
        let up = i64::try_from(self.up.saturating_sub(earlier.up).as_nanos()).unwrap_or(i64::MAX);
        Timespan(self.at.0.saturating_sub(earlier.at.0).saturating_sub(up))
    }
}

/// The sacks' positions at a time.
#[derive(Debug)]
struct Mark {
    moment: ClockTimes,
    count: SackCount,
    /// The newest position of each sack, or of its predecessor before the split.
    newest: Vec<Position>,
    /// Whether all sacks before the last split had been drained.
    settled: bool,
}

impl Mark {
    fn newest(&self, metric: MetricId) -> Position {
        self.newest[usize::from(self.count.sack_of(metric).0)]
    }
}

impl Activity {
    pub fn new(inactive_after: Timespan) -> Self {
        Activity { inactive_after, marks: VecDeque::new() }
    }

    /// Records the current positions, unless it did so recently.
    pub async fn mark(&mut self, incoming: &dyn Consume, now: ClockTimes) -> Result<(), IncomingError> {
        // Drop marks from the future, made before the clock was set back: none would be old enough until that time.
        while self.marks.back().is_some_and(|mark| mark.moment.at > now.at) {
            self.marks.pop_back();
        }
        let spacing = Timespan((self.inactive_after.0 / MARKS_MAX).max(1));
        if self.marks.back().is_some_and(|last| now.at < last.moment.at.saturating_add(spacing)) {
            return Ok(());
        }
        let numbering = incoming.numbering();
        let count = numbering.count;
        let mut sacks: Vec<Sack> = count.sacks().collect();
        if numbering.draining {
            sacks.extend(numbering.units().sacks());
        }
        let mut newest = vec![Position::default(); usize::from(count.get())];
        for (sack, positions) in sacks.iter().zip(incoming.positions(&sacks).await?) {
            for place in newest.iter_mut().skip(usize::from(sack.id.0)).step_by(usize::from(sack.count.get()))
            {
                *place = positions.newest.max(*place);
            }
        }
        self.marks.push_back(Mark { moment: now, count, newest, settled: !numbering.draining });
        // The first mark that is old enough is used; older ones are dropped.
        while self.marks.get(1).is_some_and(|mark| now.since(mark.moment) >= self.inactive_after) {
            self.marks.pop_front();
        }
        Ok(())
    }

    /// The mark at the start of the inactivity time; `None` if this process is younger.
    fn begin(&self, now: ClockTimes) -> Option<&Mark> {
        self.marks.front().filter(|mark| now.since(mark.moment) >= self.inactive_after)
    }
}

impl Engine {
    /// Records the sacks' positions, then ends the resources with metrics, none of which got measures or was
    /// created within the activity's span, in batches while `go_on` is true; returns their number.
    pub async fn end_inactive_resources(
        &self,
        activity: &mut Activity,
        now: ClockTimes,
        go_on: impl Fn() -> bool,
    ) -> Result<usize> {
        let moment = ClockTimes { at: now.at.floor(MICROSECOND), ..now };
        let now = moment.at;
        activity.mark(&*self.incoming, moment).await?;
        let Some(begin) = activity.begin(moment) else { return Ok(0) };
        // By the clock as it was at the mark.
        let unset = begin.moment.at.saturating_add(moment.since(begin.moment));
        let created_before = unset.saturating_sub(activity.inactive_after);
        let goes_on = Filter::equal("ended_at", FilterValue::Null);
        let mut marker = None;
        let mut ended = 0;
        while go_on() {
            let left_out = self.indexer.left_out();
            let resources = self.resources_behind(marker, &goes_on, now).await?;
            let Some(last) = resources.last() else { break };
            marker = Some(ResourceMarker::Listed(last.clone()));
            let is_whole = self.indexer.left_out() == left_out;
            let metrics: Vec<_> = resources.iter().flat_map(|resource| resource.metrics.iter()).collect();
            let active = self.active(&metrics, begin, created_before).await?;
            let mut inactive: Vec<_> = resources
                .iter()
                .filter(|resource| {
                    !resource.metrics.is_empty()
                        && !resource.metrics.iter().any(|metric| active.contains(&metric.id))
                })
                .map(|resource| resource.id)
                .collect();
            if !is_whole {
                inactive = self.whole(inactive).await?;
            }
            ended += self.indexer.end_resources(&inactive, now).await?;
        }
        Figures::add(&self.figures().resources_ended, ended);
        Ok(ended as usize)
    }

    /// The resources without a metric that is damaged in the index: listings leave it out, and it may be active.
    async fn whole(&self, resources: Vec<Uuid>) -> Result<Vec<Uuid>> {
        let mut whole = Vec::with_capacity(resources.len());
        for id in resources {
            let left_out = self.indexer.left_out();
            // Bypassing the cache. A listing of somebody else may leave something out meanwhile: then the next round looks
            // again.
            let found = self.indexer.current_resource(GENERIC, id).await?;
            if found.is_some() && self.indexer.left_out() == left_out {
                whole.push(id);
            }
        }
        Ok(whole)
    }

    /// The next resources that match the filter, with their metrics.
    async fn resources_behind(
        &self,
        marker: Option<ResourceMarker>,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<Vec<Arc<Resource>>> {
        let listing = ResourceListing {
            filter: Some(filter.clone()),
            page: ResourcePage { limit: Some(RESOURCES_AT_ONCE), marker, sorts: Vec::new() },
            ..ResourceListing::of(GENERIC, now)
        };
        Ok(self.indexer.list_resources(&listing).await?)
    }

    /// Which of the metrics got measures since `begin`, or were created after `created_before`.
    async fn active(
        &self,
        metrics: &[&Arc<Metric>],
        begin: &Mark,
        created_before: Timestamp,
    ) -> Result<HashSet<MetricId>> {
        let numbering = self.incoming.numbering();
        let unit_of = |metric: &Metric| numbering.units().sack_of(metric.id);
        // Before the heads: what is acknowledged now is in them.
        let units: BTreeSet<SackId> = metrics.iter().map(|metric| unit_of(metric)).collect();
        let sacks: Vec<Sack> = units.iter().flat_map(|unit| numbering.sacks_of_unit(*unit)).collect();
        let positions = self.incoming.positions(&sacks).await?;
        let (mut busy, mut untouched) = (HashSet::new(), HashSet::new());
        for (sack, positions) in sacks.into_iter().zip(positions) {
            if !positions.is_idle() {
                busy.insert(numbering.unit_of(sack));
            }
            // Nothing was added since the split before the mark: the metrics' data is older.
            if positions.newest == Position::default() && begin.settled && begin.count == sack.count {
                untouched.insert(sack);
            }
        }
        let mut active = HashSet::new();
        // A resource may have any number of metrics.
        for metrics in metrics.chunks(HEADS_AT_ONCE) {
            let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
            self.processor.fold_deferred_of(&ids).await?;
            for (metric, head) in metrics.iter().zip(self.store.read_heads(&ids).await) {
                let applied = damage::decode(&head)?.map(|head| head.map_or(0, |head| head.applied()));
                // An unreadable head proves nothing: the resource stays.
                let quiet = untouched.contains(&Sack::of(metric.id, numbering.count))
                    || applied.is_ok_and(|applied| Position(applied) <= begin.newest(metric.id));
                if busy.contains(&unit_of(metric)) || !quiet || metric.created_at >= created_before {
                    active.insert(metric.id);
                }
            }
        }
        Ok(active)
    }

    /// Deletes resources that ended before a time (in whole seconds) without measures since, in batches while
    /// `go_on` is true; returns their number.
    ///
    /// Their backlog is applied first, which revokes the ends of those that go on. The index checks again
    /// that they have ended.
    pub async fn remove_ended_resources(&self, before: Timestamp, go_on: impl Fn() -> bool) -> Result<usize> {
        let ended = Filter::compare("ended_at", Comparison::Less, FilterValue::Int(before.secs()));
        let mut marker = None;
        let (mut applied, mut stuck) = (HashSet::new(), HashSet::new());
        let mut removed = 0;
        while go_on() {
            let resources = self.resources_behind(marker.clone(), &ended, before).await?;
            if resources.is_empty() {
                break;
            }
            let metrics =
                resources.iter().flat_map(|resource| resource.metrics.iter()).map(|metric| metric.id);
            self.apply_waiting(metrics, &mut applied, &mut stuck, &go_on).await;
            let units = self.incoming.numbering().units();
            let is_stuck = |metric: &Arc<Metric>| stuck.contains(&units.sack_of(metric.id));
            let (kept, over): (Vec<_>, Vec<_>) =
                resources.iter().partition(|resource| resource.metrics.iter().any(is_stuck));
            let values = over.iter().map(|resource| FilterValue::Uuid(resource.id)).collect();
            let these = Filter::And(vec![ended.clone(), Filter::In { field: "id".to_owned(), values }]);
            let deleted = self.indexer.delete_matching_resources(GENERIC, &these, before).await?.ids;
            Figures::add(&self.figures().resources_removed, deleted.len() as u64);
            removed += deleted.len();
            let kept = kept.last().map(|resource| ResourceMarker::Listed(Arc::clone(resource)));
            if kept.is_none() && deleted.is_empty() {
                break;
            }
            marker = kept.or(marker);
        }
        Ok(removed)
    }

    /// Applies everything that waits for the metrics, once per unit; collects units for which that takes too
    /// long, or which are left when `go_on` turns false.
    async fn apply_waiting(
        &self,
        metrics: impl Iterator<Item = MetricId>,
        applied: &mut HashSet<SackId>,
        stuck: &mut HashSet<SackId>,
        go_on: &impl Fn() -> bool,
    ) {
        for metric in metrics {
            let unit = self.incoming.numbering().units().sack_of(metric);
            if !applied.insert(unit) {
                continue;
            }
            if !go_on() {
                stuck.insert(unit);
                continue;
            }
            if let Err(error) = self.refresh(&[metric], APPLIED_WITHIN).await {
                tracing::warn!(sack = unit.0, %error, "ended resources of a sack are kept: its backlog is not applied");
                stuck.insert(unit);
            }
        }
    }

    /// Removes former revisions of resources that ended before a time, in batches while `go_on` is true;
    /// returns their number.
    pub async fn remove_revisions(&self, before: Timestamp, go_on: impl Fn() -> bool) -> Result<usize> {
        const REVISIONS_AT_ONCE: usize = 1_000;
        let mut removed = 0;
        while go_on() {
            let found = self.indexer.remove_revisions(before, REVISIONS_AT_ONCE).await?;
            Figures::add(&self.figures().revisions_removed, found as u64);
            removed += found;
            if found < REVISIONS_AT_ONCE {
                break;
            }
        }
        Ok(removed)
    }

    /// Removes leftovers of deleted attributes and resource types from the index, in batches while `go_on` is
    /// true, and unused definitions.
    pub async fn sweep_index(&self, go_on: impl Fn() -> bool) -> Result<()> {
        const VALUES_AT_ONCE: usize = 10_000;
        self.indexer.sweep_definitions().await?;
        while go_on() && self.indexer.sweep_values(VALUES_AT_ONCE).await? == VALUES_AT_ONCE {}
        Ok(())
    }
}

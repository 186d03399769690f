//! Ends resources whose metrics get no measures any more, and removes resources that ended long ago.
//!
//! What makes an ended resource live again are measures, see [`revival`](crate::revival). When a metric last got measures is not stored with it: the heads know
//! the last request that they applied, and [`Activity`] where the sacks stood at some time. So it costs the hot path
//! nothing, and begins to count anew with each process. A mark outlives splits: positions go on growing in the sacks that take an
//! old one's place, so that a metric got nothing since where its head stands no further than its sack of then.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use gnudi_drivers::{
    aggregates::StoreError,
    incoming::{Consume, IncomingError, Position},
};
use gnudi_indexer::{
    Comparison, Filter, FilterValue, IndexerError, ResourceListing, ResourceMarker, ResourcePage,
};
use gnudi_model::{
    Metric, MetricId, Resource, Sack, SackCount, SackId, Timespan, Timestamp, resource_type::GENERIC,
};
use gnudi_series::head::Head;
use uuid::Uuid;

use crate::{Engine, Result, figures::Figures, revival::MICROSECOND};

/// How many resources are looked at at once.
const RESOURCES_AT_ONCE: usize = 1000;

/// How long a sack's backlog may take to be applied before resources are deleted.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);

/// How many marks are kept: the time of inactivity is right to this part of it.
const MARKS_MAX: i64 = 16;

/// Where each sack's newest record stood, at some times of the past.
#[derive(Debug)]
pub struct Activity {
    inactive_after: Timespan,
    marks: VecDeque<Mark>,
}

/// Where the sacks stood at a time.
#[derive(Debug)]
struct Mark {
    at: Timestamp,
    count: SackCount,
    /// For each sack the newest position that it or the one before the split had.
    newest: Vec<Position>,
    /// Whether all sacks before the last split had been worked off.
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

    /// Remembers where the sacks stand now, unless it did so a short while ago.
    pub async fn mark(&mut self, incoming: &dyn Consume, now: Timestamp) -> Result<(), IncomingError> {
        let spacing = Timespan((self.inactive_after.0 / MARKS_MAX).max(1));
        if self.marks.back().is_some_and(|last| now < last.at.saturating_add(spacing)) {
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
        self.marks.push_back(Mark { at: now, count, newest, settled: !numbering.draining });
        // The first mark that is old enough serves; those before it are of no use.
        while self.marks.get(1).is_some_and(|mark| mark.at <= now.saturating_sub(self.inactive_after)) {
            self.marks.pop_front();
        }
        Ok(())
    }

    /// Where the sacks stood when the time of inactivity began; `None` where this process is younger than that.
    fn begin(&self, now: Timestamp) -> Option<&Mark> {
        self.marks.front().filter(|mark| mark.at <= now.saturating_sub(self.inactive_after))
    }
}

impl Engine {
    /// Remembers where the sacks stand, then ends the resources that have metrics, none of which got measures (nor was made)
    /// for the activity's span; returns how many.
    pub async fn end_inactive_resources(&self, activity: &mut Activity, now: Timestamp) -> Result<usize> {
        let now = now.floor(MICROSECOND);
        activity.mark(&*self.incoming, now).await?;
        let Some(begin) = activity.begin(now) else { return Ok(0) };
        let created_before = now.saturating_sub(activity.inactive_after);
        let goes_on = Filter::Compare {
            comparison: Comparison::Equal,
            field: "ended_at".to_owned(),
            value: FilterValue::Null,
        };
        let mut marker = None;
        let mut ended = 0;
        loop {
            let Some(resources) = self.resources_behind(marker, &goes_on, now).await? else { break };
            let Some(last) = resources.last() else { break };
            marker = Some(last.id);
            let metrics: Vec<_> = resources.iter().flat_map(|resource| &resource.metrics).collect();
            let active = self.active(&metrics, begin, created_before).await?;
            let inactive: Vec<_> = resources
                .iter()
                .filter(|resource| {
                    !resource.metrics.is_empty()
                        && !resource.metrics.iter().any(|metric| active.contains(&metric.id))
                })
                .map(|resource| resource.id)
                .collect();
            ended += self.indexer.end_resources(&inactive, now).await?;
        }
        Figures::add(&self.figures().resources_ended, ended);
        Ok(ended as usize)
    }

    /// The next resources that the filter takes, with their metrics; `None` where the last one of the page before was deleted
    /// meanwhile: the rest has its turn next time.
    async fn resources_behind(
        &self,
        marker: Option<Uuid>,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<Option<Vec<Arc<Resource>>>> {
        let marker = marker.map(|id| ResourceMarker { id, revision: Resource::CURRENT });
        let listing = ResourceListing {
            filter: Some(filter.clone()),
            page: ResourcePage { limit: Some(RESOURCES_AT_ONCE), marker, sorts: Vec::new() },
            ..ResourceListing::of(GENERIC, now)
        };
        match self.indexer.list_resources(&listing).await {
            Err(IndexerError::InvalidPagination(_)) => Ok(None),
            resources => Ok(Some(resources?)),
        }
    }

    /// Which of the metrics got measures since the sacks stood at `begin`, or were made after `created_before`.
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
            // Nothing has come since the split before the mark: what the sack's metrics have is older.
            if positions.newest == Position::default() && begin.settled && begin.count == sack.count {
                untouched.insert(sack);
            }
        }
        let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
        let mut active = HashSet::new();
        for (metric, head) in metrics.iter().zip(self.store.read_heads(&ids).await) {
            let applied = match head {
                Ok(Some(bytes)) => Head::decode(&bytes).ok().map(|head| Position(head.applied())),
                Ok(None) => Some(Position::default()),
                Err(StoreError::Damaged(_)) => None,
                Err(error) => return Err(error.into()),
            };
            // A head that can't be read says nothing: the resource stays.
            let quiet = untouched.contains(&Sack::of(metric.id, numbering.count))
                || applied.is_some_and(|applied| applied <= begin.newest(metric.id));
            if busy.contains(&unit_of(metric)) || !quiet || metric.created_at >= created_before {
                active.insert(metric.id);
            }
        }
        Ok(active)
    }

    /// Deletes resources that ended before a time (in whole seconds), of which no metric was measured since; returns how many.
    ///
    /// Their backlog is applied first, which takes back the ends of those that go on. The index looks once more whether
    /// they are over.
    pub async fn remove_ended_resources(&self, before: Timestamp) -> Result<usize> {
        let ended = Filter::Compare {
            comparison: Comparison::Less,
            field: "ended_at".to_owned(),
            value: FilterValue::Int(before.secs()),
        };
        let mut marker = None;
        let (mut applied, mut stuck) = (HashSet::new(), HashSet::new());
        let mut removed = 0;
        loop {
            let Some(resources) = self.resources_behind(marker, &ended, before).await? else { break };
            if resources.is_empty() {
                break;
            }
            let metrics = resources.iter().flat_map(|resource| &resource.metrics).map(|metric| metric.id);
            self.apply_waiting(metrics, &mut applied, &mut stuck).await;
            let units = self.incoming.numbering().units();
            let is_stuck = |metric: &Arc<Metric>| stuck.contains(&units.sack_of(metric.id));
            let (kept, over): (Vec<_>, Vec<_>) =
                resources.iter().partition(|resource| resource.metrics.iter().any(is_stuck));
            let values = over.iter().map(|resource| FilterValue::Uuid(resource.id)).collect();
            let these = Filter::And(vec![ended.clone(), Filter::In { field: "id".to_owned(), values }]);
            let deleted = self.indexer.delete_matching_resources(GENERIC, &these, before).await?.ids;
            Figures::add(&self.figures().resources_removed, deleted.len() as u64);
            removed += deleted.len();
            // The others of the page are there, unless somebody else deletes them now.
            let kept = kept.last().map(|resource| resource.id);
            if kept.is_none() && deleted.is_empty() {
                break;
            }
            marker = kept.or(marker);
        }
        Ok(removed)
    }

    /// Has all that waits for the metrics applied, each unit once, and remembers the units where that takes too long.
    async fn apply_waiting(
        &self,
        metrics: impl Iterator<Item = MetricId>,
        applied: &mut HashSet<SackId>,
        stuck: &mut HashSet<SackId>,
    ) {
        for metric in metrics {
            let unit = self.incoming.numbering().units().sack_of(metric);
            if !applied.insert(unit) {
                continue;
            }
            if let Err(error) = self.refresh(&[metric], APPLIED_WITHIN).await {
                tracing::warn!(sack = unit.0, %error, "ended resources of a sack are kept: its backlog is not applied");
                stuck.insert(unit);
            }
        }
    }

    /// Removes former revisions of resources that ended before a time, some at a time, as long as `go_on` says so; returns how many.
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

    /// Removes what deleted attributes and resource types have left in the index, some at a time, and definitions that no metric has.
    pub async fn sweep_index(&self) -> Result<()> {
        const VALUES_AT_ONCE: usize = 10_000;
        self.indexer.sweep_definitions().await?;
        while self.indexer.sweep_values(VALUES_AT_ONCE).await? == VALUES_AT_ONCE {}
        Ok(())
    }
}

//! Removes a metric's measures in a time span: the request is in the backlog, in order with the points.

use gnudi_drivers::{
    aggregates::{Fence, MetricWrite},
    incoming::Record,
};
use gnudi_series::{head::Head, raw, removal};

use crate::{
    EngineError, Result, damage,
    figures::Figures,
    folding::{attempt, writing},
    late::refer,
    processor::{Group, Processor},
};

impl Processor {
    /// The write that removes the measures; `None` if that is done already, or impossible.
    pub(crate) async fn remove_measures(
        &self,
        fence: Fence,
        mut group: Group,
        record: &Record,
    ) -> Result<Option<MetricWrite>> {
        let metric = group.metric;
        let stored = self.store.read_own_heads(fence, &[metric]).await.pop().expect("one answer per metric");
        if let Ok(None) = stored {
            return Ok(None);
        }
        let mut head = self.decode_head(metric, &stored)?;
        if !head.fits(&group.layout) {
            let Some((converted, stored)) = self.convert(fence, &group, &stored).await? else {
                return Ok(None);
            };
            (group, head) = (converted, self.decode_head(metric, &stored)?);
        }
        if head.applied() >= record.position.0 {
            return Ok(None);
        }
        match self.try_to_remove(&group, record, head).await {
            Ok(write) => Ok(Some(write)),
            Err(EngineError::Damaged { reason, .. }) => {
                tracing::error!(%metric, position = record.position.0, reason, "measures cannot be removed: the request is dropped");
                Figures::add(&self.figures.damaged, 1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn try_to_remove(&self, group: &Group, record: &Record, mut head: Head) -> Result<MetricWrite> {
        let (metric, layout) = (group.metric, &*group.layout);
        let span = removal::decode(&record.points)
            .map_err(|error| EngineError::Damaged { metric, reason: error.to_string() })?;
        let names = self.list_names(&[group]).await?.pop().expect("one answer per metric");
        let raw_names = names.spans(raw::GRANULARITY);
        let needed = head.removal_raw_needs(layout, &span, raw_names);
        let ranges = needed.into_iter().filter_map(|needed| names.range(raw::GRANULARITY, needed));
        let points = self.read_some(metric, ranges.collect()).await?;
        let position = record.position.0;
        let removed = attempt(|| head.remove_points(layout, position, &span, raw_names, &refer(&points)));
        let changed = damage::undamaged(metric, removed)?;
        let buckets = self.read_some(metric, names.ranges_of(&changed)).await?;
        let written = attempt(|| {
            let spans = |granularity| names.spans(granularity).to_vec();
            head.remove_emptied(&span, &changed, spans);
            head.set_late_rows(layout, &changed, &refer(&buckets))?;
            head.reopen(layout, spans);
            Ok(writing(&mut head, group).write)
        });
        damage::undamaged(metric, written)
    }
}

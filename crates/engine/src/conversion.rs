//! Converts heads of metrics that moved to another policy, or whose policy got other methods, before anything
//! is folded into them.
//!
//! A head shows that it was made for another layout. The metric's policy is then read from the index,
//! bypassing the cache: a pass with an older policy than an earlier pass must not convert the head back. The
//! converted head and its blocks are one write, so a crash leaves the metric as before or after. Metrics are
//! converted one by one, each with its own calls to the store: it is rare.

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockRange, Fence, MetricWrite, StoreError};
use gnudi_indexer::IndexerError;
use gnudi_model::{MetricId, Timespan};
use gnudi_series::{
    head::{BlockSpan, Conversion, Head, Layout},
    raw,
};

use crate::{
    EngineError, Result,
    damage::{self, StoredHead},
    figures::Figures,
    folding::{attempt, writing},
    late::{Names, refer},
    processor::{Group, Processor, report_damaged},
};

/// How many blocks of a finer granularity are in memory at once.
const BLOCKS_AT_ONCE: usize = 64;

/// Granularities of a stored head's blocks, besides raw points; `None` if the head is invalid. Fails if a newer program
/// wrote it.
pub fn granularities_of(head: &Bytes) -> Result<Option<Vec<Timespan>>, StoreError> {
    Ok(damage::decode_head(head)?.ok().map(|head| head.granularities().collect()))
}

impl Processor {
    /// The group with the metric's current policy, and its converted head; `None` if the metric is gone, or damaged in the
    /// index.
    pub(crate) async fn convert(
        &self,
        fence: Fence,
        group: &Group,
        stored: &StoredHead,
    ) -> Result<Option<(Group, StoredHead)>> {
        let id = group.metric;
        let current = match self.indexer.current_metric(id).await {
            // The cache may have it from before the damage.
            Err(IndexerError::DamagedMetric { id, reason }) => {
                report_damaged(id, &reason);
                None
            }
            found => found?,
        };
        let Some((metric, policy)) = current else { return Ok(None) };
        let (layout, records) = (Layout::of(&policy).into(), group.records.clone());
        let group = Group { metric: id, resource_id: metric.resource_id, layout, records };
        let head = self.decode_head(id, stored)?;
        if head.fits(&group.layout) {
            return Ok(Some((group, stored.clone())));
        }
        let write = match self.converted(&group, head.clone(), true).await {
            Err(EngineError::Damaged { reason, .. }) => {
                tracing::error!(metric = %id, reason, "stored data of a metric cannot be converted to its policy: the metric is reset");
                Figures::add(&self.figures.damaged, 1);
                self.converted(&group, head, false).await?
            }
            written => written?,
        };
        let head = write.head.clone();
        self.write(fence, vec![write]).await?;
        Figures::add(&self.figures.metrics_converted, 1);
        Ok(Some((group, Ok(Some(head)))))
    }

    /// The write of a converted metric; without `reads` its stored blocks are ignored.
    async fn converted(&self, group: &Group, mut head: Head, reads: bool) -> Result<MetricWrite> {
        let metric = group.metric;
        let mut granularities: Vec<Timespan> = head.granularities().chain([raw::GRANULARITY]).collect();
        granularities.extend(group.layout.granularities());
        granularities.sort_unstable();
        granularities.dedup();
        let names =
            self.list_names_of(&[(metric, granularities)]).await?.pop().expect("one answer per metric");
        let spans = |granularity| names.spans(granularity).to_vec();
        let needed = head.conversion_raw_needs(names.spans(raw::GRANULARITY));
        let ranges = names.range(raw::GRANULARITY, needed).into_iter().filter(|_| reads).collect();
        let points = self.read_some(metric, ranges).await?;
        let layout = &*group.layout;
        let begun = attempt(|| head.begin_conversion(layout, &refer(&points), spans));
        let mut conversion = damage::undamaged(metric, begun)?;
        let mut cuts = Vec::new();
        if reads {
            self.compose(metric, &head, &mut conversion, &names).await?;
            let range = |(granularity, (from, to)): &(Timespan, BlockSpan)| BlockRange {
                metric,
                granularity: *granularity,
                from: *from,
                to: *to,
            };
            cuts = self.read_some(metric, conversion.cuts.iter().map(range).collect()).await?;
        } else {
            conversion.composers.clear();
        }
        let written = attempt(|| {
            head.finish_conversion(layout, conversion, &refer(&cuts), spans)?;
            Ok(writing(&mut head, group).write)
        });
        damage::undamaged(metric, written)
    }

    /// Passes the blocks of their sources to the composers.
    async fn compose(
        &self,
        metric: MetricId,
        head: &Head,
        conversion: &mut Conversion,
        names: &Names,
    ) -> Result<()> {
        for composer in &mut conversion.composers {
            let spans = names.spans(composer.source);
            let from = spans.iter().position(|span| composer.wants(*span)).unwrap_or(spans.len());
            let to = spans.iter().rposition(|span| composer.wants(*span)).map_or(from, |last| last + 1);
            for start in (from..to).step_by(BLOCKS_AT_ONCE) {
                let range = names.range(composer.source, start..to.min(start + BLOCKS_AT_ONCE));
                for (_, bytes) in self.read_some(metric, range.into_iter().collect()).await? {
                    damage::undamaged(metric, Ok(composer.add(&bytes)))?;
                }
            }
            if let Some(open) = head.open_block(composer.source) {
                damage::undamaged(metric, Ok(composer.add(open)))?;
            }
        }
        Ok(())
    }
}

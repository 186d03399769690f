//! The sources of a time span's samples: raw points for the newest times, then granularity after granularity, each for
//! the times before those that the previous source covers.

use gnudi_model::{ArchivePolicy, ArchivePolicyItem, Timespan, Timestamp};
use gnudi_series::raw;

use super::query::{MILLISECOND, Resolution, SampleQuery, Stamp};

/// How many buckets of the coarser granularity a common border may be away: the finer granularity is not read before it.
const BORDER_BUCKETS_MAX: i64 = 16;

/// A time span, `to` excluded, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// `None`: raw points. Otherwise buckets that start between both times.
    pub buckets: Option<ArchivePolicyItem>,
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The segments of a metric whose newest point is at `newest`, oldest first. `granularities` are those of [`candidates`].
/// `known_from` gives the time before which the metric had no raw points, or not this granularity.
pub(super) fn segments(
    policy: &ArchivePolicy,
    granularities: &[ArchivePolicyItem],
    newest: Timestamp,
    known_from: impl Fn(Timespan) -> Timestamp,
    query: &SampleQuery,
) -> Vec<Segment> {
    let kept_after = |granularity, expired: i64| expired.max(known_from(granularity).0.saturating_sub(1));
    let mut sources: Vec<Source> = Vec::with_capacity(1 + granularities.len());
    if let Some(timespan) = policy.raw_timespan.filter(|_| query.takes_raw()) {
        sources.push(Source {
            buckets: None,
            start: nanoseconds(query.start_ms),
            kept_after: kept_after(raw::GRANULARITY, newest.0.saturating_sub(timespan.0)),
        });
    }
    sources.extend(granularities.iter().map(|&item| {
        let granularity = item.granularity.0;
        let newest_bucket = newest.0 - newest.0.rem_euclid(granularity);
        let expired = item.timespan.map_or(i64::MIN, |timespan| newest_bucket.saturating_sub(timespan.0));
        Source {
            buckets: Some(item),
            start: first_bucket(query, item.granularity),
            kept_after: kept_after(item.granularity, expired),
        }
    }));
    let mut to = 0;
    let mut segments = Vec::new();
    let mut rest = sources.as_slice();
    while let [source, others @ ..] = rest {
        rest = others;
        if segments.is_empty() {
            to = source.end(query);
        }
        if to <= source.start {
            break;
        }
        let is_whole = source.kept_after < source.start;
        let from = if is_whole {
            source.start
        } else {
            let known_from = source.kept_after.saturating_add(1);
            rest = before(others, known_from);
            match rest.first() {
                // Buckets are taken as a whole, or not at all.
                Some(next) => source.border(next, to).clamp(source.start, to),
                None => known_from.min(to),
            }
        };
        if from < to {
            let [from, stop] = [from, to].map(|time| Timestamp(time.clamp(0, Timestamp::MAX.0)));
            segments.push(Segment { buckets: source.buckets, from, to: stop });
        }
        to = from;
        if is_whole {
            break;
        }
    }
    segments.reverse();
    segments
}

/// The sources from the first one on that has buckets before `time`.
fn before(sources: &[Source], time: i64) -> &[Source] {
    let reaches = |index: usize| {
        let source = &sources[index];
        let oldest = source.kept_after.saturating_add(1);
        sources.get(index + 1).map_or(oldest, |next| next.ceil(oldest)) < source.ceil(time)
    };
    let first = (0..sources.len()).find(|index| reaches(*index)).unwrap_or(sources.len());
    &sources[first..]
}

/// A source of a metric's samples. Times in nanoseconds.
struct Source {
    buckets: Option<ArchivePolicyItem>,
    /// Earlier starts are not wanted.
    start: i64,
    /// Everything up to this time has expired, or came before the metric had this source.
    kept_after: i64,
}

impl Source {
    /// Later starts are not wanted.
    fn end(&self, query: &SampleQuery) -> i64 {
        let buckets = self.buckets.filter(|_| query.looks_ahead);
        let extra_ms = buckets.map_or(0, |item| query.bucket_extra_ms(item.granularity));
        nanoseconds(query.end_ms.saturating_add(extra_ms).saturating_add(1))
    }

    /// The border at which this source begins, and at which the next one, which covers earlier times, ends. It is the first
    /// kept time at which buckets of both begin, so that no measure counts twice. If that time is far away, or after `to`,
    /// it is the first kept time at which a bucket of the next source begins.
    fn border(&self, next: &Source, to: i64) -> i64 {
        let from = self.kept_after.saturating_add(1);
        let (own, others) = (self.granularity(), next.granularity());
        let both = (own / greatest_common_divisor(own, others)).saturating_mul(others);
        let is_near = both <= own.max(others).saturating_mul(BORDER_BUCKETS_MAX) && ceil(from, both) <= to;
        ceil(from, if is_near { both } else { others })
    }

    /// The first time from `time` on at which a bucket begins.
    fn ceil(&self, time: i64) -> i64 {
        ceil(time, self.granularity())
    }

    fn granularity(&self) -> i64 {
        self.buckets.map_or(1, |item| item.granularity.0)
    }
}

/// The first multiple of `granularity` from `time` on.
fn ceil(time: i64, granularity: i64) -> i64 {
    time.saturating_add(time.wrapping_neg().rem_euclid(granularity))
}

fn greatest_common_divisor(mut one: i64, mut other: i64) -> i64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn nanoseconds(milliseconds: i64) -> i64 {
    milliseconds.saturating_mul(MILLISECOND)
}

/// The earliest start of a bucket to read.
fn first_bucket(query: &SampleQuery, granularity: Timespan) -> i64 {
    let start = nanoseconds(query.start_ms.saturating_sub(query.bucket_extra_ms(granularity)));
    match query.stamp {
        Stamp::End => start.saturating_sub(granularity.0),
        Stamp::Start => start,
    }
}

/// The granularities to use, in this order.
pub(super) fn candidates(policy: &ArchivePolicy, query: &SampleQuery) -> Vec<ArchivePolicyItem> {
    let mut items = policy.definition.clone();
    items.sort_by_key(|item| item.granularity);
    if let Some(granularity) = query.granularity {
        items.retain(|item| item.granularity == granularity);
        return items;
    }
    let divides = |span_ms: i64, granularity: Timespan| {
        span_ms.checked_mul(MILLISECOND).is_some_and(|span| span % granularity.0 == 0)
    };
    let is_fine = |item: &ArchivePolicyItem| match query.resolution {
        Resolution::Finest => false,
        Resolution::AtMost(most) => item.granularity <= most,
        Resolution::Divides { first_end_ms, step_ms, range_ms } => {
            [first_end_ms, step_ms, range_ms].into_iter().all(|span_ms| divides(span_ms, item.granularity))
        }
    };
    let first = items.iter().rposition(is_fine).unwrap_or(0);
    // Finer granularities may keep what the coarser ones do not.
    let mut finer: Vec<ArchivePolicyItem> = items.drain(..first).collect();
    finer.reverse();
    items.extend(finer);
    items
}

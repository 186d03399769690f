//! Composes the buckets of a granularity from those of a finer one that divides it.
//!
//! Count, sum, minimum, maximum, first and last compose; the mean is sum / count. Sums accumulate in the
//! order of the finer buckets. Other methods, and rates, cannot be computed from aggregates.

use std::ops::Range;

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use super::{SealedBlock, grain::blocks_of_rows};
use crate::{
    Result,
    aggregate::Workspace,
    block,
    layout::floor,
    rows::{Rows, may_lack},
};

/// The statistics of a composite, in this order.
const STATISTICS: [Statistic; 6] =
    [Statistic::Count, Statistic::Sum, Statistic::Min, Statistic::Max, Statistic::First, Statistic::Last];

/// Whether the method can be composed from finer buckets that store these methods.
pub(super) fn composes(method: AggregationMethod, stored: &[AggregationMethod]) -> bool {
    let has = |statistic| stored.contains(&AggregationMethod::new(statistic));
    match method.statistic {
        _ if method.rate => false,
        Statistic::Mean => has(Statistic::Sum) && has(Statistic::Count),
        statistic => STATISTICS.contains(&statistic) && has(statistic),
    }
}

/// The known statistics of some points of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Composite(pub [Option<f64>; 6]);

impl Composite {
    /// From at least one value.
    pub fn of_values(values: Vec<f64>) -> Self {
        let mut workspace = Workspace::whole(values);
        let methods = STATISTICS.map(AggregationMethod::new);
        let mut columns = [const { Vec::new() }; 6];
        workspace.push_columns(&methods, &mut columns);
        Composite(columns.map(|column| column.first().copied()))
    }

    /// Adds points that are newer than all existing ones.
    pub fn extend(&mut self, later: &Composite) {
        let [count, sum, min, max, first, last] = &mut self.0;
        let join = |mine: &mut Option<f64>, theirs: Option<f64>, both: fn(f64, f64) -> f64| {
            *mine = mine.zip(theirs).map(|(mine, theirs)| both(mine, theirs));
        };
        join(count, later.0[0], |a, b| a + b);
        join(sum, later.0[1], |a, b| a + b);
        // NaN is the maximum, and the minimum only if all values are NaN.
        join(min, later.0[2], |a, b| if b < a || (a.is_nan() && !b.is_nan()) { b } else { a });
        join(max, later.0[3], |a, b| if b >= a || b.is_nan() { b } else { a });
        join(first, later.0[4], |a, _| a);
        join(last, later.0[5], |_, b| b);
    }

    /// Adds a point that may be older than others: the first and last value are no longer known.
    pub fn add_late(&mut self, value: f64) {
        self.extend(&Composite::of_values(vec![value]));
        self.0[4..].fill(None);
    }

    pub fn value(&self, method: AggregationMethod) -> Option<f64> {
        let of = |wanted| self.0[STATISTICS.iter().position(|statistic| *statistic == wanted)?];
        match method.statistic {
            _ if method.rate => None,
            Statistic::Mean => Some(of(Statistic::Sum)? / of(Statistic::Count)?),
            statistic => of(statistic),
        }
    }

    /// The bucket as a block of the methods that are known; `None` if none is.
    pub fn sealed(
        &self,
        granularity: Timespan,
        start: i64,
        methods: &[AggregationMethod],
    ) -> Option<SealedBlock> {
        let known = |method: &AggregationMethod| Some((*method, vec![self.value(*method)?]));
        let (methods, columns): (Vec<_>, Vec<_>) = methods.iter().filter_map(known).unzip();
        let rows = Rows { starts: vec![Timestamp(start)], columns };
        (!methods.is_empty()).then(|| blocks_of_rows(granularity, &methods, &rows).next()).flatten()
    }
}

/// A bucket whose points before `until` are no longer stored: their known statistics. Later points are in the
/// head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Partial {
    pub start: i64,
    pub until: i64,
    pub composite: Composite,
}

impl Partial {
    /// Whether a point of the bucket that starts at `start` would be among those no longer stored.
    pub fn includes(&self, start: i64, point: Timestamp) -> bool {
        start == self.start && point.0 < self.until
    }
}

/// The result of a composer.
#[derive(Debug)]
pub(super) struct Composed {
    /// The complete buckets.
    pub blocks: Vec<SealedBlock>,
    /// The start of the first incomplete bucket.
    pub open: i64,
    /// The known statistics of the incomplete bucket, if it has points.
    pub partial: Option<Partial>,
    /// See the grain's field.
    pub gap_until: i64,
}

/// Composes buckets from the blocks of the finer granularity, added in order.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    /// The composed granularity.
    pub granularity: Timespan,
    /// The finer granularity.
    pub source: Timespan,
    /// In the order of their codes.
    methods: Vec<AggregationMethod>,
    /// The first bucket whose points are all known.
    pub(super) from: i64,
    /// Finer buckets that start here or later are skipped.
    until: i64,
    /// The finer bucket at `until`, if it is partial.
    tail: Option<Partial>,
    bucket: Option<(i64, Composite)>,
    /// Whether no block was added.
    pub(super) is_empty: bool,
    /// Whether buckets with points may be missing from the blocks.
    pub(super) lacks_buckets: bool,
    /// The end of the last bucket with points that gets no row because none of its statistics is known.
    gap_until: i64,
    rows: Rows,
    /// The methods of `rows`.
    row_methods: Vec<AggregationMethod>,
    sealed: Vec<SealedBlock>,
}

impl Composer {
    pub(super) fn new(
        granularity: Timespan,
        source: Timespan,
        methods: &[AggregationMethod],
        span: Range<i64>,
        tail: Option<Partial>,
    ) -> Self {
        Composer {
            granularity,
            source,
            methods: methods.to_vec(),
            from: span.start,
            until: span.end,
            tail,
            is_empty: true,
            ..Composer::default()
        }
    }

    /// Whether a block of the finer granularity overlaps the needed range.
    pub fn wants(&self, (first, last): (Timestamp, Timestamp)) -> bool {
        last.0 >= self.from && first.0 < self.until
    }

    /// Adds the next block.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let (methods, rows) = block::decode_all(bytes)?;
        let column = |statistic| {
            let wanted = AggregationMethod::new(statistic);
            methods.iter().position(|method| *method == wanted)
        };
        let columns = STATISTICS.map(column);
        if methods.iter().all(|method| may_lack(*method)) {
            // Blocks of these methods omit some buckets that have points.
            self.lacks_buckets = true;
            self.bucket = self.bucket.map(|(start, _)| (start, Composite::default()));
        }
        self.is_empty = false;
        for (row, start) in rows.starts.iter().enumerate() {
            if start.0 >= self.from && start.0 < self.until {
                let composite = Composite(columns.map(|column| Some(rows.columns[column?][row])));
                self.add_bucket(start.0, composite);
            }
        }
        Ok(())
    }

    fn add_bucket(&mut self, start: i64, composite: Composite) {
        let start = floor(start, self.granularity.0);
        match &mut self.bucket {
            Some((open, held)) if *open == start => held.extend(&composite),
            _ => {
                self.close();
                self.bucket = Some((start, composite));
            }
        }
    }

    /// Closes the open bucket: it is complete.
    fn close(&mut self) {
        let Some((start, composite)) = self.bucket.take() else { return };
        let known = |method: &AggregationMethod| Some((*method, composite.value(*method)?));
        let (methods, values): (Vec<_>, Vec<_>) = self.methods.iter().filter_map(known).unzip();
        if methods != self.row_methods {
            self.seal();
            self.rows = Rows::new(methods.len());
            self.row_methods = methods;
        }
        if values.is_empty() {
            self.gap_until = start.saturating_add(self.granularity.0);
            return;
        }
        self.rows.starts.push(Timestamp(start));
        self.rows.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }

    fn seal(&mut self) {
        if !self.rows.is_empty() {
            self.sealed.extend(blocks_of_rows(self.granularity, &self.row_methods, &self.rows));
        }
    }

    /// Finishes with the source's buckets before `until`.
    pub(super) fn finish(mut self) -> Composed {
        if let Some(tail) = self.tail.take() {
            self.add_bucket(tail.start, tail.composite);
            self.until = tail.until;
        }
        let until = self.until;
        let open = floor(until, self.granularity.0);
        let partial = self.bucket.take_if(|(start, _)| *start >= open);
        self.close();
        self.seal();
        let partial = partial.map(|(start, composite)| Partial { start, until, composite });
        Composed { blocks: self.sealed, open, partial, gap_until: self.gap_until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_the_whole() {
        let values = [3.0, f64::NAN, -2.0, 7.5, 0.0, -0.0, f64::NAN];
        for cut in 1..values.len() {
            let mut composite = Composite::of_values(values[..cut].to_vec());
            composite.extend(&Composite::of_values(values[cut..].to_vec()));
            let whole = Composite::of_values(values.to_vec());
            for (mine, theirs) in composite.0.iter().zip(whole.0) {
                let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
                assert!(mine.to_bits() == theirs.to_bits() || (mine.is_nan() && theirs.is_nan()), "{cut}");
            }
        }
    }

    #[test]
    fn what_one_part_lacks_the_whole_lacks() {
        let mut composite = Composite::of_values(vec![1.0]);
        composite.extend(&Composite([None, Some(2.0), None, None, None, None]));
        assert_eq!(composite.value("sum".parse().unwrap()), Some(3.0));
        assert_eq!(composite.value("mean".parse().unwrap()), None);
        assert_eq!(composite.value("std".parse().unwrap()), None);
        assert!(!composes("mean".parse().unwrap(), &["sum".parse().unwrap()]));
        assert!(!composes(
            "rate:sum".parse().unwrap(),
            &["sum".parse().unwrap(), "rate:sum".parse().unwrap()]
        ));
    }
}

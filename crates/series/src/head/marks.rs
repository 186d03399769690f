//! The state of earlier passes that rates and percentiles depend on, for one granularity.
//!
//! Gnocchi computes a pass's buckets from the bucket of the pass's first point on, and rates only over points
//! from one bucket before that on. So the first point of a pass may have no rate (a cut) until a later pass
//! starts earlier; a bucket that would lose its value keeps the one it had. Percentiles are interpolated at
//! positions counted from the start of the pass. Both affect results, so both are recorded while their points
//! are inside the window, and only for policies with such methods.

use gnudi_model::Measure;

/// A point that has no rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub time: i64,
    /// The rate that the bucket had when it contained only this point; valid while that is so.
    pub rate: Option<f64>,
    /// The std of rates that the bucket had when it contained this point and one more; valid while that is
    /// so.
    pub std: Option<f64>,
}

/// A pass that computed the buckets from `start` on, up to the next pass's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub start: i64,
    /// How many points at or after `start` have left the raw points since the pass.
    pub dropped: u64,
    /// Whether its first point had no rate.
    pub cut: bool,
}

/// The cuts and passes of one granularity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Marks {
    /// By time. Empty without rate methods.
    pub cuts: Vec<Cut>,
    /// By start. Empty without percentile methods.
    pub passes: Vec<Pass>,
}

impl Marks {
    /// The cut at the point with this time.
    pub fn cut_at(&self, time: i64) -> Option<&Cut> {
        self.cuts.binary_search_by_key(&time, |cut| cut.time).ok().map(|index| &self.cuts[index])
    }

    /// How many points precede `bucket`, whose first point is `raw[first]`, in the pass that last computed
    /// it.
    pub fn offset(&self, raw: &[Measure], first: usize, bucket: i64) -> u64 {
        match self.passes.partition_point(|pass| pass.start <= bucket) {
            0 => 0,
            after => {
                let pass = &self.passes[after - 1];
                let start = raw[..first].partition_point(|point| point.timestamp.0 < pass.start);
                pass.dropped.saturating_add((first - start) as u64)
            }
        }
    }

    /// As [`Marks::offset`], but counts rates: a pass that begins with a cut has one rate fewer than points.
    pub fn rate_offset(&self, raw: &[Measure], first: usize, bucket: i64) -> u64 {
        let points = self.offset(raw, first, bucket);
        let after = self.passes.partition_point(|pass| pass.start <= bucket);
        let cut = after > 0 && self.passes[after - 1].cut && points > 0;
        points - u64::from(cut)
    }

    /// Records a pass: it computed the buckets from `start` on; `cut` is the first point, if that has no
    /// rate.
    pub fn record(&mut self, start: i64, cut: Option<Cut>, pass: Option<Pass>) {
        self.cuts.truncate(self.cuts.partition_point(|cut| cut.time < start));
        self.cuts.extend(cut);
        if let Some(pass) = pass {
            self.passes.truncate(self.passes.partition_point(|earlier| earlier.start < pass.start));
            self.passes.push(pass);
        }
    }

    /// Updates the marks after the raw points `dropped` were removed and the buckets before `until` became
    /// final.
    pub fn forget(&mut self, dropped: &[Measure], until: i64) {
        self.cuts.drain(..self.cuts.partition_point(|cut| cut.time < until));
        let after = self.passes.partition_point(|pass| pass.start <= until);
        self.passes.drain(..after.saturating_sub(1));
        for pass in &mut self.passes {
            let before = dropped.partition_point(|point| point.timestamp.0 < pass.start);
            pass.dropped = pass.dropped.saturating_add((dropped.len() - before) as u64);
        }
    }
}

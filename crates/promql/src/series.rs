//! The input (series of samples) and the form in evaluation (a column of values per series, with a bit for each step
//! that has one).

use std::borrow::Cow;

use crate::labels::Labels;
use crate::plan::QueryTimes;

/// The staleness marker: a NaN that ends a series.
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}

/// A stored series: times in milliseconds, strictly ascending, and as many values. Staleness markers are included.
#[derive(Debug, Clone)]
pub struct Series {
    pub labels: Labels,
    pub times_ms: Vec<i64>,
    pub values: Vec<f64>,
    /// The lookback of this series, if it is not the default one. It applies in instant vectors, and beyond the borders of
    /// `anchored` and `smoothed` selectors.
    pub lookback_ms: Option<i64>,
    /// If the values are sums: the number of measurements in each. `count_over_time` and `avg_over_time` use it.
    pub counts: Option<Vec<f64>>,
}

impl Series {
    pub fn new(labels: Labels, times_ms: Vec<i64>, values: Vec<f64>) -> Series {
        Series { labels, times_ms, values, lookback_ms: None, counts: None }
    }
}

/// The steps of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub start: i64,
    /// Where the evaluation ends; the last step may be earlier.
    pub end: i64,
    pub interval: i64,
    pub steps: usize,
}

impl Grid {
    pub(crate) fn of(times: &QueryTimes) -> Grid {
        let interval = if times.is_instant() { 1 } else { times.step_ms };
        let steps = ((times.end_ms - times.start_ms) / interval + 1) as usize;
        Grid { start: times.start_ms, end: times.end_ms, interval, steps }
    }

    pub(crate) fn time(&self, step: usize) -> i64 {
        self.start + self.interval * step as i64
    }

    pub(crate) fn last(&self) -> i64 {
        self.time(self.steps.saturating_sub(1))
    }

    pub(crate) fn times(&self) -> impl Iterator<Item = i64> + use<> {
        let grid = *self;
        (0..grid.steps).map(move |step| grid.time(step))
    }

    /// Whether the evaluation is at one time. One step alone does not say that: the next one may be behind the end.
    pub(crate) fn is_instant(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn first_step(&self) -> Grid {
        Grid { end: self.start, steps: 1, ..*self }
    }
}

/// A set of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(crate) fn new(steps: usize) -> Bits {
        Bits { words: vec![0; steps.div_ceil(64)] }
    }

    /// The steps at which a column has a value.
    pub(crate) fn union<'c>(steps: usize, columns: impl IntoIterator<Item = &'c Column>) -> Bits {
        let mut union = Bits::new(steps);
        columns.into_iter().for_each(|column| union.unite(&column.present));
        union
    }

    pub(crate) fn get(&self, step: usize) -> bool {
        self.words[step / 64] >> (step % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, step: usize) {
        self.words[step / 64] |= 1 << (step % 64);
    }

    pub(crate) fn clear(&mut self, step: usize) {
        self.words[step / 64] &= !(1 << (step % 64));
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn any(&self) -> bool {
        self.words.iter().any(|word| *word != 0)
    }

    pub(crate) fn intersects(&self, other: &Bits) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn unite(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    pub(crate) fn intersect(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    pub(crate) fn subtract(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// The steps of the set, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

/// A value for each step that has one.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub values: Vec<f64>,
    pub present: Bits,
}

impl Column {
    pub(crate) fn new(steps: usize) -> Column {
        Column { values: vec![0.0; steps], present: Bits::new(steps) }
    }

    /// The same value at each step.
    pub(crate) fn repeated(value: f64, steps: usize) -> Column {
        Column::full(vec![value; steps])
    }

    pub(crate) fn full(values: Vec<f64>) -> Column {
        let mut present = Bits::new(values.len());
        for step in 0..values.len() {
            present.set(step);
        }
        Column { values, present }
    }

    pub(crate) fn set(&mut self, step: usize, value: f64) {
        self.values[step] = value;
        self.present.set(step);
    }

    pub(crate) fn get(&self, step: usize) -> Option<f64> {
        self.present.get(step).then(|| self.values[step])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.present.iter().map(|step| (step, self.values[step]))
    }

    pub(crate) fn map(&mut self, f: impl Fn(f64) -> f64) {
        for value in &mut self.values {
            *value = f(*value);
        }
    }
}

/// One series of an instant vector, over all steps.
#[derive(Debug, Clone)]
pub(crate) struct VectorSeries {
    pub labels: Labels,
    /// The metric name is to be dropped: at the end (delayed name removal), or by functions of subqueries that keep names.
    pub drop_name: bool,
    pub column: Column,
}

/// One series of a range vector: samples without staleness markers.
#[derive(Debug, Clone)]
pub(crate) struct RangeSeries<'a> {
    pub labels: Labels,
    pub drop_name: bool,
    pub times: Cow<'a, [i64]>,
    pub values: Cow<'a, [f64]>,
    /// This and `counts` are as in [`Series`].
    pub lookback_ms: Option<i64>,
    pub counts: Option<Cow<'a, [f64]>>,
}

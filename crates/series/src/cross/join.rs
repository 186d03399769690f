//! Puts series on a common grid: the union of their times.
//!
//! Usually all have the same times and nothing needs to be moved. Otherwise series with the same times form a
//! group, and each group is placed with one comparison of times.

use std::{collections::HashMap, sync::Arc};

use gnudi_model::{Timespan, Timestamp};

use super::{CrossError, CrossSeries, Fill};

/// The most cells of a grid, filled or not: a quarter of a gibibyte.
pub const CELLS_MAX: usize = 1 << 25;

/// Series on a common grid.
#[derive(Debug)]
pub(super) struct Joined {
    /// Oldest first, distinct.
    pub times: Arc<Vec<Timestamp>>,
    /// One for each series, as long as `times`.
    pub columns: Vec<Vec<f64>>,
}

impl Joined {
    /// For each row, whether no column is NaN.
    pub fn complete_rows(&self) -> Vec<bool> {
        let mut complete = vec![true; self.times.len()];
        for column in &self.columns {
            for (complete, value) in complete.iter_mut().zip(column) {
                *complete &= !value.is_nan();
            }
        }
        complete
    }
}

pub(super) fn join(
    granularity: Timespan,
    series: Vec<CrossSeries>,
    fill: Option<Fill>,
) -> Result<Joined, CrossError> {
    let fits = |rows: usize| match rows.checked_mul(series.len()) {
        Some(cells) if cells <= CELLS_MAX => Ok(()),
        _ => Err(CrossError::TooManyPoints),
    };
    let groups = groups(&series);
    if let [_] = groups[..] {
        fits(series[0].timestamps.len())?;
        let times = series[0].timestamps.clone();
        let columns = series.into_iter().map(|series| series.values).collect();
        return Ok(Joined { times, columns });
    }
    let distinct: Vec<&[Timestamp]> =
        groups.iter().map(|group| &series[group.first].timestamps[..]).collect();
    let times = Arc::new(union(granularity, &distinct));
    fits(times.len())?;
    let filler = match fill {
        Some(Fill::Value(value)) => value,
        _ => f64::NAN,
    };
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); series.len()];
    for group in &groups {
        let places = Places::of(&series[group.first].timestamps, &times);
        for &member in &group.members {
            columns[member] = places.spread(&series[member].values, times.len(), filler);
        }
    }
    Ok(Joined { times, columns })
}

/// Series with the same times.
struct Group {
    first: usize,
    members: Vec<usize>,
}

fn groups(series: &[CrossSeries]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_ends = HashMap::new();
    let mut before: Option<(&Arc<Vec<Timestamp>>, usize)> = None;
    for (index, one) in series.iter().enumerate() {
        let times = &one.timestamps;
        if let Some((_, group)) = before.filter(|(before, _)| Arc::ptr_eq(before, times)) {
            groups[group].members.push(index);
            continue;
        }
        // Different series rarely agree in all of these, so most comparisons find equal times.
        let key = (times.len(), times.first(), times.last(), times.get(times.len() / 2));
        let candidates: &mut Vec<usize> = by_ends.entry(key).or_default();
        let same = |group: &&usize| series[groups[**group].first].timestamps == *times;
        let known = candidates.iter().take(CANDIDATES_MAX).find(same).copied();
        let group = known.unwrap_or(groups.len());
        if known.is_none() {
            candidates.push(group);
            groups.push(Group { first: index, members: Vec::new() });
        }
        groups[group].members.push(index);
        before = Some((times, group));
    }
    groups
}

/// The most groups that a series is compared with. If it equals a later one, it gets a group of its own.
const CANDIDATES_MAX: usize = 8;

/// All distinct times, sorted.
fn union(granularity: Timespan, distinct: &[&[Timestamp]]) -> Vec<Timestamp> {
    if let Some(times) = Marks::of(granularity, distinct) {
        return times.collect();
    }
    let mut times: Vec<Timestamp> = distinct.iter().copied().flatten().copied().collect();
    times.sort();
    times.dedup();
    times
}

/// A bit for each bucket of the granularity from the first to the last time.
struct Marks {
    first: i64,
    step: i64,
    words: Vec<u64>,
}

impl Marks {
    /// `None` if times are not multiples of the granularity apart, or the range is too sparse.
    fn of(granularity: Timespan, distinct: &[&[Timestamp]]) -> Option<Self> {
        let first = distinct.iter().filter_map(|times| times.first()).min()?.0;
        let last = distinct.iter().filter_map(|times| times.last()).max()?.0;
        let step = granularity.0;
        let points: usize = distinct.iter().map(|times| times.len()).sum();
        let words = usize::try_from(last.checked_sub(first)? / step / 64 + 1).ok()?;
        // Setting bits is faster than sorting unless there are many more words than points.
        if words > points.saturating_mul(4) {
            return None;
        }
        let mut marks = Marks { first, step, words: vec![0; words] };
        distinct.iter().all(|times| marks.set(times)).then_some(marks)
    }

    fn set(&mut self, times: &[Timestamp]) -> bool {
        let (mut before, mut index) = (self.first, 0);
        for time in times {
            let distance = time.0 - before;
            // Usually the next bucket follows directly; this saves a division.
            if distance == self.step {
                index += 1;
            } else if distance % self.step == 0 {
                index += (distance / self.step) as usize;
            } else {
                return false;
            }
            self.words[index / 64] |= 1 << (index % 64);
            before = time.0;
        }
        true
    }

    fn collect(self) -> Vec<Timestamp> {
        let count: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        let mut times = Vec::with_capacity(count as usize);
        for (index, mut word) in self.words.into_iter().enumerate() {
            while word != 0 {
                let bucket = index as i64 * 64 + i64::from(word.trailing_zeros());
                times.push(Timestamp(self.first + bucket * self.step));
                word &= word - 1;
            }
        }
        times
    }
}

/// The rows of a group's times in the grid.
enum Places {
    /// Consecutive, from this row on.
    Run(usize),
    Rows(Vec<u32>),
}

impl Places {
    /// `grid` contains all of `times`; both are sorted.
    fn of(times: &[Timestamp], grid: &[Timestamp]) -> Self {
        let Some(&first) = times.first() else { return Places::Run(0) };
        let begin = grid.partition_point(|&time| time < first);
        if grid[begin..].starts_with(times) {
            return Places::Run(begin);
        }
        let mut row = begin;
        let place = |time: &Timestamp| {
            while grid[row] < *time {
                row += 1;
            }
            row as u32
        };
        Places::Rows(times.iter().map(place).collect())
    }

    fn spread(&self, values: &[f64], rows: usize, filler: f64) -> Vec<f64> {
        let mut column = vec![filler; rows];
        match self {
            Places::Run(begin) => column[*begin..begin + values.len()].copy_from_slice(values),
            Places::Rows(places) => {
                for (&row, &value) in places.iter().zip(values) {
                    column[row as usize] = value;
                }
            }
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn series(times: &[i64]) -> CrossSeries {
        CrossSeries {
            timestamps: Arc::new(times.iter().map(|&time| Timestamp(time)).collect()),
            values: times.iter().map(|&time| time as f64).collect(),
        }
    }

    fn times() -> impl Strategy<Value = Vec<i64>> {
        let step =
            prop_oneof![8 => Just(10i64), 2 => (1i64..9).prop_map(|steps| steps * 10), 1 => Just(1_000_000)];
        let offset = prop_oneof![9 => Just(0i64), 1 => Just(3)];
        (0i64..4, prop::collection::vec(step, 0..20), offset).prop_map(|(first, steps, offset)| {
            let mut time = first * 10 + offset;
            steps
                .iter()
                .map(|step| {
                    time += step;
                    time
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_value_is_at_its_time(
            all in prop::collection::vec(times(), 1..6),
            copies in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let mut all = all;
            for copy in copies {
                all.push(all[copy.index(all.len())].clone());
            }
            let rows: BTreeSet<i64> = all.iter().flatten().copied().collect();
            let joined =
                join(Timespan(10), all.iter().map(|times| series(times)).collect(), Some(Fill::Value(-1.0))).unwrap();
            prop_assert_eq!(joined.times.iter().map(|time| time.0).collect::<Vec<_>>(), rows.iter().copied().collect::<Vec<_>>());
            for (times, column) in all.iter().zip(&joined.columns) {
                let expected: Vec<f64> =
                    rows.iter().map(|time| if times.contains(time) { *time as f64 } else { -1.0 }).collect();
                prop_assert_eq!(column, &expected);
            }
        }
    }

    #[test]
    fn a_grid_is_bounded() {
        let apart = |index: i64| {
            let times: Vec<i64> = (0..1000).map(|row| (index * 1000 + row) * 10).collect();
            series(&times)
        };
        let all: Vec<CrossSeries> = (0..200).map(apart).collect();
        assert_eq!(join(Timespan(10), all, None).unwrap_err(), CrossError::TooManyPoints);
    }
}

//! Creates a head from the data of another store that works like Gnocchi: a metric's points of the back
//! window, and its buckets.
//!
//! Buckets before the window are final. Those inside are computed from the points, as always. Rates and
//! percentiles also depend on earlier passes, which are not recorded: their marks ([`super::marks`]) are
//! derived from the stored values. If no marks give the other store's value, this bucket and all before it
//! become final with their stored values: reads return the same, but late points no longer change them. That
//! is rare: even the point before the window is reconstructed from the rates of the window's first bucket.
//! Several marks may give the same percentile; if the wrong one was chosen, the last digits differ once the
//! bucket gets more points.

use gnudi_model::{AggregationMethod, Measure, Statistic, Timespan, Timestamp};

use super::{
    FoldOutcome, Head,
    grain::{Buffers, GrainState, Open, Points},
    marks::{Cut, Marks, Pass},
};
use crate::{
    aggregate::percentile_offsets,
    layout::{Layout, floor},
    rows::{Rows, absent, is_absent, may_lack},
};

/// The most points of the newest request that may have left the window and still affect a percentile's last
/// digits.
const LEFT_POINTS_MAX: u64 = 1_000;

/// The buckets of one granularity, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedGrain {
    pub granularity: Timespan,
    pub starts: Vec<Timestamp>,
    /// For each method of the layout, in its order, a value for each start; `None` if missing.
    pub columns: Vec<Vec<Option<f64>>>,
}

/// Buckets that could not be imported unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Buckets inside the window that later points no longer change.
    pub finalised: usize,
    /// Buckets that were skipped because they lack a required value. Expired ones do not count.
    pub incomplete: usize,
}

impl Head {
    /// See the module. `points` are ordered by time, without duplicates. The head starts with no request
    /// applied. `earlier` is the head of an earlier import, whose blocks stay; the buckets must then start at
    /// [`Head::import_from`].
    pub fn import(
        layout: &Layout,
        earlier: Option<&Head>,
        points: Vec<Measure>,
        grains: &[ImportedGrain],
    ) -> (Self, ImportOutcome) {
        let mut head = Head { raw: points, methods: layout.methods.clone(), ..Head::default() };
        let mut outcome = ImportOutcome::default();
        if let Some(last) = head.last() {
            head.window = layout.window_start(last).0.max(0);
            head.raw.drain(..head.raw.partition_point(|point| point.timestamp.0 < head.window));
        }
        let mut of_grain = |granularity| {
            let imported = grains.iter().find(|grain| grain.granularity == granularity);
            let rows = imported.map_or_else(
                || Rows::new(layout.methods.len()),
                |imported| rows_of(layout, imported, &mut outcome.incomplete),
            );
            let from = earlier.map(|head| head.import_from(granularity));
            debug_assert!(rows.starts.first().zip(from).is_none_or(|(first, from)| *first >= from));
            (granularity, rows)
        };
        let rows: Vec<(Timespan, Rows)> = layout.granularities().map(&mut of_grain).collect();
        if layout.has_rate {
            head.before = head.find_point_before(layout, &rows);
        }
        for (granularity, rows) in rows {
            let mut grain = head.import_grain(layout, granularity, rows, &mut outcome.finalised);
            grain.kept_from =
                earlier.and_then(|head| head.grain(granularity)).map_or(0, |grain| grain.kept_from);
            head.grains.push(grain);
        }
        (head, outcome)
    }

    /// The first bucket of the granularity that a further import takes. Earlier ones are in blocks, or do not
    /// exist.
    pub fn import_from(&self, granularity: Timespan) -> Timestamp {
        let Some(grain) = self.grain(granularity) else { return Timestamp(i64::MIN) };
        grain.open.first().unwrap_or(Timestamp(grain.final_until))
    }

    /// Whether folding the [`Head::missing`] of these points gives the same as a further import: all buckets
    /// that they change are still computed from points of this head. Never with rates or percentiles: they
    /// depend on the passes in which the points came, even on passes without new points.
    pub fn follows(&self, layout: &Layout, points: &[Measure]) -> bool {
        if layout.has_rate || layout.has_percentile {
            return false;
        }
        let missing = self.missing(points);
        let (Some(first), Some(newest)) = (missing.first(), points.last()) else { return true };
        let window = layout.window_start(newest.timestamp).0.max(0);
        self.last().is_some() && window == self.window && first.timestamp.0 >= self.window
    }

    /// The points that the head does not have with the same value.
    pub fn missing(&self, points: &[Measure]) -> Vec<Measure> {
        let has = |point: &Measure| {
            let at = self.raw.binary_search_by_key(&point.timestamp, |known| known.timestamp);
            at.is_ok_and(|at| self.raw[at].value.to_bits() == point.value.to_bits())
        };
        points.iter().filter(|point| !has(point)).copied().collect()
    }

    /// Applies points that are not a request of the log, as [`Head::fold`] does.
    pub fn fold_import(&mut self, layout: &Layout, points: &mut Vec<Measure>) -> FoldOutcome {
        let applied = self.applied;
        let outcome = self.fold(layout, applied + 1, points);
        self.applied = applied;
        outcome
    }

    /// A point before the window such that the first bucket of each granularity has the stored rates.
    fn find_point_before(&mut self, layout: &Layout, rows: &[(Timespan, Rows)]) -> Option<Measure> {
        let first = *self.raw.first()?;
        let mut buckets = Vec::new();
        for (granularity, rows) in rows {
            let start = Timestamp(floor(first.timestamp.0, granularity.0));
            let last = start.0.saturating_add(granularity.0 - 1);
            let end = self.raw.partition_point(|point| point.timestamp.0 <= last);
            // A bucket that the window cuts is final.
            if start.0 >= self.window {
                let row = rows.starts.binary_search(&start).ok().map(|row| rows.row(row));
                buckets.push((*granularity, ImportedBucket { start, first: 0, end }, row));
            }
        }
        let gives = |head: &Head| {
            let mut all = buckets.iter();
            all.all(|(granularity, bucket, row)| {
                head.match_bucket(layout, *granularity, *bucket, row.as_deref()).is_some()
            })
        };
        if gives(self) {
            return None;
        }
        let rates = buckets.iter().filter_map(|(_, bucket, row)| Some((bucket, row.as_ref()?)));
        let rates: Vec<f64> =
            rates.flat_map(|(bucket, row)| first_rates(layout, &self.raw[..bucket.end], row)).collect();
        for rate in rates {
            for neighbour in neighbours(first.value - rate) {
                let timestamp = Timestamp(first.timestamp.0.saturating_sub(1).max(0));
                self.before = Some(Measure { timestamp, value: neighbour });
                if gives(self) {
                    return self.before;
                }
            }
        }
        None
    }

    fn import_grain(
        &mut self,
        layout: &Layout,
        granularity: Timespan,
        mut rows: Rows,
        finalised: &mut usize,
    ) -> GrainState {
        let step = granularity.0;
        // If the granularity does not divide the block, the window cuts a bucket; its first points are gone.
        let until = floor(self.window.saturating_add(step - 1), step);
        let mut grain = GrainState::new(granularity, until);
        let inside = rows.starts.partition_point(|start| start.0 < until);
        if let Some(last) = self.match_rows(layout, &mut grain, &rows, inside) {
            grain.final_until = last.0.saturating_add(step);
            grain.marks.forget(&[], grain.final_until);
        }
        let kept = rows.starts.partition_point(|start| start.0 < grain.final_until);
        *finalised += kept - inside;
        rows.truncate(kept);
        grain.open = Open::Rows(rows);
        if grain.is_full() {
            grain.seal(&layout.methods, &mut self.sealed);
        }
        grain
    }

    /// Finds the marks for each bucket inside the window with which its points give the stored row. The rows
    /// from `from` on are inside. Returns the last bucket without a match; ignores the newest bucket, as more
    /// points for it are pending.
    fn match_rows(
        &self,
        layout: &Layout,
        grain: &mut GrainState,
        rows: &Rows,
        from: usize,
    ) -> Option<Timestamp> {
        let step = grain.granularity.0;
        let (mut row, mut point) =
            (from, self.raw.partition_point(|point| point.timestamp.0 < grain.final_until));
        let mut unmatched = None;
        while point < self.raw.len() {
            let start = Timestamp(floor(self.raw[point].timestamp.0, step));
            let last = start.0.saturating_add(step - 1);
            let points = self.raw[point..].partition_point(|point| point.timestamp.0 <= last);
            while rows.starts.get(row).is_some_and(|stored| *stored < start) {
                unmatched = Some(rows.starts[row]);
                row += 1;
            }
            let stored = (rows.starts.get(row) == Some(&start)).then_some(row);
            let bucket = ImportedBucket { start, first: point, end: point + points };
            match self.match_bucket(
                layout,
                grain.granularity,
                bucket,
                stored.map(|row| rows.row(row)).as_deref(),
            ) {
                Some((cut, pass)) => {
                    grain.marks.cuts.extend(cut);
                    grain.marks.passes.extend(pass);
                }
                None if bucket.end == self.raw.len() => {}
                None => unmatched = Some(start),
            }
            row += usize::from(stored.is_some());
            point += points;
        }
        // After the newest point: the points are lost, or older than the rows.
        rows.starts[row..].last().copied().or(unmatched)
    }

    /// A cut and a pass with which the bucket's points give the stored values; neither if the bucket is not
    /// stored.
    fn match_bucket(
        &self,
        layout: &Layout,
        granularity: Timespan,
        bucket: ImportedBucket,
        stored: Option<&[f64]>,
    ) -> Option<(Option<Cut>, Option<Pass>)> {
        let ImportedBucket { start, first, end } = bucket;
        let before = if first > 0 { Some(self.raw[first - 1]) } else { self.before };
        let points = Points { raw: &self.raw[first..end], before };
        let mut buffers = Buffers::default();
        let mut gives = |cut: Option<Cut>, pass: Option<Pass>| {
            let mut grain = GrainState::new(granularity, start.0);
            grain.marks = Marks { cuts: cut.into_iter().collect(), passes: pass.into_iter().collect() };
            let lazy = grain.lazy_rows(points, &layout.methods, &mut buffers);
            match stored {
                None => lazy.is_empty(),
                Some(stored) => {
                    !lazy.is_empty() && lazy.row(0).iter().zip(stored).all(|(a, b)| is_same(*a, *b))
                }
            }
        };
        let cut = layout.has_rate.then(|| {
            let value = |wanted: &dyn Fn(Statistic) -> bool| {
                let is_wanted = |method: &AggregationMethod| method.rate && wanted(method.statistic);
                let column = layout.methods.iter().position(is_wanted)?;
                stored.map(|stored| stored[column]).filter(|value| !is_absent(*value))
            };
            let is_value = |statistic| !matches!(statistic, Statistic::Std | Statistic::Count);
            Cut {
                time: self.raw[first].timestamp.0,
                rate: value(&is_value),
                std: value(&|statistic| statistic == Statistic::Std),
            }
        });
        let cuts = [Some(None), cut.map(Some)].into_iter().flatten();
        // The number of points in the pass before the bucket affects a percentile's last digits.
        let offsets = percentile_offsets(&layout.methods, end - first, first as u64 + LEFT_POINTS_MAX);
        let pass = |dropped| layout.has_percentile.then_some(Pass { start: start.0, dropped, cut: false });
        let mut all = offsets.into_iter().flat_map(|offset| cuts.clone().map(move |cut| (cut, pass(offset))));
        all.find(|(cut, pass)| gives(*cut, *pass))
    }
}

/// The candidates for the first rate of a bucket, from each method that determines it.
fn first_rates(layout: &Layout, points: &[Measure], row: &[f64]) -> Vec<f64> {
    let others: f64 = points.windows(2).map(|pair| pair[1].value - pair[0].value).sum();
    let known = layout.methods.iter().zip(row).filter(|(method, value)| method.rate && !is_absent(**value));
    let rate = |(method, value): (&AggregationMethod, &f64)| match method.statistic {
        Statistic::Mean => Some(value * points.len() as f64 - others),
        Statistic::Sum => Some(value - others),
        Statistic::First | Statistic::Min | Statistic::Max => Some(*value),
        Statistic::Last | Statistic::Median | Statistic::Percentile(_) => {
            (points.len() == 1).then_some(*value)
        }
        Statistic::Std | Statistic::Count | Statistic::Increase | Statistic::RateReset => None,
    };
    known.filter_map(rate).collect()
}

/// A number and its nearest neighbours: sums are rounded.
fn neighbours(number: f64) -> impl Iterator<Item = f64> {
    const STEPS_MAX: usize = 8;
    let up = std::iter::successors(Some(number), |number| Some(number.next_up()));
    let down = std::iter::successors(Some(number.next_down()), |number| Some(number.next_down()));
    up.zip(down).take(STEPS_MAX).flat_map(|(up, down)| [up, down])
}

/// A bucket and the range of its raw points.
#[derive(Clone, Copy, Debug)]
struct ImportedBucket {
    start: Timestamp,
    first: usize,
    end: usize,
}

/// The buckets that have all required values.
fn rows_of(layout: &Layout, imported: &ImportedGrain, incomplete: &mut usize) -> Rows {
    assert_eq!(imported.columns.len(), layout.methods.len(), "a column for each method");
    let mut rows = Rows::new(layout.methods.len());
    for (row, &start) in imported.starts.iter().enumerate() {
        let values = || imported.columns.iter().map(|column| column[row]);
        let of_each = || layout.methods.iter().zip(values()).filter(|(method, _)| !may_lack(**method));
        if of_each().any(|(_, value)| value.is_none()) {
            // If all are missing, the bucket has expired: Gnocchi keeps methods that lack newer buckets for
            // longer.
            *incomplete += usize::from(of_each().any(|(_, value)| value.is_some()));
            continue;
        }
        rows.starts.push(start);
        for (column, value) in rows.columns.iter_mut().zip(values()) {
            column.push(value.unwrap_or_else(absent));
        }
    }
    rows
}

fn is_same(a: f64, b: f64) -> bool {
    if is_absent(a) || is_absent(b) {
        is_absent(a) && is_absent(b)
    } else {
        a == b || (a.is_nan() && b.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::{ArchivePolicy, ArchivePolicyItem};
    use proptest::prelude::*;

    use super::*;
    use crate::{block, head::SealedBlock};

    const SECOND: i64 = 1_000_000_000;

    /// A head and all blocks that it sealed.
    #[derive(Clone)]
    struct Stored {
        head: Head,
        blocks: Vec<SealedBlock>,
        applied: u64,
    }

    impl Stored {
        fn fold(&mut self, layout: &Layout, request: &[(i64, i32)]) {
            let point = |(time, value): &(i64, i32)| Measure {
                timestamp: Timestamp(*time * SECOND),
                value: f64::from(*value) / 8.0,
            };
            let mut points: Vec<Measure> = request.iter().map(point).collect();
            self.applied += 1;
            self.head.fold(layout, self.applied, &mut points);
            self.blocks.extend(self.head.take_sealed());
        }

        /// The bits of each method's value, by bucket.
        fn rows(&self, layout: &Layout, granularity: Timespan) -> BTreeMap<Timestamp, Vec<u64>> {
            let Some(grain) = self.head.grains.iter().find(|grain| grain.granularity == granularity) else {
                return BTreeMap::new();
            };
            let sealed = self.blocks.iter().filter(|block| block.granularity == granularity);
            let mut all: Vec<Rows> = sealed
                .map(|block| block::decode_rows(&block.bytes, &layout.methods).unwrap().unwrap())
                .collect();
            let Open::Rows(open) = &grain.open else { panic!("never stored") };
            all.push(open.clone());
            let points = Points { raw: &self.head.raw, before: self.head.before };
            all.push(grain.lazy_rows(points, &layout.methods, &mut Buffers::default()));
            let mut found = BTreeMap::new();
            for rows in all {
                for (row, start) in rows.starts.iter().enumerate() {
                    let values = rows.columns.iter().map(|column| column[row].to_bits()).collect();
                    assert_eq!(found.insert(*start, values), None, "{start:?} twice");
                }
            }
            found
        }

        /// Imports it; as a further import does, if `earlier` is an import already.
        fn imported_after(&self, layout: &Layout, earlier: Option<&Stored>) -> (Stored, ImportOutcome) {
            let from = self.head.raw.partition_point(|point| point.timestamp.0 < self.head.window);
            let points = &self.head.raw[from..];
            if let Some(earlier) = earlier.filter(|earlier| earlier.head.follows(layout, points)) {
                let mut stored = earlier.clone();
                let mut missing = stored.head.missing(points);
                stored.head.fold_import(layout, &mut missing);
                stored.blocks.extend(stored.head.take_sealed());
                return (stored, ImportOutcome::default());
            }
            let grain = |granularity| {
                let mut rows = self.rows(layout, granularity);
                let first = earlier.map(|earlier| earlier.head.import_from(granularity));
                rows.retain(|start, _| first.is_none_or(|first| *start >= first));
                let value = |bits: u64| Some(f64::from_bits(bits)).filter(|value| !is_absent(*value));
                let column = |column: usize| rows.values().map(|values| value(values[column])).collect();
                ImportedGrain {
                    granularity,
                    starts: rows.keys().copied().collect(),
                    columns: (0..layout.methods.len()).map(column).collect(),
                }
            };
            let grains: Vec<ImportedGrain> = layout.granularities().map(grain).collect();
            let (mut head, outcome) =
                Head::import(layout, earlier.map(|earlier| &earlier.head), points.to_vec(), &grains);
            let mut blocks = earlier.map_or_else(Vec::new, |earlier| earlier.blocks.clone());
            blocks.extend(head.take_sealed());
            (Stored { head, blocks, applied: 0 }, outcome)
        }
    }

    fn layout(methods: &[&str], back_window: u64) -> Layout {
        let item = |seconds| ArchivePolicyItem::new(Some(Timespan(seconds * SECOND)), None, None).unwrap();
        let methods = methods.iter().map(|name| name.parse().unwrap()).collect();
        let items = vec![item(1), item(10), item(60)];
        Layout::of(&ArchivePolicy::new("p".to_owned(), back_window, items, methods).unwrap())
    }

    fn requests() -> impl Strategy<Value = Vec<Vec<(i64, i32)>>> {
        let request = (0i64..40, prop::collection::vec((-30i64..90, -100..100), 1..20));
        prop::collection::vec(request, 1..30).prop_map(|requests| {
            let mut now = 1_000;
            let moved = |(step, points): (i64, Vec<(i64, i32)>)| {
                now += step;
                points.into_iter().map(|(offset, value)| (now + offset, value)).collect()
            };
            requests.into_iter().map(moved).collect()
        })
    }

    /// Compares the rows of a source and its import, also after both get the same requests; then to nine
    /// digits unless `is_exact`.
    fn check_alike(
        layout: &Layout,
        is_exact: bool,
        before: &[Vec<(i64, i32)>],
        after: &[Vec<(i64, i32)>],
    ) -> Result<ImportOutcome, TestCaseError> {
        let mut source = Stored { head: Head::new(), blocks: Vec::new(), applied: 0 };
        for request in before {
            source.fold(layout, request);
        }
        let (mut import, outcome) = source.imported_after(layout, None);
        prop_assert!(Head::decode(&import.head.encoded()).is_ok());
        // Final buckets ignore late points.
        let rounds = if outcome.finalised == 0 { after.len() } else { 0 };
        for round in 0..=rounds {
            for granularity in layout.granularities() {
                let (found, expected) = (import.rows(layout, granularity), source.rows(layout, granularity));
                if is_exact || round == 0 {
                    prop_assert_eq!(found, expected);
                    continue;
                }
                prop_assert_eq!(found.len(), expected.len());
                for ((found_at, found), (at, expected)) in found.iter().zip(&expected) {
                    prop_assert_eq!(found_at, at);
                    for (found, expected) in found.iter().zip(expected) {
                        let (found, expected) = (f64::from_bits(*found), f64::from_bits(*expected));
                        let near = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                        prop_assert!(near || is_same(found, expected), "{found} {expected}");
                    }
                }
            }
            if let Some(request) = after.get(round) {
                source.fold(layout, request);
                import.fold(layout, request);
            }
        }
        Ok(outcome)
    }

    /// A source that is imported after each of its requests, on top of the import before.
    fn check_further_imports(layout: &Layout, requests: &[Vec<(i64, i32)>]) -> Result<(), TestCaseError> {
        let mut source = Stored { head: Head::new(), blocks: Vec::new(), applied: 0 };
        let mut import: Option<Stored> = None;
        for request in requests {
            source.fold(layout, request);
            let (mut next, _) = source.imported_after(layout, import.as_ref());
            next.head = Head::decode(&next.head.encoded()).unwrap();
            let import = import.insert(next);
            // `rows` does not read packed rows.
            let mut shown = import.clone();
            for grain in &mut shown.head.grains {
                let rows = grain.take_rows(&layout.methods, &mut shown.blocks);
                grain.open = Open::Rows(rows);
            }
            for granularity in layout.granularities() {
                prop_assert_eq!(shown.rows(layout, granularity), source.rows(layout, granularity));
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn an_import_reads_and_goes_on_as_its_source(
            before in requests(), after in requests(), back_window in 0u64..3,
        ) {
            let layout = layout(&["mean", "sum", "count", "std", "last"], back_window);
            prop_assert_eq!(check_alike(&layout, true, &before, &after)?, ImportOutcome::default());
        }

        #[test]
        fn percentiles_read_and_go_on_as_in_the_source(
            before in requests(), after in requests(), back_window in 0u64..3,
        ) {
            let layout = layout(&["mean", "95pct", "7pct"], back_window);
            check_alike(&layout, false, &before, &after)?;
        }

        #[test]
        fn rates_read_and_go_on_as_in_the_source(
            before in requests(), after in requests(), back_window in 0u64..3,
        ) {
            let layout = layout(&["mean", "rate:mean", "rate:count", "rate:std"], back_window);
            check_alike(&layout, true, &before, &after)?;
        }

        #[test]
        fn further_imports_read_as_their_source(
            requests in requests(), back_window in 0u64..3, methods in prop::sample::select(vec![
                vec!["mean", "sum", "count", "std", "last"],
                vec!["mean", "95pct"],
                vec!["mean", "rate:mean", "rate:std"],
            ]),
        ) {
            check_further_imports(&layout(&methods, back_window), &requests)?;
        }
    }

    #[test]
    fn buckets_that_lack_a_value_are_left_out() {
        let layout = layout(&["mean", "std", "count"], 0);
        let second = Timespan(SECOND);
        let starts = [4, 5, 6, 7].map(|second| Timestamp(second * SECOND)).to_vec();
        let columns = vec![
            vec![None, Some(1.0), None, Some(3.0)],
            // In the order of the methods' codes.
            vec![Some(0.1), None, Some(2.0), Some(0.5)],
            vec![None, Some(1.0), Some(2.0), Some(2.0)],
        ];
        let grains = vec![ImportedGrain { granularity: second, starts: starts.clone(), columns }];
        let points = vec![Measure { timestamp: Timestamp(600 * SECOND), value: 4.0 }];
        let (head, outcome) = Head::import(&layout, None, points, &grains);
        assert_eq!(outcome, ImportOutcome { finalised: 0, incomplete: 1 });
        let stored = Stored { head, blocks: Vec::new(), applied: 0 };
        let kept: Vec<Timestamp> = stored.rows(&layout, second).into_keys().collect();
        assert_eq!(kept, [starts[1], starts[3], Timestamp(600 * SECOND)]);
    }

    #[test]
    fn rows_without_their_points_are_kept() {
        let layout = layout(&["mean"], 0);
        let minute = Timespan(60 * SECOND);
        let starts: Vec<Timestamp> = (1..=100).map(|bucket| Timestamp(60 * bucket * SECOND)).collect();
        for points in [vec![], vec![Measure { timestamp: starts[49], value: 4.0 }]] {
            let columns = vec![vec![Some(1.0); 100]];
            let grains = vec![ImportedGrain { granularity: minute, starts: starts.clone(), columns }];
            let (mut head, outcome) = Head::import(&layout, None, points, &grains);
            assert!(outcome.finalised > 50, "{outcome:?}");
            let blocks = head.take_sealed();
            let rows = Stored { head, blocks, applied: 0 }.rows(&layout, minute);
            assert!(rows.keys().eq(&starts));
        }
    }
}

//! Selects the series that match conditions, in the parts of the owners that the caller may see.
//!
//! A condition that an absent label does not match restricts the series to the posting lists of the matching pairs. Per
//! part, the series of the condition with the fewest are the candidates. The other conditions are tested on the
//! candidates: a condition with a single matching pair by the pair's posting list, others by the labels of the series.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use gnudi_promql::METRIC_NAME;

use super::{
    Condition, FoundSeries, Index, Sees, TooManySeries,
    part::{Part, Series},
    texts::{Texts, address},
};
use crate::labels::is_exported_as;

impl Index {
    /// The series that match all conditions, unordered.
    ///
    /// # Errors
    /// More than `series_max` series match.
    pub fn select(
        &self,
        conditions: &[Condition<'_>],
        sees: Sees<'_>,
        series_max: usize,
    ) -> Result<Vec<FoundSeries>, TooManySeries> {
        let query = Query::new(conditions, &self.texts);
        let mut found: Vec<(&Part, Vec<u32>)> = Vec::new();
        let mut count = 0;
        for part in self.seen(sees) {
            let numbers = query.numbers(part);
            count += numbers.len();
            if count > series_max {
                return Err(TooManySeries);
            }
            found.push((part, numbers));
        }
        let found = found.into_iter();
        let exported_name = query.exported_name.as_ref();
        let of_part = |(part, numbers): (&'_ Part, Vec<u32>)| {
            numbers.into_iter().map(|number| part.found(number, exported_name)).collect::<Vec<_>>()
        };
        Ok(found.flat_map(of_part).collect())
    }

    /// The label names of the series that match all conditions of any of the sets; of all series if `sets` is empty.
    pub fn label_names(&self, sets: &[Vec<Condition<'_>>], sees: Sees<'_>) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        if sets.is_empty() {
            for part in self.seen(sees) {
                let is_used = |pair: &u32| !part.pairs[*pair as usize].postings.is_empty();
                let used = part.names.iter().filter(|name| name.pairs.iter().any(is_used));
                names.extend(used.map(|name| name.text.clone()));
            }
        }
        self.for_each_match(sets, sees, |part, series| {
            for pair in &series.pairs {
                let (name, _) = part.pair(*pair);
                if !names.contains(name) {
                    names.insert(name.clone());
                }
            }
        });
        names
    }

    /// Like [`Index::label_names`], for the values of one label.
    pub fn label_values(
        &self,
        label: &str,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
    ) -> BTreeSet<Arc<str>> {
        let mut values = BTreeSet::new();
        let Some(label) = self.texts.find(label) else { return values };
        if sets.is_empty() {
            for part in self.seen(sees) {
                let Some(name) = part.find_name(label) else { continue };
                let pairs = part.names[name as usize].pairs.iter().map(|pair| &part.pairs[*pair as usize]);
                let used = pairs.filter(|pair| !pair.postings.is_empty());
                values.extend(used.map(|pair| pair.value.clone()));
            }
        }
        self.for_each_match(sets, sees, |part, series| {
            if let Some(value) = part.find_name(label).and_then(|name| value_of(part, series, name))
                && !values.contains(value)
            {
                values.insert(value.clone());
            }
        });
        values
    }

    /// Calls `found` for each series that matches all conditions of a set; more than once if it matches several sets.
    fn for_each_match(
        &self,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        mut found: impl FnMut(&Part, &Series),
    ) {
        for conditions in sets {
            let query = Query::new(conditions, &self.texts);
            for part in self.seen(sees) {
                for number in query.numbers(part) {
                    found(part, part.series(number));
                }
            }
        }
    }

    /// The parts of the owners that the caller may see, without empty ones.
    pub(super) fn seen(&self, sees: Sees<'_>) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| !part.is_empty() && sees(&part.owner))
    }
}

/// The value of a series' label, which is given by its number.
fn value_of<'p>(part: &'p Part, series: &Series, name: u32) -> Option<&'p Arc<str>> {
    let pairs = series.pairs.iter().map(|pair| &part.pairs[*pair as usize]);
    pairs.into_iter().find(|pair| pair.name == name).map(|pair| &pair.value)
}

/// Conditions, prepared once for all parts.
struct Query<'c> {
    tests: Vec<Test<'c>>,
    /// The name of a condition [`Condition::ExportedAs`]. If set, series that were written with their labels do not
    /// match.
    exported_name: Option<Arc<str>>,
    /// No series of any part can match.
    is_empty: bool,
}

/// A condition on one label.
struct Test<'c> {
    condition: &'c Condition<'c>,
    /// The interned label name; `None` if no series has the label.
    name: Option<&'c Arc<str>>,
    /// Whether a series without the label matches.
    matches_absent: bool,
    /// All interned values that match; `None` if they cannot be listed.
    values: Option<Vec<&'c Arc<str>>>,
    /// The common prefix of all values that match, possibly empty.
    prefix: String,
    /// Whether values match, by address: a cache of the slow tests.
    cache: RefCell<HashMap<usize, bool>>,
}

impl<'c> Query<'c> {
    fn new(conditions: &'c [Condition<'c>], texts: &'c Texts) -> Self {
        let tests: Vec<Test<'c>> = conditions.iter().map(|condition| Test::new(condition, texts)).collect();
        let exported_name = conditions.iter().find_map(|condition| match condition {
            Condition::ExportedAs(name) => Some((*name).into()),
            Condition::Matcher(_) => None,
        });
        let is_empty = tests.iter().any(|test| test.name.is_none() && !test.matches_absent);
        Query { tests, exported_name, is_empty }
    }

    /// The numbers of a part's series that match all conditions, ascending.
    fn numbers(&self, part: &Part) -> Vec<u32> {
        if self.is_empty {
            return Vec::new();
        }
        // Tests with the number of their label name. A test of a label that the part lacks passes or fails for all
        // series.
        let mut tests: Vec<(&Test<'c>, u32)> = Vec::with_capacity(self.tests.len());
        for test in &self.tests {
            match test.name.and_then(|name| part.find_name(name)) {
                Some(name) => tests.push((test, name)),
                None if test.matches_absent => {}
                None => return Vec::new(),
            }
        }
        let Some(candidates) = Candidates::find(part, &tests) else { return Vec::new() };
        let Candidates { numbers, passed, singles } = candidates;
        let others: Vec<&(&Test<'c>, u32)> = (0..)
            .zip(&tests)
            .filter(|(at, _)| Some(*at) != passed && !singles.iter().any(|(single, _)| single == at))
            .map(|(_, test)| test)
            .collect();
        let is_match = |number: &u32| {
            let series = part.series(*number);
            !(self.exported_name.is_some() && series.is_written)
                && singles.iter().all(|(_, pair)| part.pairs[*pair as usize].postings.contains(*number))
                && others.iter().all(|(test, name)| match value_of(part, series, *name) {
                    Some(value) => test.matches(value),
                    None => test.matches_absent,
                })
        };
        numbers.into_iter().filter(is_match).collect()
    }
}

/// The series of a part on which the tests are run.
struct Candidates {
    /// The numbers of the series, ascending.
    numbers: Vec<u32>,
    /// The index of the test that all candidates pass, if they were chosen by one.
    passed: Option<usize>,
    /// The indexes of other tests that exactly one pair passes, with the number of that pair.
    singles: Vec<(usize, u32)>,
}

impl Candidates {
    /// `None` if no series can pass all tests.
    fn find(part: &Part, tests: &[(&Test<'_>, u32)]) -> Option<Self> {
        let mut singles = Vec::new();
        let mut best: Option<(usize, Vec<u32>)> = None;
        let mut fewest = part.len();
        let mut try_pairs = |at: usize, pairs: Vec<u32>, fewest: &mut usize| {
            let count = pairs.iter().map(|pair| part.pairs[*pair as usize].postings.len()).sum();
            if let [single] = pairs[..] {
                singles.push((at, single));
            }
            if count <= *fewest {
                *fewest = count;
                best = Some((at, pairs));
            }
            count > 0
        };
        for (at, (test, name)) in tests.iter().enumerate() {
            let Some(values) = test.values.as_ref().filter(|_| !test.matches_absent) else { continue };
            let pairs = values.iter().filter_map(|value| part.find_pair(*name, value)).collect();
            if !try_pairs(at, pairs, &mut fewest) {
                return None;
            }
        }
        for (at, (test, name)) in tests.iter().enumerate() {
            let of_name = &part.names[*name as usize].pairs;
            // If the label has more values than there are candidates, testing the candidates is cheaper.
            if test.matches_absent || test.values.is_some() || of_name.len() > fewest {
                continue;
            }
            let value = |pair: &u32| &part.pairs[*pair as usize].value;
            let pairs = of_name.iter().copied().filter(|pair| test.matches(value(pair))).collect();
            if !try_pairs(at, pairs, &mut fewest) {
                return None;
            }
        }
        let mut numbers = Vec::with_capacity(fewest);
        match &best {
            Some((_, pairs)) => {
                for pair in pairs {
                    part.pairs[*pair as usize].postings.append_to(&mut numbers);
                }
                // There are no duplicates, since a series has one value of a label.
                if pairs.len() > 1 {
                    numbers.sort_unstable();
                }
            }
            None => numbers.extend(part.live().map(|(number, _)| number)),
        }
        let passed = best.map(|(at, _)| at);
        singles.retain(|(at, _)| Some(*at) != passed);
        Some(Candidates { numbers, passed, singles })
    }
}

impl<'c> Test<'c> {
    fn new(condition: &'c Condition<'c>, texts: &'c Texts) -> Self {
        let (name, matches_absent, values, prefix) = match condition {
            Condition::Matcher(matcher) => {
                (&*matcher.name, matcher.matches(""), matcher.values(), matcher.prefix())
            }
            Condition::ExportedAs(_) => (METRIC_NAME, false, None, String::new()),
        };
        let values = values.map(|values| values.iter().filter_map(|value| texts.find(value)).collect());
        Test { condition, name: texts.find(name), matches_absent, values, prefix, cache: RefCell::default() }
    }

    /// Whether a series with this interned value of the label matches.
    fn matches(&self, value: &Arc<str>) -> bool {
        match self.condition {
            Condition::Matcher(matcher) => match matcher.operator() {
                "=" | "!=" => matcher.matches(value),
                _ if !value.starts_with(&self.prefix) => false,
                _ => self.cached(value, || matcher.matches(value)),
            },
            Condition::ExportedAs(exported) => self.cached(value, || is_exported_as(value, exported)),
        }
    }

    fn cached(&self, value: &Arc<str>, test: impl FnOnce() -> bool) -> bool {
        *self.cache.borrow_mut().entry(address(value)).or_insert_with(test)
    }
}

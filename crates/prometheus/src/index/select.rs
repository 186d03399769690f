//! Finds series that fulfil conditions, within the parts of owners who are seen.
//!
//! Conditions that an absent label does not fulfil name pairs whose series are looked through: those of the condition with the fewest.
//! The other conditions are tested on these, by the series' own labels or by the numbers of a single pair.

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
    /// The series that fulfil all conditions, in no order.
    ///
    /// # Errors
    /// Where there are more than `series_max`.
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
        let asked = query.asked.as_ref();
        let of_part = |(part, numbers): (&'_ Part, Vec<u32>)| {
            numbers.into_iter().map(|number| part.found(number, asked)).collect::<Vec<_>>()
        };
        Ok(found.flat_map(of_part).collect())
    }

    /// The names of labels that the series have which fulfil all conditions of one of the sets; of all series without sets.
    pub fn label_names(&self, sets: &[Vec<Condition<'_>>], sees: Sees<'_>) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        if sets.is_empty() {
            for part in self.seen(sees) {
                let is_used = |pair: &u32| !part.pairs[*pair as usize].postings.is_empty();
                let used = part.names.iter().filter(|name| name.pairs.iter().any(is_used));
                names.extend(used.map(|name| name.text.clone()));
            }
        }
        self.each_found(sets, sees, |part, series| {
            for pair in &series.pairs {
                let (name, _) = part.pair(*pair);
                if !names.contains(name) {
                    names.insert(name.clone());
                }
            }
        });
        names
    }

    /// As [`Index::label_names`], the values of one label.
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
                let Some(name) = part.name(label) else { continue };
                let pairs = part.names[name as usize].pairs.iter().map(|pair| &part.pairs[*pair as usize]);
                let used = pairs.filter(|pair| !pair.postings.is_empty());
                values.extend(used.map(|pair| pair.value.clone()));
            }
        }
        self.each_found(sets, sees, |part, series| {
            if let Some(value) = part.name(label).and_then(|name| value_of(part, series, name))
                && !values.contains(value)
            {
                values.insert(value.clone());
            }
        });
        values
    }

    fn each_found(&self, sets: &[Vec<Condition<'_>>], sees: Sees<'_>, mut found: impl FnMut(&Part, &Series)) {
        for conditions in sets {
            let query = Query::new(conditions, &self.texts);
            for part in self.seen(sees) {
                for number in query.numbers(part) {
                    found(part, part.series(number));
                }
            }
        }
    }

    pub(super) fn seen(&self, sees: Sees<'_>) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| !part.is_empty() && sees(&part.owner))
    }
}

/// The value that a series has of a label.
fn value_of<'p>(part: &'p Part, series: &Series, name: u32) -> Option<&'p Arc<str>> {
    let pairs = series.pairs.iter().map(|pair| &part.pairs[*pair as usize]);
    pairs.into_iter().find(|pair| pair.name == name).map(|pair| &pair.value)
}

/// Conditions, looked at once for all parts.
struct Query<'c> {
    tests: Vec<Test<'c>>,
    /// The exporters' name by which only series are found that were not written with their labels.
    asked: Option<Arc<str>>,
    /// A condition can't be fulfilled.
    is_empty: bool,
}

/// A condition on one label.
struct Test<'c> {
    condition: &'c Condition<'c>,
    /// `None` where no series has the label.
    name: Option<&'c Arc<str>>,
    /// Whether it is fulfilled where the label is absent.
    takes_absent: bool,
    /// All values that fulfil it, as far as there are series with them; `None` where they must be looked for.
    values: Option<Vec<&'c Arc<str>>>,
    /// What values that fulfil it begin with.
    prefix: String,
    /// Which values fulfil it, by address, as far as was asked.
    known: RefCell<HashMap<usize, bool>>,
}

impl<'c> Query<'c> {
    fn new(conditions: &'c [Condition<'c>], texts: &'c Texts) -> Self {
        let tests: Vec<Test<'c>> = conditions.iter().map(|condition| Test::new(condition, texts)).collect();
        let asked = conditions.iter().find_map(|condition| match condition {
            Condition::ExportedAs(asked) => Some((*asked).into()),
            Condition::Matcher(_) => None,
        });
        let is_empty = tests.iter().any(|test| test.name.is_none() && !test.takes_absent);
        Query { tests, asked, is_empty }
    }

    /// The numbers of a part's series that fulfil all conditions, ascending.
    fn numbers(&self, part: &Part) -> Vec<u32> {
        if self.is_empty {
            return Vec::new();
        }
        // Of each test the name's number; those of absent names that are fulfilled need no look.
        let mut tests: Vec<(&Test<'c>, u32)> = Vec::with_capacity(self.tests.len());
        for test in &self.tests {
            match test.name.and_then(|name| part.name(name)) {
                Some(name) => tests.push((test, name)),
                None if test.takes_absent => {}
                None => return Vec::new(),
            }
        }
        let Some(found) = Choice::make(part, &tests) else { return Vec::new() };
        let Choice { numbers, chosen, singles } = found;
        let others: Vec<&(&Test<'c>, u32)> = (0..)
            .zip(&tests)
            .filter(|(at, _)| Some(*at) != chosen && !singles.iter().any(|(single, _)| single == at))
            .map(|(_, test)| test)
            .collect();
        let is_wanted = |number: &u32| {
            let series = part.series(*number);
            !(self.asked.is_some() && series.is_written)
                && singles.iter().all(|(_, pair)| part.pairs[*pair as usize].postings.contains(*number))
                && others.iter().all(|(test, name)| match value_of(part, series, *name) {
                    Some(value) => test.takes(value),
                    None => test.takes_absent,
                })
        };
        numbers.into_iter().filter(is_wanted).collect()
    }
}

/// Which series of a part are looked through.
struct Choice {
    /// Ascending.
    numbers: Vec<u32>,
    /// The test that they all pass.
    chosen: Option<usize>,
    /// Tests that the series of a single pair pass.
    singles: Vec<(usize, u32)>,
}

impl Choice {
    /// `None` where no series passes all tests.
    fn make(part: &Part, tests: &[(&Test<'_>, u32)]) -> Option<Self> {
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
            let Some(values) = test.values.as_ref().filter(|_| !test.takes_absent) else { continue };
            let pairs = values.iter().filter_map(|value| part.find_pair(*name, value)).collect();
            if !try_pairs(at, pairs, &mut fewest) {
                return None;
            }
        }
        for (at, (test, name)) in tests.iter().enumerate() {
            let candidates = &part.names[*name as usize].pairs;
            // Looking at values that are more than the series is the longer way.
            if test.takes_absent || test.values.is_some() || candidates.len() > fewest {
                continue;
            }
            let value = |pair: &u32| &part.pairs[*pair as usize].value;
            let pairs = candidates.iter().copied().filter(|pair| test.takes(value(pair))).collect();
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
                // No series has two values of a label.
                if pairs.len() > 1 {
                    numbers.sort_unstable();
                }
            }
            None => numbers.extend(part.live().map(|(number, _)| number)),
        }
        let chosen = best.map(|(at, _)| at);
        singles.retain(|(at, _)| Some(*at) != chosen);
        Some(Choice { numbers, chosen, singles })
    }
}

impl<'c> Test<'c> {
    fn new(condition: &'c Condition<'c>, texts: &'c Texts) -> Self {
        let (name, takes_absent, values, prefix) = match condition {
            Condition::Matcher(matcher) => {
                (&*matcher.name, matcher.matches(""), matcher.values(), matcher.prefix())
            }
            Condition::ExportedAs(_) => (METRIC_NAME, false, None, String::new()),
        };
        let values = values.map(|values| values.iter().filter_map(|value| texts.find(value)).collect());
        Test { condition, name: texts.find(name), takes_absent, values, prefix, known: RefCell::default() }
    }

    fn takes(&self, value: &Arc<str>) -> bool {
        match self.condition {
            Condition::Matcher(matcher) => match matcher.operator() {
                "=" | "!=" => matcher.matches(value),
                _ if !value.starts_with(&self.prefix) => false,
                _ => self.remembered(value, || matcher.matches(value)),
            },
            Condition::ExportedAs(exported) => self.remembered(value, || is_exported_as(value, exported)),
        }
    }

    fn remembered(&self, value: &Arc<str>, ask: impl FnOnce() -> bool) -> bool {
        *self.known.borrow_mut().entry(address(value)).or_insert_with(ask)
    }
}

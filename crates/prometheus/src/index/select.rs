//! Selects the series that match conditions, in the parts of the owners that the caller may see.
//!
//! A condition that an absent label does not match restricts the series to the posting lists of the matching pairs. Per
//! part, the series of the condition with the fewest are the candidates. The other conditions are tested on the
//! candidates: a condition with a single matching pair by the pair's posting list, others by the labels of the series.
//!
//! Regular expressions can be tested before a search, without the index: [`Index::work`] shows whether that is worthwhile,
//! and [`Index::values_to_test`] has the values.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use gnudi_promql::{METRIC_NAME, Matcher};

use super::{
    Condition, FoundSeries, Index, LabelValues, SearchError, Sees, Stops,
    part::{Part, Series},
    poll,
    texts::{Texts, address},
};
use crate::labels::is_exported_as;

/// A test counts once more for every so many states of its regular expression: most expressions take the same time whatever
/// their size, but the worst take time in proportion to it.
const STATES_PER_TEST: usize = 64;

/// A test of a regular expression counts once more for every so many bytes of the value.
const VALUE_BYTES_PER_TEST: usize = 1_024;

impl Index {
    /// About how many tests of a condition a search makes, or how many values it lists if `sets` is empty. Beyond `max`
    /// it stops counting.
    pub fn work(&self, sets: &[Vec<Condition<'_>>], sees: Sees<'_>, max: usize) -> usize {
        if sets.is_empty() {
            return self.seen(sees).map(|part| part.pairs.len()).sum();
        }
        let mut work = 0_usize;
        for conditions in sets {
            let query = Query::new(conditions, &self.texts);
            for part in self.seen(sees) {
                work = work.saturating_add(query.work(part));
                if work > max {
                    return work;
                }
            }
        }
        work
    }

    /// The values on which a search tests regular expressions, by label.
    ///
    /// # Errors
    /// `stops` was true.
    pub fn values_to_test(
        &self,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        stops: Stops<'_>,
    ) -> Result<HashMap<String, LabelValues>, SearchError> {
        let mut values = HashMap::new();
        for conditions in sets {
            let query = Query::new(conditions, &self.texts);
            for part in self.seen(sees) {
                query.add_values(part, &mut values, stops)?;
            }
        }
        Ok(values)
    }

    /// The series that match all conditions, unordered.
    ///
    /// # Errors
    /// More than `series_max` series match, or `stops` was true.
    pub fn select(
        &self,
        conditions: &[Condition<'_>],
        sees: Sees<'_>,
        series_max: usize,
        stops: Stops<'_>,
    ) -> Result<Vec<FoundSeries>, SearchError> {
        let query = Query::new(conditions, &self.texts);
        let mut found: Vec<(&Part, Vec<u32>)> = Vec::new();
        let mut count = 0;
        for part in self.seen(sees) {
            let numbers = query.numbers(part, stops)?;
            count += numbers.len();
            if count > series_max {
                return Err(SearchError::TooManySeries);
            }
            found.push((part, numbers));
        }
        let exported_name = query.exported_name.as_ref();
        let mut series = Vec::with_capacity(count);
        for (part, numbers) in found {
            series.extend(numbers.into_iter().map(|number| part.found(number, exported_name)));
        }
        Ok(series)
    }

    /// The label names of the series that match all conditions of any of the sets; of all series if `sets` is empty.
    ///
    /// # Errors
    /// `stops` was true.
    pub fn label_names(
        &self,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        stops: Stops<'_>,
    ) -> Result<BTreeSet<Arc<str>>, SearchError> {
        let mut names = BTreeSet::new();
        if sets.is_empty() {
            for part in self.seen(sees) {
                let is_used = |pair: &u32| !part.pairs[*pair as usize].postings.is_empty();
                let used = part.names.iter().filter(|name| name.pairs.iter().any(is_used));
                names.extend(used.map(|name| name.text.clone()));
            }
        }
        self.for_each_match(sets, sees, stops, |part, series| {
            series.pairs.iter().for_each(|pair| add(&mut names, Some(part.pair(*pair).0)));
        })?;
        Ok(names)
    }

    /// Like [`Index::label_names`], for the values of one label.
    ///
    /// # Errors
    /// `stops` was true.
    pub fn label_values(
        &self,
        label: &str,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        stops: Stops<'_>,
    ) -> Result<BTreeSet<Arc<str>>, SearchError> {
        let mut values = BTreeSet::new();
        let Some(label) = self.texts.find(label) else { return Ok(values) };
        if sets.is_empty() {
            for part in self.seen(sees) {
                let Some(name) = part.find_name(label) else { continue };
                let pairs = part.names[name as usize].pairs.iter().map(|pair| &part.pairs[*pair as usize]);
                let used = pairs.filter(|pair| !pair.postings.is_empty());
                values.extend(used.map(|pair| pair.value.clone()));
            }
        }
        self.for_each_match(sets, sees, stops, |part, series| {
            add(&mut values, part.find_name(label).and_then(|name| value_of(part, series, name)));
        })?;
        Ok(values)
    }

    /// Like [`Index::label_values`], grouped by the values of another label, `by`. A value of `by` is listed even if no series
    /// with it has the label.
    ///
    /// # Errors
    /// `stops` was true.
    pub fn label_values_by(
        &self,
        by: &str,
        label: &str,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        stops: Stops<'_>,
    ) -> Result<BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, SearchError> {
        let mut found: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let Some(by) = self.texts.find(by) else { return Ok(found) };
        let label = self.texts.find(label);
        self.for_each_match(sets, sees, stops, |part, series| {
            let Some(key) = part.find_name(by).and_then(|name| value_of(part, series, name)) else { return };
            let values = found.entry(key.clone()).or_default();
            let name = label.and_then(|label| part.find_name(label));
            add(values, name.and_then(|name| value_of(part, series, name)));
        })?;
        Ok(found)
    }

    /// Calls `found` for each series that matches all conditions of a set; more than once if it matches several sets.
    fn for_each_match(
        &self,
        sets: &[Vec<Condition<'_>>],
        sees: Sees<'_>,
        stops: Stops<'_>,
        mut found: impl FnMut(&Part, &Series),
    ) -> Result<(), SearchError> {
        for conditions in sets {
            let query = Query::new(conditions, &self.texts);
            for part in self.seen(sees) {
                for number in query.numbers(part, stops)? {
                    found(part, part.series(number));
                }
            }
        }
        Ok(())
    }

    /// The parts of the owners that the caller may see, without empty ones.
    pub(super) fn seen(&self, sees: Sees<'_>) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| !part.is_empty() && sees(&part.owner))
    }
}

/// Adds a text, of which there may be many copies: it is cloned once.
fn add(texts: &mut BTreeSet<Arc<str>>, text: Option<&Arc<str>>) {
    if let Some(text) = text
        && !texts.contains(text)
    {
        texts.insert(text.clone());
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
    prefix: &'c str,
    /// Whether values match, by address: a cache of the slow tests.
    cache: RefCell<HashMap<usize, bool>>,
    /// The cost of one test, in tests of a short regular expression.
    weight: usize,
}

impl<'c> Query<'c> {
    fn new(conditions: &'c [Condition<'c>], texts: &'c Texts) -> Self {
        let tests: Vec<Test<'c>> = conditions.iter().map(|condition| Test::new(condition, texts)).collect();
        let exported_name = conditions.iter().find_map(Condition::exported_name).map(Into::into);
        let is_empty = tests.iter().any(|test| test.name.is_none() && !test.matches_absent);
        Query { tests, exported_name, is_empty }
    }

    /// The tests with the number of their label name in a part; `None` if no series of the part can match.
    fn tests_of(&self, part: &Part) -> Option<Vec<(&Test<'c>, u32)>> {
        if self.is_empty {
            return None;
        }
        // A test of a label that the part lacks passes or fails for all series.
        let mut tests: Vec<(&Test<'c>, u32)> = Vec::with_capacity(self.tests.len());
        for test in &self.tests {
            match test.name.and_then(|name| part.find_name(name)) {
                Some(name) => tests.push((test, name)),
                None if test.matches_absent => {}
                None => return None,
            }
        }
        Some(tests)
    }

    /// About how many tests a search of a part makes.
    fn work(&self, part: &Part) -> usize {
        let Some(tests) = self.tests_of(part) else { return 0 };
        let Some(Narrowed { fewest, .. }) = Narrowed::by_lists(part, &tests) else { return 0 };
        let of_test = |(test, name): &(&Test<'c>, u32)| {
            let of_name = &part.names[*name as usize];
            let parts = test.expression().map_or(1, |_| 1 + of_name.longest / VALUE_BYTES_PER_TEST);
            of_name.pairs.len().min(fewest).saturating_mul(test.weight).saturating_mul(parts)
        };
        tests.iter().map(of_test).fold(fewest, usize::saturating_add)
    }

    /// Adds the values of a part on which a search tests regular expressions.
    fn add_values(
        &self,
        part: &Part,
        values: &mut HashMap<String, LabelValues>,
        stops: Stops<'_>,
    ) -> Result<(), SearchError> {
        let Some(tests) = self.tests_of(part) else { return Ok(()) };
        let Some(narrowed) = Narrowed::by_lists(part, &tests) else { return Ok(()) };
        let expressions = tests.iter().filter(|(test, _)| test.expression().is_some());
        let names: BTreeSet<u32> = expressions.map(|(_, name)| *name).collect();
        for name in names {
            let of_name = &part.names[name as usize];
            let values = values.entry(of_name.text.to_string()).or_default();
            if of_name.pairs.len() <= narrowed.fewest {
                for pair in &of_name.pairs {
                    poll(stops)?;
                    values.add(&part.pairs[*pair as usize].value);
                }
                continue;
            }
            for number in narrowed.numbers(part) {
                poll(stops)?;
                if let Some(value) = value_of(part, part.series(number), name) {
                    values.add(value);
                }
            }
        }
        Ok(())
    }

    /// The numbers of a part's series that match all conditions, ascending.
    fn numbers(&self, part: &Part, stops: Stops<'_>) -> Result<Vec<u32>, SearchError> {
        let Some(tests) = self.tests_of(part) else { return Ok(Vec::new()) };
        let Some(narrowed) = Narrowed::find(part, &tests, stops)? else { return Ok(Vec::new()) };
        let mut numbers = narrowed.numbers(part);
        let passed = narrowed.best.map(|(at, _)| at);
        let mut singles = narrowed.singles;
        singles.retain(|(at, _)| Some(*at) != passed);
        let others: Vec<&(&Test<'c>, u32)> = (0..)
            .zip(&tests)
            .filter(|(at, _)| Some(*at) != passed && !singles.iter().any(|(single, _)| single == at))
            .map(|(_, test)| test)
            .collect();
        let is_match = |number: u32| {
            let series = part.series(number);
            !(self.exported_name.is_some() && series.is_written)
                && singles.iter().all(|(_, pair)| part.pairs[*pair as usize].postings.contains(number))
                && others.iter().all(|(test, name)| match value_of(part, series, *name) {
                    Some(value) => test.matches_again(value),
                    None => test.matches_absent,
                })
        };
        let mut stopped = Ok(());
        numbers.retain(|number| {
            stopped = stopped.and_then(|()| poll(stops));
            stopped.is_ok() && is_match(*number)
        });
        stopped.map(|()| numbers)
    }
}

/// The series of a part that can pass the tests, as far as posting lists restrict them.
struct Narrowed {
    /// The index of the test that the fewest series pass, and the pairs that pass it.
    best: Option<(usize, Vec<u32>)>,
    /// The number of series that pass that test; of all series if there is none.
    fewest: usize,
    /// The indexes of tests that exactly one pair passes, with the number of that pair.
    singles: Vec<(usize, u32)>,
}

impl Narrowed {
    /// Restricts by the tests whose values can be listed. `None` if no series can pass all tests.
    fn by_lists(part: &Part, tests: &[(&Test<'_>, u32)]) -> Option<Self> {
        let mut narrowed = Narrowed { best: None, fewest: part.len(), singles: Vec::new() };
        for (at, (test, name)) in tests.iter().enumerate() {
            let Some(values) = test.values.as_ref().filter(|_| !test.matches_absent) else { continue };
            let pairs = values.iter().filter_map(|value| part.find_pair(*name, value)).collect();
            if !narrowed.narrow(part, at, pairs) {
                return None;
            }
        }
        Some(narrowed)
    }

    /// Restricts by all tests for which that is worthwhile. `None` if no series can pass all tests.
    fn find(part: &Part, tests: &[(&Test<'_>, u32)], stops: Stops<'_>) -> Result<Option<Self>, SearchError> {
        let Some(mut narrowed) = Self::by_lists(part, tests) else { return Ok(None) };
        for (at, (test, name)) in tests.iter().enumerate() {
            let of_name = &part.names[*name as usize].pairs;
            // If the label has more values than there are candidates, testing the candidates is cheaper.
            if test.matches_absent || test.values.is_some() || of_name.len() > narrowed.fewest {
                continue;
            }
            let mut pairs = Vec::new();
            for pair in of_name {
                poll(stops)?;
                if test.matches(&part.pairs[*pair as usize].value) {
                    pairs.push(*pair);
                }
            }
            if !narrowed.narrow(part, at, pairs) {
                return Ok(None);
            }
        }
        Ok(Some(narrowed))
    }

    /// Adds a test with the pairs that pass it. Returns false if no series passes.
    fn narrow(&mut self, part: &Part, at: usize, pairs: Vec<u32>) -> bool {
        let count: usize = pairs.iter().map(|pair| part.pairs[*pair as usize].postings.len()).sum();
        if let [single] = pairs[..] {
            self.singles.push((at, single));
        }
        if count <= self.fewest {
            self.fewest = count;
            self.best = Some((at, pairs));
        }
        count > 0
    }

    /// The numbers of the series that pass the best test, ascending; of all without one.
    fn numbers(&self, part: &Part) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(self.fewest);
        match &self.best {
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
        numbers
    }
}

impl<'c> Test<'c> {
    fn new(condition: &'c Condition<'c>, texts: &'c Texts) -> Self {
        let (name, matches_absent, values, prefix, states) = match condition {
            Condition::Matcher(matcher) | Condition::Tested(matcher, _) => {
                (&*matcher.name, matcher.matches(""), matcher.values(), matcher.prefix(), matcher.states())
            }
            Condition::ExportedAs(_) => (METRIC_NAME, false, None, "", 0),
        };
        let values = values.map(|values| values.iter().filter_map(|value| texts.find(value)).collect());
        let (name, weight) = (texts.find(name), 1 + states / STATES_PER_TEST);
        Test { condition, name, matches_absent, values, prefix, cache: RefCell::default(), weight }
    }

    /// The matcher, if it has a regular expression.
    fn expression(&self) -> Option<&'c Matcher> {
        self.condition.expression()
    }

    /// Whether a series with this interned value of the label matches.
    fn matches(&self, value: &Arc<str>) -> bool {
        match self.condition {
            Condition::Matcher(matcher) => value.starts_with(self.prefix) && matcher.matches(value),
            Condition::Tested(matcher, tested) => {
                // A value that was added after the tests. If it is too long, it does not match.
                let test = || !matcher.takes_long(value) && matcher.matches(value);
                tested.get(value).unwrap_or_else(test)
            }
            Condition::ExportedAs(exported) => is_exported_as(value, exported),
        }
    }

    /// [`Test::matches`], for the values of one series after another: slow tests are made once for each value.
    fn matches_again(&self, value: &Arc<str>) -> bool {
        let known = match self.condition {
            Condition::Matcher(matcher) if matches!(matcher.operator(), "=" | "!=") => {
                Some(matcher.matches(value))
            }
            Condition::Matcher(_) if !value.starts_with(self.prefix) => Some(false),
            Condition::Tested(_, tested) => tested.get(value),
            Condition::Matcher(_) | Condition::ExportedAs(_) => None,
        };
        known.unwrap_or_else(|| {
            *self.cache.borrow_mut().entry(address(value)).or_insert_with(|| self.matches(value))
        })
    }
}

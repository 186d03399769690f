//! Searches of the index: short ones at once, long ones off the request threads.
//!
//! A long search first collects the values on which it tests regular expressions, tests them while the index is
//! unlocked, and then searches with the results. So a long test blocks neither changes nor other searches.

use std::{collections::HashMap, sync::Arc};

use gnudi_indexer::MetricScope;
use gnudi_prometheus::{
    index::{Condition, Index, Owner, SearchError, Sees, Stops, Tested},
    labels::CEILOMETER_PREFIX,
};
use gnudi_promql::{METRIC_NAME, Matcher};

use super::{Catalogue, CatalogueError, Shared};
use crate::long_work;

/// The maximum work of a short search, see [`Index::work`]: a few milliseconds. Longer searches leave the request threads.
const SHORT_WORK_MAX: usize = 5_000;

/// What is searched for.
pub(super) struct Search {
    pub sets: Vec<Vec<Matcher>>,
    /// Whose series; `None` for all.
    pub seen: Option<MetricScope>,
    pub ceilometer_names: bool,
    pub series_max: usize,
}

/// A search and the locked index, as [`Index`]'s methods take them.
pub(super) struct View<'a> {
    pub index: &'a Index,
    pub sets: &'a [Vec<Condition<'a>>],
    pub sees: Sees<'a>,
    pub stops: Stops<'a>,
}

impl Catalogue {
    /// Runs a search on the index with all changes logged before.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        search: Search,
        run: impl FnOnce(View<'_>) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<T, CatalogueError> {
        self.follow().await?;
        let series_max = search.series_max;
        let found = if search.is_short(&self.shared) {
            search.at_once(&self.shared, run)
        } else {
            let shared = self.shared.clone();
            let work = move |stops: Stops<'_>| search.at_length(&shared, stops, run);
            long_work::run(&self.shared.engine, work).await.unwrap_or(Err(SearchError::Stopped))
        };
        found.map_err(|error| match error {
            SearchError::TooManySeries => CatalogueError::TooManySeries(series_max),
            SearchError::TooLong => CatalogueError::TooLong,
            SearchError::Stopped => CatalogueError::TimedOut,
        })
    }
}

impl Search {
    fn is_short(&self, shared: &Shared) -> bool {
        let sees = |owner: &Owner| self.sees(owner);
        shared.index().work(&self.conditions(), &sees, SHORT_WORK_MAX) <= SHORT_WORK_MAX
    }

    fn at_once<T>(&self, shared: &Shared, run: impl FnOnce(View<'_>) -> T) -> T {
        let sees = |owner: &Owner| self.sees(owner);
        run(View { index: &shared.index(), sets: &self.conditions(), sees: &sees, stops: &|| false })
    }

    fn at_length<T>(
        &self,
        shared: &Shared,
        stops: Stops<'_>,
        run: impl FnOnce(View<'_>) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        let sees = |owner: &Owner| self.sees(owner);
        let values = shared.index().values_to_test(&self.conditions(), &sees, stops)?;
        let values: HashMap<_, _> =
            values.into_iter().map(|(label, values)| (label, Arc::new(values))).collect();
        let mut tested: HashMap<*const Matcher, Tested> = HashMap::new();
        for matcher in self.sets.iter().flatten() {
            let has_expression = Condition::Matcher(matcher).expression().is_some();
            if let Some(values) = values.get(&matcher.name).filter(|_| has_expression) {
                tested.insert(matcher, Tested::new(matcher, values.clone(), stops)?);
            }
        }
        let mut sets = self.conditions();
        for condition in sets.iter_mut().flatten() {
            if let Condition::Matcher(matcher) = *condition
                && let Some(tested) = tested.get(&std::ptr::from_ref(matcher))
            {
                *condition = Condition::Tested(matcher, tested);
            }
        }
        run(View { index: &shared.index(), sets: &sets, sees: &sees, stops })
    }

    /// The conditions of each set: its matchers, or the same with another name.
    fn conditions(&self) -> Vec<Vec<Condition<'_>>> {
        self.sets.iter().flat_map(|matchers| self.conditions_of(matchers)).collect()
    }

    fn conditions_of<'m>(&self, matchers: &'m [Matcher]) -> Vec<Vec<Condition<'m>>> {
        let plain: Vec<_> = matchers.iter().map(Condition::Matcher).collect();
        let is_exported = |matcher: &Matcher| {
            matcher.name == METRIC_NAME
                && matcher.operator() == "="
                && matcher.value.starts_with(CEILOMETER_PREFIX)
        };
        let exported = matchers.iter().position(|matcher| self.ceilometer_names && is_exported(matcher));
        let Some(exported) = exported else { return vec![plain] };
        let mut renamed = plain.clone();
        renamed[exported] = Condition::ExportedAs(&matchers[exported].value);
        vec![plain, renamed]
    }

    fn sees(&self, owner: &Owner) -> bool {
        let Owner { creator, project, resource_creator } = owner;
        let includes =
            |scope: &MetricScope| scope.includes(creator, project.as_deref(), resource_creator.as_deref());
        self.seen.as_ref().is_none_or(includes)
    }
}

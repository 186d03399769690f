//! The series that operations refer to: metrics with an aggregation, and their place in the response.

use std::{collections::HashMap, sync::Arc};

use gnudi_engine::{CrossMeasuresQuery, CrossReference};
use gnudi_model::{ArchivePolicy, Metric, Resource, Text, python::fnmatch::Pattern};
use gnudi_series::{
    cross::CrossMeasures,
    operations::{MetricName, Operation},
};
use parking_lot::Mutex;

use super::Arguments;
use crate::routes::prelude::*;

/// A metric and an aggregation.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub metric: Arc<Metric>,
    /// The metric's resource, if it was found through it.
    pub resource: Option<Arc<Resource>>,
    /// Its name in the operations.
    pub name: MetricName,
}

impl Reference {
    /// The path of keys to its points in the response.
    pub fn path(&self) -> Vec<String> {
        let metric = match &self.resource {
            None => return vec![self.metric.id.to_string(), self.name.aggregation.clone()],
            Some(_) => self.metric.name.as_deref().unwrap_or_default().to_owned(),
        };
        let resource = self.resource.iter().map(|resource| resource.id.to_string());
        resource.chain([metric, self.name.aggregation.clone()]).collect()
    }

    /// Its name in error texts.
    fn shown_name(&self) -> String {
        match (&self.resource, &self.metric.name) {
            (Some(_), Some(name)) => name.to_string(),
            _ => self.metric.id.to_string(),
        }
    }
}

/// The maximum number of names with wildcards: each is matched against each metric.
const PATTERNS_MAX: usize = 100;
/// The maximum length of a pattern. Names of metrics have at most 255 characters.
const PATTERN_BYTES_MAX: usize = 4_096;

/// Up to this many names are passed to the index; beyond, it returns all metrics.
const LOOKED_FOR_MAX: usize = 16;

/// How many names of metrics are kept with the patterns that match them; a full table is cleared.
const MATCHED_MAX: usize = 10_000;

/// The names in operations, for matching with the metrics of many resources.
#[derive(Debug)]
pub(super) struct Names<'n> {
    all: Vec<&'n MetricName>,
    /// The indexes in `all` of names without wildcards.
    exact: HashMap<&'n str, Vec<usize>>,
    /// Names with wildcards, with their index in `all`.
    patterns: Vec<(usize, Pattern)>,
    /// The indexes in `all` of the patterns that match a metric's name: many resources have metrics of the same
    /// names.
    matched: Mutex<HashMap<String, Arc<[usize]>>>,
}

impl<'n> Names<'n> {
    /// # Errors
    /// 400 beyond [`PATTERNS_MAX`] and [`PATTERN_BYTES_MAX`].
    pub fn of(operations: &'n Operation) -> Result<Self> {
        let mut names = Names {
            all: operations.metric_names(),
            exact: HashMap::new(),
            patterns: Vec::new(),
            matched: Mutex::default(),
        };
        for (index, name) in names.all.iter().enumerate() {
            if !name.name.contains(['*', '?', '[']) {
                names.exact.entry(&name.name).or_default().push(index);
                continue;
            }
            if name.name.len() > PATTERN_BYTES_MAX {
                return Err(too_large(format!("a name with wildcards may have {PATTERN_BYTES_MAX} bytes")));
            }
            names.patterns.push((index, Pattern::new(&name.name)));
        }
        if names.patterns.len() > PATTERNS_MAX {
            return Err(too_large(format!("there may be {PATTERNS_MAX} names with wildcards")));
        }
        Ok(names)
    }

    /// The names to query the index for; `None` if there are wildcards or too many names.
    pub fn to_look_for(&self) -> Option<Vec<String>> {
        let are_exact = self.patterns.is_empty() && self.exact.len() <= LOOKED_FOR_MAX;
        are_exact.then(|| self.exact.keys().copied().map(str::to_owned).collect())
    }

    /// The metrics of a resource that match, in order of the names.
    fn references<'a>(&'a self, resource: &'a Arc<Resource>) -> impl Iterator<Item = Reference> + 'a {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (place, metric) in resource.metrics.iter().enumerate() {
            let Some(name) = metric.name.as_deref() else { continue };
            let exact = self.exact.get(name).into_iter().flatten().copied();
            let matching = self.matching(name);
            found.extend(exact.chain(matching.iter().copied()).map(|index| (index, place)));
        }
        found.sort_unstable();
        found.into_iter().map(|(index, place)| Reference {
            metric: resource.metrics[place].clone(),
            resource: Some(resource.clone()),
            name: self.all[index].clone(),
        })
    }

    /// The indexes in `all` of the patterns that match a metric's name.
    fn matching(&self, name: &str) -> Arc<[usize]> {
        if self.patterns.is_empty() {
            return Arc::default();
        }
        let mut matched = self.matched.lock();
        if let Some(known) = matched.get(name) {
            return known.clone();
        }
        let matching = self.patterns.iter().filter(|(_, pattern)| pattern.matches(name));
        let matching: Arc<[usize]> = matching.map(|(index, _)| *index).collect();
        if matched.len() >= MATCHED_MAX {
            matched.clear();
        }
        matched.insert(name.to_owned(), matching.clone());
        matching
    }
}

fn too_large(detail: String) -> ApiError {
    ApiError::bad_request(Value::cause_and_reason("Invalid operations", "Operations are too large", detail))
}

/// The metrics that match, resource by resource; refuses (413) too many.
pub(super) fn of_resources(
    call: &Call<'_>,
    resources: &[Arc<Resource>],
    names: &Names<'_>,
) -> Result<Vec<Reference>> {
    let mut references = Vec::new();
    for resource in resources {
        references.extend(names.references(resource));
        check_count(call, references.len())?;
    }
    Ok(references)
}

/// Refuses (413) more resources or metrics than [`gnudi_app::Limits::aggregate_references_max`].
pub(crate) fn check_count(call: &Call<'_>, count: usize) -> Result<()> {
    let max = call.app.options().limits.aggregate_references_max;
    if count > max {
        return Err(ApiError::too_large(format!(
            "There are more than {max} resources or metrics to aggregate"
        )));
    }
    Ok(())
}

/// The maximum of operation nodes times groups in a request: this many take seconds.
const NODES_EVALUATED_MAX: usize = 20_000_000;

/// Refuses (413) operations that are too large for this number of groups.
pub(super) fn check_groups(operations: &Operation, groups: usize) -> Result<()> {
    if groups.saturating_mul(operations.nodes()) > NODES_EVALUATED_MAX {
        return Err(ApiError::too_large(format!(
            "The operations are too large for {groups} groups: together they have more than {NODES_EVALUATED_MAX} nodes"
        )));
    }
    Ok(())
}

/// A cache of the metrics' archive policies.
#[derive(Default)]
pub(crate) struct Policies(HashMap<Text, Arc<ArchivePolicy>>);

impl Policies {
    pub async fn of(&mut self, call: &Call<'_>, metric: &Metric) -> Result<Arc<ArchivePolicy>> {
        let name = &metric.archive_policy_name;
        if let Some(policy) = self.0.get(name) {
            return Ok(policy.clone());
        }
        let policy = call.policy_of(name).await?;
        self.0.insert(name.clone(), policy.clone());
        Ok(policy)
    }
}

/// Computes the operations.
pub(super) async fn measures(
    call: &Call<'_>,
    policies: &mut Policies,
    references: &[Reference],
    operations: &Arc<Operation>,
    arguments: &Arguments,
) -> Result<Vec<CrossMeasures>> {
    let query = query(call, policies, references, operations, arguments).await?;
    Ok(call.app.engine().cross_measures(query).await?)
}

/// The engine's query for the operations.
pub(super) async fn query(
    call: &Call<'_>,
    policies: &mut Policies,
    references: &[Reference],
    operations: &Arc<Operation>,
    arguments: &Arguments,
) -> Result<CrossMeasuresQuery> {
    call.reads_metrics(references.len());
    let mut asked = Vec::with_capacity(references.len());
    for reference in references {
        asked.push(CrossReference {
            metric: reference.metric.id,
            policy: policies.of(call, &reference.metric).await?,
            shown_name: reference.shown_name(),
            name: reference.name.clone(),
        });
    }
    Ok(arguments.query(asked, operations.clone()))
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;
    use gnudi_series::operations::Metrics;
    use uuid::Uuid;

    use super::*;

    fn operation(names: &[(&str, &str)]) -> Operation {
        let name = |&(name, aggregation): &(&str, &str)| MetricName {
            name: name.to_owned(),
            aggregation: aggregation.to_owned(),
        };
        Operation::Metric(Metrics::Many(names.iter().map(name).collect()))
    }

    fn resource(names: &[&str]) -> Arc<Resource> {
        let metric = |(number, name): (usize, &&str)| {
            let id = MetricId(Uuid::from_u128(number as u128));
            Arc::new(Metric { name: Some((*name).into()), ..Metric::new(id) })
        };
        let metrics = names.iter().enumerate().map(metric).collect();
        Arc::new(Resource { metrics, ..Resource::new(Uuid::nil(), "generic") })
    }

    fn found(names: &[(&str, &str)], metrics: &[&str]) -> Vec<(String, String, String)> {
        let (operation, resource) = (operation(names), resource(metrics));
        let names = Names::of(&operation).unwrap();
        let shown =
            |reference: Reference| (reference.shown_name(), reference.name.name, reference.name.aggregation);
        names.references(&resource).map(shown).collect()
    }

    #[test]
    fn a_name_is_matched_with_the_patterns_once() {
        // Matched anew for each resource, this takes minutes.
        let patterns: Vec<String> =
            (0..PATTERNS_MAX).map(|number| format!("*[{}]{number}", "b".repeat(4_000))).collect();
        let patterns: Vec<(&str, &str)> = patterns.iter().map(|pattern| (pattern.as_str(), "mean")).collect();
        let operation = operation(&patterns);
        let names = Names::of(&operation).unwrap();
        let resource = resource(&["aaaaaaaa"; 10]);
        assert_eq!((0..2_000).map(|_| names.references(&resource).count()).sum::<usize>(), 0);
    }

    #[test]
    fn metrics_are_found_name_by_name() {
        let metrics = ["cpu", "cpu.idle", "disk"];
        let expected = [
            ("disk", "disk", "mean"),
            ("cpu", "cpu*", "mean"),
            ("cpu.idle", "cpu*", "mean"),
            ("cpu", "cpu", "max"),
            ("cpu", "cpu", "min"),
        ];
        let names = [
            ("disk", "mean"),
            ("cpu*", "mean"),
            ("cpu", "max"),
            ("none", "mean"),
            ("cpu", "min"),
            ("?", "mean"),
        ];
        let found = found(&names, &metrics);
        let found: Vec<(&str, &str, &str)> =
            found.iter().map(|(metric, name, aggregation)| (&**metric, &**name, &**aggregation)).collect();
        assert_eq!(found, expected);
    }

    /// A nested loop would take 10^10 steps.
    #[test]
    fn many_names_and_many_metrics_cost_their_sum() {
        let names: Vec<String> = (0..100_000).map(|number| format!("n{number}")).collect();
        let asked: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "mean")).collect();
        let metrics: Vec<&str> = names.iter().rev().map(String::as_str).collect();
        assert_eq!(found(&asked, &metrics).len(), names.len());
    }

    #[test]
    fn groups_times_operations_are_bounded() {
        let names = operation(&[("a", "mean"), ("b", "mean")]);
        assert!(check_groups(&names, NODES_EVALUATED_MAX / 2).is_ok());
        assert_eq!(check_groups(&names, NODES_EVALUATED_MAX / 2 + 1).unwrap_err().status.as_u16(), 413);
    }

    #[test]
    fn wildcards_are_bounded() {
        let patterns: Vec<String> = (0..=PATTERNS_MAX).map(|number| format!("*{number}")).collect();
        let names: Vec<(&str, &str)> = patterns.iter().map(|name| (name.as_str(), "mean")).collect();
        assert!(Names::of(&operation(&names[1..])).is_ok());
        assert_eq!(Names::of(&operation(&names)).unwrap_err().status.as_u16(), 400);
        let long = "[".repeat(PATTERN_BYTES_MAX + 1);
        assert!(Names::of(&operation(&[(&long[1..], "mean")])).is_ok());
        assert_eq!(Names::of(&operation(&[(&long, "mean")])).unwrap_err().status.as_u16(), 400);
    }
}

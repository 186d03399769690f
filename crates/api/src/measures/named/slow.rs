//! Parses any body of named measures, by the rules of Gnocchi's schema.

use std::{borrow::Cow, collections::HashMap};

use gnudi_app::{
    Result,
    json::{self, Value},
    resource_id,
    schema::{Checked, Invalid, each_entry, entries, required, string},
};
use gnudi_model::{Measure, Timestamp};
use uuid::Uuid;

use super::{Named, NamedMetric, NamedResource};
use crate::measures::{
    slow::{count, measures},
    too_many,
};

const MEASURES: &str = "measures";

/// Parses a body; appends to `out`. Of several lists for one name of a resource, whose id may have several
/// spellings, the last wins.
///
/// # Errors
/// 400 for invalid JSON or measures, 413 beyond `measures_max`.
pub fn slow<'a>(
    input: &[u8],
    creator: &str,
    now: Timestamp,
    measures_max: usize,
    out: &mut Vec<Measure>,
) -> Result<Named<'a>> {
    let document = json::parse(input)?;
    if count_all(&document) > measures_max {
        return Err(too_many(measures_max));
    }
    let mut reader = Reader { creator, now, ..Reader::default() };
    for (key, metrics) in entries(&document)? {
        reader.resource(key, metrics, out)?;
    }
    // Metrics of a repeated resource were appended at the end.
    reader.named.metrics.sort_by_key(|metric| metric.resource);
    Ok(reader.named)
}

fn count_all(document: &Value) -> usize {
    let Value::Object(resources) = document else { return 0 };
    let lists = resources.iter().flat_map(|(_, metrics)| match metrics {
        Value::Object(metrics) => &metrics[..],
        _ => &[],
    });
    lists.map(|(_, list)| count(list.get(MEASURES).unwrap_or(list))).sum()
}

#[derive(Default)]
struct Reader<'a, 'c> {
    creator: &'c str,
    now: Timestamp,
    named: Named<'a>,
    /// The index of each resource.
    resources: HashMap<Uuid, usize>,
    /// The index of each metric, by its resource's index and its name.
    metrics: HashMap<(usize, String), usize>,
}

/// The object in place of a list of measures.
#[derive(Default)]
struct Definition {
    archive_policy_name: Option<String>,
    unit: Option<String>,
}

impl Reader<'_, '_> {
    fn resource(&mut self, key: &str, metrics: &Value, out: &mut Vec<Measure>) -> Checked<()> {
        let id = resource_id::of_text(key, self.creator)
            .map_err(|invalid| Invalid::at_key(invalid.reason(), key))?;
        let entries = entries(metrics).map_err(|invalid| invalid.in_key(key))?;
        let resources = &mut self.named.resources;
        let resource = *self.resources.entry(id).or_insert_with(|| {
            resources.push(NamedResource { id, original_id: Cow::Owned(key.to_owned()) });
            resources.len() - 1
        });
        for (name, value) in entries {
            let start = out.len();
            let Definition { archive_policy_name, unit } =
                definition(value, self.now, out).map_err(|invalid| invalid.in_key(name).in_key(key))?;
            let metric = NamedMetric {
                resource,
                name: Cow::Owned(name.clone()),
                archive_policy_name: archive_policy_name.map(Cow::Owned),
                unit: unit.map(Cow::Owned),
                range: start..out.len(),
            };
            if let Some(&place) = self.metrics.get(&(resource, name.clone())) {
                self.named.metrics[place] = metric;
            } else {
                self.metrics.insert((resource, name.clone()), self.named.metrics.len());
                self.named.metrics.push(metric);
            }
        }
        Ok(())
    }
}

/// Parses a list of measures, or an object with one.
fn definition(value: &Value, now: Timestamp, out: &mut Vec<Measure>) -> Checked<Definition> {
    let mut given = Definition::default();
    let Value::Object(entries) = value else {
        measures(value, now, out)?;
        return Ok(given);
    };
    let mut list = entries.is_empty().then_some(());
    each_entry(value, |key, value| match key {
        "archive_policy_name" => string(value).map(|name| given.archive_policy_name = Some(name)),
        "unit" => string(value).map(|unit| given.unit = Some(unit)),
        MEASURES => measures(value, now, out).map(|()| list = Some(())),
        _ => Err(Invalid::unknown_key()),
    })?;
    required(list, MEASURES)?;
    Ok(given)
}

//! The scanner of named measures. Escapes, repeated keys and other uncommon input are left to `slow`.

use std::{borrow::Cow, collections::HashSet};

use gnudi_app::resource_id;
use gnudi_model::Measure;
use uuid::Uuid;

use super::{Named, NamedMetric, NamedResource};
use crate::measures::scan::{Scan, Scanner};

/// Up to this many names of a resource are compared linearly.
const LINEAR_NAMES_MAX: usize = 16;

/// Parses an object of objects of lists; appends at most `measures_max` measures to `out`.
pub fn scan<'a>(
    input: &'a [u8],
    creator: &str,
    measures_max: usize,
    named: &mut Named<'a>,
    out: &mut Vec<Measure>,
) -> Scan {
    let mut scanner = Scanner::new(input, measures_max);
    let done = resources(&mut scanner, creator, named, out).and_then(|()| scanner.end());
    scanner.outcome(done.filter(|()| are_distinct(named)))
}

fn resources<'a>(
    scanner: &mut Scanner<'a>,
    creator: &str,
    named: &mut Named<'a>,
    out: &mut Vec<Measure>,
) -> Option<()> {
    scanner.object(|scanner, key| {
        let original_id = text(key)?;
        let id = resource_id::of_text(original_id, creator).ok()?;
        let resource = named.resources.len();
        named.resources.push(NamedResource { id, original_id: Cow::Borrowed(original_id) });
        scanner.object(|scanner, key| {
            let name = Cow::Borrowed(text(key)?);
            let metric = match scanner.peek()? {
                b'[' => {
                    let start = out.len();
                    scanner.measures(out)?;
                    let range = start..out.len();
                    NamedMetric { resource, name, archive_policy_name: None, unit: None, range }
                }
                _ => definition(scanner, resource, name, out)?,
            };
            named.metrics.push(metric);
            Some(())
        })
    })
}

/// `{"archive_policy_name": ..., "unit": ..., "measures": [...]}` in any order, each key at most once.
fn definition<'a>(
    scanner: &mut Scanner<'a>,
    resource: usize,
    name: Cow<'a, str>,
    out: &mut Vec<Measure>,
) -> Option<NamedMetric<'a>> {
    let (mut archive_policy_name, mut unit, mut range) = (None, None, None);
    scanner.object(|scanner, key| match key {
        b"archive_policy_name" if archive_policy_name.is_none() => {
            archive_policy_name = Some(Cow::Borrowed(text(scanner.plain_string()?)?));
            Some(())
        }
        b"unit" if unit.is_none() => {
            unit = Some(Cow::Borrowed(text(scanner.plain_string()?)?));
            Some(())
        }
        b"measures" if range.is_none() => {
            let start = out.len();
            scanner.measures(out)?;
            range = Some(start..out.len());
            Some(())
        }
        _ => None,
    })?;
    Some(NamedMetric { resource, name, archive_policy_name, unit, range: range? })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whether each resource occurs once, and each name once per resource.
fn are_distinct(named: &Named<'_>) -> bool {
    let mut ids: HashSet<Uuid> = HashSet::with_capacity(named.resources.len());
    named.resources.iter().all(|resource| ids.insert(resource.id))
        && named.metrics.chunk_by(|a, b| a.resource == b.resource).all(|metrics| {
            if metrics.len() <= LINEAR_NAMES_MAX {
                let earlier = |index: usize| metrics[..index].iter();
                return metrics
                    .iter()
                    .enumerate()
                    .all(|(index, metric)| earlier(index).all(|earlier| earlier.name != metric.name));
            }
            let mut names = HashSet::with_capacity(metrics.len());
            metrics.iter().all(|metric| names.insert(&metric.name))
        })
}

//! Archive policies: the granularities of a metric's aggregates, and how long they are kept.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use uuid::Uuid;

use crate::{Aggregation, AggregationMethod, Statistic, Timespan};

/// One granularity of a policy. `points` and `timespan` are both absent if points are kept without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ArchivePolicyItem {
    pub granularity: Timespan,
    pub points: Option<u64>,
    pub timespan: Option<Timespan>,
}

/// Why a definition is invalid; the texts are Gnocchi's, since clients show them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("timespan ≠ granularity × points")]
    TimespanMismatch,
    #[error("At least two of granularity/points/timespan must be provided")]
    TooFewParts,
    #[error("Calculated number of points is < 0")]
    NoPoints,
    #[error("Granularity should be > 0")]
    NoGranularity,
    #[error("timespan is too long: it must be below 292 years")]
    TooLong,
    #[error("More than one archive policy uses granularity `{0:?}'")]
    DuplicateGranularity(f64),
    #[error("Invalid value for aggregation_methods: {{{0}}}")]
    AggregationMethods(String),
    #[error("aggregation_methods both keep and remove `{0}'")]
    ContradictoryMethod(String),
    #[error("aggregation_methods leave no method")]
    NoMethods,
    #[error("late measures can be recomputed with raw points only, for these aggregation methods: {0}")]
    LateWithoutRaw(String),
}

impl ArchivePolicyItem {
    /// Completes an item as Gnocchi does: two of the parts give the third, a granularity alone is kept without limit,
    /// and a timespan is rounded down to whole points.
    pub fn new(
        granularity: Option<Timespan>,
        points: Option<u64>,
        timespan: Option<Timespan>,
    ) -> Result<Self, InvalidPolicy> {
        let span_of = |granularity: Timespan, points: u64| {
            i64::try_from(points)
                .ok()
                .and_then(|points| granularity.0.checked_mul(points))
                .map(Timespan)
                .ok_or(InvalidPolicy::TooLong)
        };
        if let (Some(granularity), Some(points), Some(timespan)) = (granularity, points, timespan)
            && span_of(granularity, points)? != timespan
        {
            return Err(InvalidPolicy::TimespanMismatch);
        }
        let granularity = match (granularity, points, timespan) {
            (Some(granularity), ..) => granularity,
            (None, Some(points), Some(timespan)) => Timespan((timespan.0 as f64 / points as f64) as i64),
            _ => return Err(InvalidPolicy::TooFewParts),
        };
        if granularity.0 <= 0 {
            return Err(InvalidPolicy::NoGranularity);
        }
        let points = match (points, timespan) {
            (Some(points), _) => Some(points),
            // Gnocchi divides doubles: from 104 days on, a timespan just below a multiple may be rounded up to it.
            (None, Some(timespan)) => match (timespan.0 as f64 / granularity.0 as f64) as u64 {
                0 => return Err(InvalidPolicy::NoPoints),
                points => Some(points),
            },
            (None, None) => None,
        };
        let timespan = points.map(|points| span_of(granularity, points)).transpose()?;
        Ok(ArchivePolicyItem { granularity, points, timespan })
    }

    /// Keeps all points.
    pub fn unlimited(granularity: Timespan) -> Self {
        ArchivePolicyItem { granularity, points: None, timespan: None }
    }
}

impl Serialize for ArchivePolicyItem {
    /// Gnocchi's form: spans as Python prints them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut item = serializer.serialize_struct("ArchivePolicyItem", 3)?;
        item.serialize_field("timespan", &self.timespan.map(Timespan::to_python_text))?;
        item.serialize_field("granularity", &self.granularity.to_python_text())?;
        item.serialize_field("points", &self.points)?;
        item.end()
    }
}

/// A policy. Name and granularities are immutable; the rest may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArchivePolicy {
    pub name: String,
    /// How many blocks of the coarsest granularity late points may be behind.
    pub back_window: u64,
    /// In the creator's order; granularities are distinct, and there is at least one.
    pub definition: Vec<ArchivePolicyItem>,
    /// Resolved (no `*`, `-x`, `+x`), ordered by code.
    pub aggregation_methods: BTreeSet<AggregationMethod>,
    /// How long raw points are kept beside the aggregates, and late ones accepted; an extension of Gnocchi. `None`:
    /// only within the back window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_timespan: Option<Timespan>,
    /// Whether measures later than the back window are accepted even without raw points; an extension of Gnocchi.
    /// Requires [`ArchivePolicy::check_late`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recomputes_late: bool,
}

/// Name prefix of policies made from a definition that a metric was created with, instead of a policy's name.
const DEFINITION_PREFIX: &str = "definition:";

impl ArchivePolicy {
    /// The name of the policy for a definition: a digest of its contents. Such policies are created with their first
    /// metric and removed with the last; they cannot be listed, changed or referred to.
    pub fn definition_name(digest: Uuid) -> String {
        format!("{DEFINITION_PREFIX}{digest}")
    }

    /// Whether the name is reserved for [`ArchivePolicy::definition_name`]: the prefix, followed by as many bytes or
    /// characters as a digest has. Databases use the same test.
    pub fn is_definition_name(name: &str) -> bool {
        const DIGEST: usize = 36;
        let digest = name.strip_prefix(DEFINITION_PREFIX);
        digest.is_some_and(|digest| digest.len() == DIGEST || digest.chars().count() == DIGEST)
    }

    /// Validates rules across items.
    pub fn new(
        name: String,
        back_window: u64,
        definition: Vec<ArchivePolicyItem>,
        aggregation_methods: BTreeSet<AggregationMethod>,
    ) -> Result<Self, InvalidPolicy> {
        let mut seen = BTreeSet::new();
        for item in &definition {
            if !seen.insert(item.granularity) {
                return Err(InvalidPolicy::DuplicateGranularity(item.granularity.as_secs_f64()));
            }
        }
        Ok(ArchivePolicy {
            name,
            back_window,
            definition,
            aggregation_methods,
            raw_timespan: None,
            recomputes_late: false,
        })
    }

    /// Resolves a list in which `*` means all of Gnocchi's methods, and `-x` and `+x` modify the list, or `default` if
    /// the list has nothing else.
    pub fn resolve_methods(
        entries: &[String],
        default: &BTreeSet<AggregationMethod>,
    ) -> Result<BTreeSet<AggregationMethod>, InvalidPolicy> {
        let parse = |name: &str| name.parse::<AggregationMethod>().ok();
        let invalid: Vec<String> = entries
            .iter()
            .filter(|entry| {
                entry.as_str() != "*" && parse(entry.strip_prefix(['-', '+']).unwrap_or(entry)).is_none()
            })
            .map(|entry| format!("'{entry}'"))
            .collect();
        if !invalid.is_empty() {
            return Err(InvalidPolicy::AggregationMethods(invalid.join(", ")));
        }
        let is_change = |entry: &String| entry.starts_with(['-', '+']);
        let mut methods: BTreeSet<AggregationMethod> = if entries.iter().any(|entry| entry == "*") {
            AggregationMethod::all_of_gnocchi().collect()
        } else if entries.iter().all(is_change) {
            default.clone()
        } else {
            entries.iter().filter_map(|entry| parse(entry)).collect()
        };
        let named: HashSet<&str> =
            entries.iter().map(|entry| entry.strip_prefix('+').unwrap_or(entry)).collect();
        for entry in entries {
            if let Some(method) = entry.strip_prefix('-').and_then(parse) {
                if named.contains(&entry[1..]) {
                    return Err(InvalidPolicy::ContradictoryMethod(entry[1..].to_owned()));
                }
                methods.remove(&method);
            } else if let Some(method) = entry.strip_prefix('+').and_then(parse) {
                methods.insert(method);
            }
        }
        if methods.is_empty() { Err(InvalidPolicy::NoMethods) } else { Ok(methods) }
    }

    /// The coarsest granularity, the unit of back windows.
    pub fn block_size(&self) -> Timespan {
        self.definition.iter().map(|item| item.granularity).max().expect("a policy has a granularity")
    }

    /// Whether it has Gnocchi's rates; those of counters do not count.
    pub fn has_rate(&self) -> bool {
        self.aggregation_methods.iter().any(|method| method.rate && !method.is_counter())
    }

    /// An error if late measures are to be recomputed without raw points, and a method cannot be: its value with one
    /// more point must follow from the stored values.
    pub fn check_late(&self) -> Result<(), InvalidPolicy> {
        if !self.recomputes_late || self.raw_timespan.is_some() {
            return Ok(());
        }
        let refused = Self::refused_for_late(&self.aggregation_methods);
        if refused.is_empty() { Ok(()) } else { Err(InvalidPolicy::LateWithoutRaw(refused.join(", "))) }
    }

    /// The methods whose value with one more point does not follow from the stored values, with a special reason if
    /// there is one.
    pub fn refused_for_late(methods: &BTreeSet<AggregationMethod>) -> Vec<String> {
        let has = |statistic| methods.contains(&AggregationMethod::new(statistic));
        let refused = |method: &AggregationMethod| match method.statistic {
            _ if method.rate => Some(method.to_string()),
            Statistic::Count | Statistic::Sum | Statistic::Min | Statistic::Max => None,
            Statistic::Mean if has(Statistic::Sum) && has(Statistic::Count) => None,
            Statistic::Mean => Some("mean (without sum and count)".to_owned()),
            _ => Some(method.to_string()),
        };
        methods.iter().filter_map(refused).collect()
    }

    /// The aggregation for a method and granularity, if the policy keeps it.
    pub fn aggregation(&self, method: AggregationMethod, granularity: Timespan) -> Option<Aggregation> {
        let item = self.definition.iter().find(|item| item.granularity == granularity)?;
        self.aggregation_methods.contains(&method).then_some(Aggregation {
            method,
            granularity,
            timespan: item.timespan,
        })
    }

    /// The default of `[archive_policy] default_aggregation_methods`.
    pub fn default_methods() -> BTreeSet<AggregationMethod> {
        [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Sum, Statistic::Std, Statistic::Count]
            .map(AggregationMethod::new)
            .into()
    }

    /// The four policies that `gnocchi-upgrade` creates: bool, low, medium, high; and `raw`, with raw points.
    pub fn defaults(methods: &BTreeSet<AggregationMethod>) -> Vec<ArchivePolicy> {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        let item = |(granularity, timespan): &(i64, i64)| {
            let [granularity, timespan] =
                [*granularity, *timespan].map(|span| Some(Timespan::from_secs(span)));
            ArchivePolicyItem::new(granularity, None, timespan).expect("whole points")
        };
        let policy = |name: &str, back_window, items: &[(i64, i64)], methods: &BTreeSet<_>| {
            let definition = items.iter().map(item).collect();
            let policy = ArchivePolicy::new(name.to_owned(), back_window, definition, methods.clone());
            policy.expect("granularities differ")
        };
        vec![
            policy(
                "bool",
                3600,
                &[(1, 365 * DAY)],
                &BTreeSet::from([AggregationMethod::new(Statistic::Last)]),
            ),
            policy("low", 0, &[(5 * MINUTE, 30 * DAY)], methods),
            policy("medium", 0, &[(MINUTE, 7 * DAY), (HOUR, 365 * DAY)], methods),
            policy("high", 0, &[(1, HOUR), (MINUTE, 7 * DAY), (HOUR, 365 * DAY)], methods),
            ArchivePolicy {
                raw_timespan: Some(Timespan::from_secs(15 * DAY)),
                ..policy("raw", 0, &[(MINUTE, 90 * DAY), (HOUR, 2 * 365 * DAY)], methods)
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_give_the_third() {
        let span = |seconds| Some(Timespan::from_secs(seconds));
        let full =
            ArchivePolicyItem { granularity: Timespan::from_secs(60), points: Some(10), timespan: span(600) };
        assert_eq!(ArchivePolicyItem::new(span(60), Some(10), None), Ok(full));
        assert_eq!(ArchivePolicyItem::new(span(60), None, span(600)), Ok(full));
        assert_eq!(ArchivePolicyItem::new(None, Some(10), span(600)), Ok(full));
        assert_eq!(ArchivePolicyItem::new(span(60), None, span(659)), Ok(full));
        assert_eq!(
            ArchivePolicyItem::new(span(60), Some(9), span(600)),
            Err(InvalidPolicy::TimespanMismatch)
        );
        let year = Timespan::from_secs(365 * 86_400);
        let shorter = ArchivePolicyItem::new(span(1), None, Some(Timespan(year.0 - 1))).unwrap();
        assert_eq!((shorter.points, shorter.timespan), (Some(365 * 86_400), Some(year)), "as in Gnocchi");
        assert_eq!(ArchivePolicyItem::new(None, Some(9), None), Err(InvalidPolicy::TooFewParts));
        assert_eq!(ArchivePolicyItem::new(span(60), None, span(59)), Err(InvalidPolicy::NoPoints));
    }

    #[test]
    fn without_raw_points_late_ones_need_methods_that_take_them() {
        let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(1);
        policy.recomputes_late = true;
        let mut check = |names: &str, raw_timespan| {
            policy.aggregation_methods = names.split(' ').map(|name| name.parse().unwrap()).collect();
            policy.raw_timespan = raw_timespan;
            policy.check_late()
        };
        let refused = |names: &str| Err(InvalidPolicy::LateWithoutRaw(names.to_owned()));
        assert_eq!(check("mean sum count min max", None), Ok(()));
        assert_eq!(check("max", None), Ok(()));
        assert_eq!(check("mean count", None), refused("mean (without sum and count)"));
        let others = "last std median first 9pct rate:sum increase";
        assert_eq!(check(&format!("sum {others}"), None), refused(&others.replace(' ', ", ")));
        assert_eq!(check(others, Some(Timespan(1))), Ok(()));
    }

    #[test]
    fn method_lists_resolve_against_the_default() {
        let default = ArchivePolicy::default_methods();
        let resolve = |entries: &[&str]| {
            let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
            ArchivePolicy::resolve_methods(&entries, &default)
                .map(|methods| methods.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(resolve(&["*"]).unwrap().len(), 216);
        assert_eq!(resolve(&["*", "+increase"]).unwrap().len(), 217);
        assert_eq!(resolve(&["*", "-mean"]).unwrap().len(), 215);
        assert_eq!(resolve(&["-mean", "+last"]).unwrap(), ["sum", "last", "max", "min", "std", "count"]);
        assert_eq!(resolve(&["max", "+last"]).unwrap(), ["last", "max"]);
        assert!(resolve(&["nope"]).is_err());
    }
}

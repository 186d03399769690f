//! Compares the index with a model that searches a plain list of series.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use gnudi_model::MetricId;
use gnudi_prometheus::{
    index::{Census, Condition, Index, NewSeries, Owner, SearchError, Tested},
    labels::MetricLabels,
};
use gnudi_promql::{Limits, Matcher, parse_selector};
use proptest::prelude::*;
use uuid::Uuid;

/// Parses matchers.
fn matchers(text: &str) -> Vec<Matcher> {
    parse_selector(&format!("{{{text}}}"), &Limits::default()).unwrap()
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    policy: String,
    owner: u8,
    labels: BTreeMap<String, String>,
    is_written: bool,
}

/// A series that was written with these labels.
fn written<const N: usize>(owner: u8, labels: [(&str, String); N]) -> Known {
    let labels = labels.map(|(label, value)| (label.to_owned(), value));
    Known { policy: "low".to_owned(), owner, labels: BTreeMap::from(labels), is_written: true }
}

/// Series by metric.
type Model = BTreeMap<MetricId, Known>;

fn owner(number: u8) -> Owner {
    let project = (number > 1).then(|| format!("p{}", number % 3).into());
    Owner { creator: format!("c{number}").into(), project, resource_creator: None }
}

fn is_of(found: &Owner, seen: &[u8]) -> bool {
    seen.iter().any(|number| owner(*number) == *found)
}

fn new_series(metric: MetricId, known: &Known) -> NewSeries<'_> {
    let pairs = known.labels.iter().map(|(label, value)| (label.as_str().into(), value.as_str().into()));
    let labels = MetricLabels { pairs: pairs.collect(), is_written: known.is_written };
    NewSeries { metric, archive_policy_name: &known.policy, owner: owner(known.owner), labels }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<(MetricId, Known)>),
    Remove(Vec<MetricId>),
}

fn metric() -> impl Strategy<Value = MetricId> {
    (0..60u128).prop_map(|number| MetricId(Uuid::from_u128(number)))
}

fn known() -> impl Strategy<Value = Known> {
    let name = prop::sample::select(vec!["up", "disk.read", "disk_read", "node_cpu"]);
    let value = prop::sample::select(vec!["a", "b", "ab", "host1", "host2", "é"]);
    let labels = prop::collection::btree_map(prop::sample::select(vec!["x", "y", "z", "any"]), value, 0..4);
    (name, labels, 0..4u8, any::<bool>(), 0..2u8).prop_map(|(name, labels, owner, is_written, policy)| {
        let mut labels: BTreeMap<String, String> =
            labels.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
        labels.insert("__name__".to_owned(), name.to_owned());
        Known { policy: format!("policy{policy}"), owner, labels, is_written }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::btree_map(metric(), known(), 1..20)
            .prop_map(|series| Step::Put(series.into_iter().collect())),
        prop::collection::vec(metric(), 0..20).prop_map(Step::Remove),
    ]
}

fn matcher() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["x", "y", "z", "any", "none", "__name__"]);
    let condition = prop::sample::select(vec![
        "=\"a\"",
        "!=\"a\"",
        "=\"\"",
        "!=\"\"",
        "=\"absent\"",
        "!=\"absent\"",
        "=~\"a|b\"",
        "!~\"a|b\"",
        "=~\"a|\"",
        "!~\"a|\"",
        "=~\"host.*\"",
        "!~\"host.*\"",
        "=~\"host[12]\"",
        "=~\".*\"",
        "!~\".*\"",
        "=~\".+\"",
        "!~\".+\"",
        "=~\"\"",
        "=~\".\"",
        "=~\"(?i)A\"",
        "=\"up\"",
        "=~\"disk.*\"",
        "=~\"absent.*\"",
        "=~\"absent|a\"",
    ]);
    (label, condition).prop_map(|(label, condition)| format!("{label}{condition}"))
}

fn matches(known: &Known, conditions: &[Condition<'_>]) -> bool {
    let value = |label: &str| known.labels.get(label).map_or("", String::as_str);
    conditions.iter().all(|condition| match condition {
        Condition::Matcher(matcher) | Condition::Tested(matcher, _) => matcher.matches(value(&matcher.name)),
        Condition::ExportedAs(name) => {
            let exported = format!("ceilometer_{}", value("__name__").replace('.', "_"));
            !known.is_written && exported == *name
        }
    })
}

/// The selected series by metric: the archive policy and the labels.
fn found(
    index: &Index,
    conditions: &[Condition<'_>],
    seen: &[u8],
) -> BTreeMap<MetricId, (String, BTreeMap<String, String>)> {
    let found = index.select(conditions, &|owner| is_of(owner, seen), usize::MAX, &|| false).unwrap();
    let count = found.len();
    let by_metric: BTreeMap<_, _> = found
        .into_iter()
        .map(|series| {
            let labels = series.labels.iter();
            let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
            (series.metric, (series.archive_policy_name.to_string(), labels))
        })
        .collect();
    assert_eq!(by_metric.len(), count, "no series twice");
    by_metric
}

/// The values on which a search tests each regular expression, tested before.
fn tested(index: &Index, conditions: &[Condition<'_>], seen: &[u8]) -> Vec<Option<Tested>> {
    let values = index.values_to_test(&[conditions.to_vec()], &|owner| is_of(owner, seen), &|| false);
    let values = values.unwrap().into_iter().map(|(label, values)| (label, Arc::new(values)));
    let values: HashMap<String, _> = values.collect();
    let one = |condition: &Condition<'_>| {
        let matcher = condition.expression()?;
        let values = values.get(&matcher.name)?.clone();
        Some(Tested::new(matcher, values, &|| false).unwrap())
    };
    conditions.iter().map(one).collect()
}

fn check(index: &Index, model: &Model, texts: &[String], alias: bool, seen: &[u8]) {
    let matchers: Vec<Matcher> = texts.iter().flat_map(|text| matchers(text)).collect();
    let mut conditions: Vec<Condition<'_>> = matchers.iter().map(Condition::Matcher).collect();
    if alias {
        conditions.push(Condition::ExportedAs("ceilometer_disk_read"));
    }
    let matching: Vec<(&MetricId, &Known)> = model
        .iter()
        .filter(|(_, known)| seen.contains(&known.owner) && matches(known, &conditions))
        .collect();
    let expected_series = |known: &Known| {
        let mut labels = known.labels.clone();
        if alias {
            labels.insert("__name__".to_owned(), "ceilometer_disk_read".to_owned());
        }
        (known.policy.clone(), labels)
    };
    let expected: BTreeMap<_, _> =
        matching.iter().map(|(metric, known)| (**metric, expected_series(known))).collect();
    assert_eq!(found(index, &conditions, seen), expected, "{texts:?}");
    let sees = |owner: &Owner| is_of(owner, seen);
    let tested = tested(index, &conditions, seen);
    let with_tested: Vec<Condition<'_>> = conditions
        .iter()
        .zip(&tested)
        .map(|(condition, tested)| match (condition.expression(), tested) {
            (Some(matcher), Some(tested)) => Condition::Tested(matcher, tested),
            _ => *condition,
        })
        .collect();
    assert_eq!(found(index, &with_tested, seen), expected, "{texts:?}");
    if let Some(limit) = expected.len().checked_sub(1) {
        let error = index.select(&conditions, &sees, limit, &|| false).unwrap_err();
        assert_eq!(error, SearchError::TooManySeries);
    }
    assert!(index.select(&conditions, &sees, expected.len(), &|| false).is_ok());

    let text = |text: &Arc<str>| text.to_string();
    let listed = |known: &[&Known]| -> (BTreeSet<String>, BTreeSet<String>) {
        let names = known.iter().flat_map(|known| known.labels.keys().cloned()).collect();
        (names, known.iter().filter_map(|known| known.labels.get("x").cloned()).collect())
    };
    let known: Vec<&Known> = matching.iter().map(|(_, known)| *known).collect();
    for (sets, known) in [
        (vec![conditions.clone(), conditions], known),
        (Vec::new(), model.values().filter(|known| seen.contains(&known.owner)).collect()),
    ] {
        let names = index.label_names(&sets, &sees, &|| false).unwrap();
        let values = index.label_values("x", &sets, &sees, &|| false).unwrap();
        let texts = |all: &BTreeSet<Arc<str>>| -> BTreeSet<String> { all.iter().map(text).collect() };
        assert_eq!((texts(&names), texts(&values)), listed(&known));
        if sets.is_empty() {
            continue;
        }
        let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for known in known {
            let Some(name) = known.labels.get("__name__") else { continue };
            expected.entry(name.clone()).or_default().extend(known.labels.get("x").cloned());
        }
        let by_name = index.label_values_by("__name__", "x", &sets, &sees, &|| false).unwrap();
        let by_name = by_name.iter().map(|(name, values)| (text(name), texts(values)));
        assert_eq!(by_name.collect::<BTreeMap<_, _>>(), expected);
    }
}

fn check_census(census: &Census, model: &Model, seen: &[u8], limit: usize) {
    let series: Vec<&Known> = model.values().filter(|known| seen.contains(&known.owner)).collect();
    let mut pairs: HashMap<(&String, &String), u64> = HashMap::new();
    for pair in series.iter().flat_map(|known| &known.labels) {
        *pairs.entry(pair).or_default() += 1;
    }
    assert_eq!((census.series, census.label_pairs), (series.len() as u64, pairs.len() as u64));
    let mut counts: Vec<u64> = pairs.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.truncate(limit);
    assert_eq!(census.series_by_label_pair.iter().map(|(_, count)| *count).collect::<Vec<_>>(), counts);
    for ((label, value), count) in &census.series_by_label_pair {
        assert_eq!(pairs[&(&label.to_string(), &value.to_string())], *count);
    }
    for (name, count) in &census.series_by_metric_name {
        assert_eq!(pairs[&(&"__name__".to_owned(), &name.to_string())], *count);
    }
    let values_of = |label: &Arc<str>| -> Vec<usize> {
        pairs.keys().filter(|(name, _)| ***name == **label).map(|(_, value)| value.len()).collect()
    };
    for ((label, count), (same, bytes)) in census.values_by_label.iter().zip(&census.value_bytes_by_label) {
        assert_eq!(values_of(label).len() as u64, *count);
        assert_eq!(values_of(same).iter().sum::<usize>() as u64, *bytes);
    }
}

fn apply(index: &mut Index, model: &mut Model, step: Step) {
    match step {
        Step::Put(series) => {
            let new: Vec<_> = series.iter().map(|(metric, known)| new_series(*metric, known)).collect();
            index.put(&new);
            drop(new);
            model.extend(series);
        }
        Step::Remove(metrics) => {
            index.remove(&metrics);
            model.retain(|metric, _| !metrics.contains(metric));
        }
    }
    assert_eq!((index.len(), index.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(index.metrics().collect::<BTreeSet<_>>(), model.keys().copied().collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_equals_the_model(
        steps in prop::collection::vec(step(), 1..12),
        queries in prop::collection::vec((prop::collection::vec(matcher(), 0..4), any::<bool>()), 1..8),
        seen in prop::collection::btree_set(0..4u8, 0..5),
        limit in 0..6usize,
    ) {
        let (mut index, mut model) = (Index::default(), Model::new());
        let seen: Vec<u8> = seen.into_iter().collect();
        for step in steps {
            apply(&mut index, &mut model, step);
            for (texts, alias) in &queries {
                check(&index, &model, texts, *alias, &seen);
            }
            check_census(&index.census(&|owner| is_of(owner, &seen), limit), &model, &seen, limit);
        }
    }
}

/// Thousands of series are inserted and removed in each round, so that parts are compacted.
#[test]
fn removed_series_leave_no_trace() {
    let (mut index, mut model) = (Index::default(), Model::new());
    let known = |round: u128, number: u128| {
        let name = format!("m{}", number % 7);
        let labels = [("__name__", name), ("x", round.to_string()), ("y", (number % 300).to_string())];
        written((number % 4) as u8, labels)
    };
    for round in 0..8 {
        let series =
            (0..3000).map(|number| (MetricId(Uuid::from_u128(round << 64 | number)), known(round, number)));
        apply(&mut index, &mut model, Step::Put(series.collect()));
        let gone = model.keys().copied().filter(|metric| metric.0.as_u128() % 16 > round);
        let gone = gone.collect();
        apply(&mut index, &mut model, Step::Remove(gone));
        for query in ["__name__=\"m3\",x=~\".+\"", "y=\"12\"", "x!=\"1\"", "y=~\"1.\",x=\"2\""] {
            check(&index, &model, &[query.to_owned()], false, &[0, 2, 3]);
        }
        let census = index.census(&|owner| is_of(owner, &[1]), 9);
        check_census(&census, &model, &[1], 9);
        let found = index.select(&[], &|owner| is_of(owner, &[1]), usize::MAX, &|| false).unwrap();
        assert_eq!(Census::of(&found, 9), census);
    }
    let all = model.keys().copied().collect();
    apply(&mut index, &mut model, Step::Remove(all));
    assert!(index.label_names(&[], &|_| true, &|| false).unwrap().is_empty());
}

/// An index of series with a name, `x` with another value for each, and one value of `y`.
fn numbered(count: u128) -> Index {
    let known = |number: u128| {
        written(0, [("__name__", "m".to_owned()), ("x", number.to_string()), ("y", "1".to_owned())])
    };
    let (mut index, mut model) = (Index::default(), Model::new());
    let series = (0..count).map(|number| (MetricId(Uuid::from_u128(number)), known(number)));
    apply(&mut index, &mut model, Step::Put(series.collect()));
    index
}

#[test]
fn the_work_of_a_search_is_known_before() {
    let index = numbered(3000);
    let work = |text: &str, max| {
        let matchers = matchers(text);
        let conditions: Vec<Condition<'_>> = matchers.iter().map(Condition::Matcher).collect();
        index.work(&[conditions], &|_| true, max)
    };
    assert!(work("x=~\".*1.*\"", usize::MAX) >= 6000);
    assert!(work("__name__=\"m\"", usize::MAX) >= 3000);
    // What is left by a list of values is tested only.
    assert!(work("x=\"7\",y=~\".*1.*\"", usize::MAX) < 10);
    assert!(work("x=~\"7|8\"", usize::MAX) < 10);
    // Large expressions count more.
    assert!(work("x=~\"[0-9a-z]*.{500}\"", usize::MAX) > 60_000);
    assert_eq!(work("x=\"absent\"", usize::MAX), 0);
    assert_eq!(index.work(&[], &|_| true, usize::MAX), 3002);
    assert_eq!(index.work(&[], &|_| false, usize::MAX), 0);
}

#[test]
fn a_long_value_is_not_tested_by_a_large_expression() {
    let known = written(0, [("x", "a".repeat(200_000))]);
    let (mut index, mut model) = (Index::default(), Model::new());
    apply(&mut index, &mut model, Step::Put(vec![(MetricId(Uuid::from_u128(1)), known)]));
    let outcome = |text: &str| {
        let matchers = matchers(text);
        let sets = [vec![Condition::Matcher(&matchers[0])]];
        // Not on a thread of requests.
        assert!(index.work(&sets, &|_| true, usize::MAX) > 150, "{text}");
        let values = index.values_to_test(&sets, &|_| true, &|| false).unwrap().remove("x").unwrap();
        Tested::new(&matchers[0], Arc::new(values), &|| false).map(drop)
    };
    assert_eq!(outcome("x=~\".*b.*\""), Ok(()));
    assert_eq!(outcome("x=~\".*.{2000}b\""), Err(SearchError::TooLong));
    // What the expression begins with decides.
    assert_eq!(outcome("x=~\"b.*.{2000}b\""), Ok(()));
}

#[test]
fn a_search_stops_when_it_is_told_to() {
    let index = numbered(100);
    let matchers = matchers("x=~\".*1.*\",y=~\".*1.*\"");
    let conditions: Vec<Condition<'_>> = matchers.iter().map(Condition::Matcher).collect();
    let sets = [conditions.clone()];
    let polls = Cell::new(0);
    let stops = || {
        polls.set(polls.get() + 1);
        polls.get() >= 50
    };
    let all = |_: &Owner| true;
    let values = index.values_to_test(&sets, &all, &|| false).unwrap().remove("x").map(Arc::new).unwrap();
    let outcomes = [
        index.select(&conditions, &all, usize::MAX, &stops).map(drop),
        index.label_names(&sets, &all, &stops).map(drop),
        index.label_values("x", &sets, &all, &stops).map(drop),
        index.values_to_test(&sets, &all, &stops).map(drop),
        Tested::new(&matchers[0], values, &stops).map(drop),
    ];
    assert_eq!(outcomes, [Err(SearchError::Stopped); 5]);
    // The first stopped in time, the others at once.
    assert_eq!(polls.get(), 54);
}

//! The scanner and the slow parser agree: the slow parser accepts whatever the scanner accepts, with equal
//! bits.

use gnudi_api::measures::{
    named::{self, Named},
    scan::{self, Scan},
    slow,
};
use gnudi_model::{Measure, Timestamp};
use proptest::{prelude::*, strategy::ValueTree};

const MEASURES_MAX: usize = 64;

fn bits(measures: &[Measure]) -> Vec<(i64, u64)> {
    measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
}

/// Compares the slow parser's result for a list that the scanner accepts; returns whether it does.
fn list_agrees(body: &[u8]) -> Result<bool, TestCaseError> {
    let mut fast = Vec::new();
    match scan::list(body, MEASURES_MAX, &mut fast) {
        Scan::Irregular => return Ok(false),
        Scan::TooMany => {
            let error = slow::list(body, Timestamp(0), MEASURES_MAX, &mut Vec::new());
            // The scanner stops at the limit; the slow parser may find a syntax error after it.
            prop_assert!(error.is_err());
            return Ok(true);
        }
        Scan::Regular => {}
    }
    let mut slow = Vec::new();
    let read = slow::list(body, Timestamp(0), MEASURES_MAX, &mut slow);
    prop_assert!(read.is_ok(), "{:?}", read);
    prop_assert_eq!(bits(&fast), bits(&slow));
    Ok(true)
}

fn batch_agrees(body: &[u8]) -> Result<bool, TestCaseError> {
    let (mut fast_parts, mut fast) = (Vec::new(), Vec::new());
    if scan::batch(body, MEASURES_MAX, &mut fast_parts, &mut fast) != Scan::Regular {
        return Ok(false);
    }
    let mut keys: Vec<_> = fast_parts.iter().map(|part| part.metric).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() < fast_parts.len() {
        // Of duplicates the last counts; `read_batch` handles that for both parsers.
        return Ok(false);
    }
    let (mut slow_parts, mut slow) = (Vec::new(), Vec::new());
    let read = slow::batch(body, Timestamp(0), MEASURES_MAX, &mut slow_parts, &mut slow);
    prop_assert!(read.is_ok(), "{:?}", read);
    prop_assert_eq!(fast_parts, slow_parts);
    prop_assert_eq!(bits(&fast), bits(&slow));
    Ok(true)
}

fn named_agrees(body: &[u8]) -> Result<bool, TestCaseError> {
    let (mut fast_named, mut fast) = (Named::default(), Vec::new());
    if named::scan(body, "foobar", MEASURES_MAX, &mut fast_named, &mut fast) != Scan::Regular {
        return Ok(false);
    }
    let mut slow = Vec::new();
    let read = named::slow(body, "foobar", Timestamp(0), MEASURES_MAX, &mut slow);
    prop_assert!(read.is_ok(), "{:?}", read);
    prop_assert_eq!(Ok(fast_named), read);
    prop_assert_eq!(bits(&fast), bits(&slow));
    Ok(true)
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![6 => Just(String::new()), 2 => Just(" ".to_owned()), 1 => "[ \t\r\n]{0,3}"]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?",
        1 => "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        1 => any::<f64>().prop_filter_map("finite", |x| x.is_finite().then(|| format!("{x:?}"))),
        1 => prop_oneof![Just("-0"), Just("01"), Just("1."), Just("-"), Just("NaN"), Just("\"1\""), Just("null")]
            .prop_map(str::to_owned),
    ]
}

fn timestamp() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (
            "(19[67][0-9]|20[0-4][0-9]|22[56][0-9])-(0[1-9]|1[0-3])-(0[1-9]|[12][0-9]|3[012])",
            "[T ]",
            "([01][0-9]|2[0-4]):([0-5][0-9]|60):([0-5][0-9]|60)",
            "(|\\.[0-9]{1,10})",
            "(|Z|\\+00:00|\\+01:00|-00:00)",
        ).prop_map(|(date, t, time, fraction, zone)| format!("\"{date}{t}{time}{fraction}{zone}\"")),
        2 => "[0-9]{1,10}(\\.[0-9]{1,9})?",
        1 => number(),
    ]
}

/// A measure with its fields in either order, and white space wherever allowed.
fn measure() -> impl Strategy<Value = String> {
    (timestamp(), number(), any::<bool>(), prop::collection::vec(space(), 9)).prop_map(
        |(timestamp, value, swap, space)| {
            let timestamp = format!("\"timestamp\"{}:{}{timestamp}", space[0], space[1]);
            let value = format!("\"value\"{}:{}{value}", space[2], space[3]);
            let (first, second) = if swap { (value, timestamp) } else { (timestamp, value) };
            format!(
                "{}{{{}{first}{},{}{second}{}}}{}",
                space[4], space[5], space[6], space[7], space[8], space[4]
            )
        },
    )
}

/// Measures, most of them with the first one's layout.
fn list() -> impl Strategy<Value = String> {
    let repeated =
        (measure(), prop::collection::vec((0..60_u32, -99..99_i32), 0..12)).prop_map(|(first, rest)| {
            let mut measures = vec![first.clone()];
            // Only digits of the second and the value differ between measures.
            measures.extend(rest.into_iter().map(|(second, value)| {
                let text = first.replacen(":00\"", &format!(":{second:02}\""), 1);
                text.replacen("\"value\":0", &format!("\"value\":{value}"), 1)
            }));
            measures
        });
    let mixed = prop::collection::vec(measure(), 0..5);
    prop_oneof![repeated, mixed].prop_map(|measures| format!("[{}]", measures.join(",")))
}

/// A list of measures, or an object with one; its keys in any order, sometimes repeated.
fn named_list() -> impl Strategy<Value = String> {
    let keys = prop::collection::vec(
        prop_oneof![
            3 => list().prop_map(|list| format!("\"measures\":{list}")),
            1 => "\"unit\": \"[a-zé/]{0,3}\"",
            1 => "\"archive_policy_name\" :\"(low|a\\\\u0062|x{1,2})\"",
            1 => Just("\"unit\": null".to_owned()),
        ],
        0..4,
    );
    prop_oneof![2 => list(), 1 => keys.prop_map(|keys| format!("{{{}}}", keys.join(" , ")))]
}

/// Lists by resource and name, from few names and ids, so that some repeat.
fn named() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("cpu"), Just("é"), Just("a.b"), Just(""), Just("c\\\"d"), Just("x/y")];
    let id = prop_oneof![
        3 => any::<u128>().prop_map(|id| uuid::Uuid::from_u128(id).to_string()),
        2 => prop_oneof![
            Just("5dfe182a-51d2-4122-b90b-df0f215b736e"),
            Just("5DFE182A51D24122B90BDF0F215B736E"),
            Just("instance-1"),
            Just("é"),
            Just("a/b"),
            Just(""),
        ].prop_map(str::to_owned),
        1 => Just("x".repeat(290)),
    ];
    let few = prop::collection::vec((name.prop_map(str::to_owned), named_list()), 0..4);
    let many = prop::collection::vec(("[a-z]{1,2}", Just("[]".to_owned())), 15..25);
    let metrics = prop_oneof![9 => few, 1 => many].prop_map(|metrics| {
        let entries: Vec<String> =
            metrics.into_iter().map(|(name, list)| format!("\"{name}\": {list}")).collect();
        format!("{{{}}}", entries.join(","))
    });
    prop::collection::vec((id, metrics), 0..4).prop_map(|resources| {
        let entries: Vec<String> =
            resources.into_iter().map(|(id, metrics)| format!("\"{id}\":{metrics}")).collect();
        format!(" {{{}}}", entries.join(", "))
    })
}

/// The text with some bytes changed.
fn damaged(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    (
        text,
        prop::collection::vec(
            (any::<prop::sample::Index>(), "[\\[\\]{}\",:0-9eE.TZ+ \\\\x-]", any::<bool>()),
            0..3,
        ),
    )
        .prop_map(|(text, changes)| {
            let mut bytes = text.into_bytes();
            for (at, byte, insert) in changes {
                let at = at.index(bytes.len());
                if insert {
                    bytes.insert(at, byte.as_bytes()[0]);
                } else {
                    bytes[at] = byte.as_bytes()[0];
                }
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn on_lists(body in list()) {
        list_agrees(body.as_bytes())?;
    }

    #[test]
    fn on_damaged_lists(body in damaged(list())) {
        list_agrees(&body)?;
    }

    #[test]
    fn on_batches(lists in prop::collection::vec((any::<u128>(), list(), any::<bool>()), 0..4)) {
        let entry = |(id, list, upper): (u128, String, bool)| {
            let id = uuid::Uuid::from_u128(id).to_string();
            format!("\"{}\": {list}", if upper { id.to_uppercase() } else { id })
        };
        let entries: Vec<String> = lists.into_iter().map(entry).collect();
        batch_agrees(format!("{{{}}}", entries.join(", ")).as_bytes())?;
    }

    #[test]
    fn on_named_measures(body in named()) {
        named_agrees(body.as_bytes())?;
    }

    #[test]
    fn on_damaged_named_measures(body in damaged(named())) {
        named_agrees(&body)?;
    }

    #[test]
    fn on_arbitrary_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
        list_agrees(&body)?;
        batch_agrees(&body)?;
        named_agrees(&body)?;
    }
}

/// The property is meaningful only if the scanner accepts many of the generated bodies.
#[test]
fn the_scanner_takes_many_of_these_bodies() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut taken = |bodies: &BoxedStrategy<String>, agrees: fn(&[u8]) -> Result<bool, TestCaseError>| {
        (0..500)
            .filter(|_| {
                let body = bodies.new_tree(&mut runner).expect("nothing is rejected").current();
                agrees(body.as_bytes()).expect("they agree")
            })
            .count()
    };
    let (lists, named) = (taken(&list().boxed(), list_agrees), taken(&named().boxed(), named_agrees));
    assert!(lists > 100 && named > 100, "{lists} and {named} of 500");
}

#[test]
fn what_comes_twice_is_left_to_the_slow_parser() {
    let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
    let list = r#"[{"timestamp": 1, "value": 2}]"#;
    let regular = |body: String| named_agrees(body.as_bytes()).expect("they agree");
    assert!(regular(format!(
        r#"{{"{id}": {{"a": {list}, "b": {{"unit": "s", "measures": {list}}}}}, "x": {{}}}}"#
    )));
    assert!(!regular(format!(r#"{{"{id}": {{"a": {list}}}, "{id}": {{"b": {list}}}}}"#)));
    assert!(!regular(format!(r#"{{"{id}": {{"a": {list}}}, "{}": {{}}}}"#, id.to_uppercase())));
    assert!(!regular(format!(r#"{{"{id}": {{"a": {list}, "a": []}}}}"#)));
    let many = |last: &str| {
        let names: Vec<String> = (0..40).map(|name| format!(r#""m{name}": []"#)).collect();
        format!(r#"{{"{id}": {{{}, "{last}": []}}}}"#, names.join(","))
    };
    assert!(regular(many("n")));
    assert!(!regular(many("m3")));
}

/// Different spellings of a resource's id are one resource.
#[test]
fn lists_of_one_resource_are_joined() {
    let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
    let body = format!(
        r#"{{"{id}": {{"a": [{{"timestamp": 1, "value": 1}}], "b": []}}, "x": {{"c": []}}, "{}": {{"a": [{{"timestamp": 2, "value": 2}}], "d": []}}}}"#,
        id.to_uppercase()
    );
    let mut out = Vec::new();
    let (named, _) =
        named::read(body.as_bytes(), "foobar", || Timestamp(0), 10, &mut out).expect("it is a body");
    assert_eq!(named.resources.len(), 2);
    let names: Vec<(usize, &str, f64)> = named
        .metrics
        .iter()
        .map(|metric| {
            (
                metric.resource,
                &*metric.name,
                out[metric.range.clone()].iter().map(|measure| measure.value).sum(),
            )
        })
        .collect();
    assert_eq!(names, [(0, "a", 2.0), (0, "b", 0.0), (0, "d", 0.0), (1, "c", 0.0)]);
    assert!(named::read(body.as_bytes(), "foobar", || Timestamp(0), 1, &mut out).is_err());
}

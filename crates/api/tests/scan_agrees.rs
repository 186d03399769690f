//! The scanner and the slow parser agree: whatever the scanner takes, the slow parser takes, with the same bits.

use gnudi_api::measures::{
    scan::{self, Scan},
    slow,
};
use gnudi_model::{Measure, Timestamp};
use proptest::{prelude::*, strategy::ValueTree};

const MEASURES_MAX: usize = 64;

fn bits(measures: &[Measure]) -> Vec<(i64, u64)> {
    measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
}

/// What the slow parser makes of a list that the scanner has taken; true where it has.
fn list_agrees(body: &[u8]) -> Result<bool, TestCaseError> {
    let mut fast = Vec::new();
    match scan::list(body, MEASURES_MAX, &mut fast) {
        Scan::Irregular => return Ok(false),
        Scan::TooMany => {
            let error = slow::list(body, Timestamp(0), MEASURES_MAX, &mut Vec::new());
            // A body that breaks off behind the limit is refused for that, and as no JSON by the slow parser.
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
        // Of duplicates the last counts; `read_batch` sees to that for both.
        return Ok(false);
    }
    let (mut slow_parts, mut slow) = (Vec::new(), Vec::new());
    let read = slow::batch(body, Timestamp(0), MEASURES_MAX, &mut slow_parts, &mut slow);
    prop_assert!(read.is_ok(), "{:?}", read);
    prop_assert_eq!(fast_parts, slow_parts);
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

/// A measure with its fields in either order, and space wherever it may be.
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

/// Measures, most of them laid out as the first.
fn list() -> impl Strategy<Value = String> {
    let repeated =
        (measure(), prop::collection::vec((0..60_u32, -99..99_i32), 0..12)).prop_map(|(first, rest)| {
            let mut measures = vec![first.clone()];
            // The second's digits and the value's are what changes from one measure to the next.
            measures.extend(rest.into_iter().map(|(second, value)| {
                let text = first.replacen(":00\"", &format!(":{second:02}\""), 1);
                text.replacen("\"value\":0", &format!("\"value\":{value}"), 1)
            }));
            measures
        });
    let mixed = prop::collection::vec(measure(), 0..5);
    prop_oneof![repeated, mixed].prop_map(|measures| format!("[{}]", measures.join(",")))
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
    fn on_arbitrary_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
        list_agrees(&body)?;
        batch_agrees(&body)?;
    }
}

/// The property means something only as long as the scanner takes a good part of what is generated.
#[test]
fn the_scanner_takes_many_of_these_lists() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let taken = (0..500)
        .filter(|_| {
            let body = list().new_tree(&mut runner).expect("nothing is rejected").current();
            list_agrees(body.as_bytes()).expect("they agree")
        })
        .count();
    assert!(taken > 100, "{taken} of 500");
}

//! Random requests against a slow, simple model: raw points and stored aggregates in maps, and for every
//! request the result of one Gnocchi pass.
//!
//! `tests/oracle/fold.py` compares with Gnocchi itself. This test needs no installation and covers the
//! differences from Gnocchi: final buckets are never recomputed, even if the policy changes; a timespan
//! counts from the last bucket for all methods; buckets that the window cuts stay whole.

mod support;

use proptest::prelude::*;
use support::{
    Store, aggregations,
    model::{Model, Query},
    points, policies, policy, queries, requests,
};

use gnudi_series::head::Layout;

/// An event of a metric.
#[derive(Clone, Debug)]
enum Event {
    Request(Vec<(i64, f64)>),
    /// The last request is repeated, as after a crash.
    Replay,
    /// The head is encoded and decoded.
    Pass,
    /// The policy's new back window, and its new timespans in points: `None` means unlimited.
    Change(u64, Vec<Option<i64>>),
    Query(Query),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let change = (0u64..4, prop::collection::vec(prop::option::of(1i64..200), 3));
    let event = prop_oneof![
        6 => requests().prop_map(Event::Request),
        1 => Just(Event::Replay),
        2 => Just(Event::Pass),
        1 => change.prop_map(|(back_window, spans)| Event::Change(back_window, spans)),
        4 => queries().prop_map(Event::Query),
    ];
    prop::collection::vec(event, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn folding_equals_the_model(policy in policies(), events in events()) {
        let mut policy = policy;
        let mut store = Store::new(&policy);
        let mut model = Model::new();
        let mut last = Vec::new();
        for event in events {
            match event {
                Event::Request(request) => {
                    let outcome = store.fold(&request);
                    let late = model.fold(&policy, &request);
                    prop_assert_eq!(outcome.late, late);
                    last = request;
                }
                Event::Replay => {
                    let position = store.head.applied();
                    let outcome = store.head.fold(&store.layout, position, &mut points(&last));
                    prop_assert_eq!((outcome.accepted, outcome.late), (0, 0));
                }
                Event::Pass => store.pass(),
                Event::Change(back_window, spans) => {
                    policy.back_window = back_window;
                    for (item, span) in policy.definition.iter_mut().zip(spans) {
                        item.timespan = span.map(|points| gnudi_model::Timespan(item.granularity.0 * points));
                    }
                    store.layout = Layout::of(&policy);
                }
                Event::Query(query) => {
                    let aggregation = query.aggregation(&policy);
                    let got = store.read(aggregation, &query);
                    prop_assert_eq!(got, Ok(model.read(aggregation, &query)), "{:?}", (aggregation, query));
                }
            }
        }
        for aggregation in aggregations(&policy) {
            let got = store.read(aggregation, &Query::all());
            prop_assert_eq!(got, Ok(model.read(aggregation, &Query::all())), "{:?}", aggregation);
        }
    }

    /// Heads and sealed blocks are the same bytes, however passes batch the requests.
    #[test]
    fn passes_change_nothing(policy in policies(), requests in prop::collection::vec((requests(), any::<bool>()), 1..12)) {
        let (mut each, mut some) = (Store::new(&policy), Store::new(&policy));
        for (request, pass) in &requests {
            each.fold(request);
            each.pass();
            some.fold(request);
            if *pass {
                some.pass();
            }
        }
        some.pass();
        prop_assert_eq!(&each.written, &some.written);
        prop_assert_eq!(each.head.encoded(), some.head.encoded());
    }

    /// A bucket has all accepted points, whether or not granularities divide each other.
    #[test]
    fn buckets_are_whole(
        granularities in prop::collection::btree_set(1i64..40, 1..4),
        back_window in 0u64..3,
        requests in prop::collection::vec(requests(), 1..10),
        passes: bool,
    ) {
        let definition: Vec<_> = granularities.iter().map(|&granularity| (granularity, None)).collect();
        let policy = policy(back_window, &definition, &["sum", "count", "last", "median"]);
        let mut store = Store::new(&policy);
        let mut accepted = std::collections::BTreeMap::new();
        for request in &requests {
            let limit = store.late_limit();
            for (time, value) in support::model::sorted(request) {
                if time >= limit {
                    accepted.insert(time, value);
                }
            }
            store.fold(request);
            if passes {
                store.pass();
            }
        }
        for aggregation in aggregations(&policy) {
            let expected = support::model::buckets(&accepted, aggregation);
            prop_assert_eq!(store.read(aggregation, &Query::all()), Ok(expected), "{:?}", aggregation);
        }
    }

    /// A head damaged anywhere fails to decode.
    #[test]
    fn damage_is_found(policy in policies(), requests in prop::collection::vec(requests(), 1..6), at: prop::sample::Index, flip in 1u8..) {
        let mut store = Store::new(&policy);
        for request in &requests {
            store.fold(request);
        }
        store.pass();
        let mut blocks: Vec<Vec<u8>> = store.written.iter().map(|(_, bytes)| bytes.clone()).collect();
        let mut head = store.head.encoded();
        let index = at.index(head.len());
        head[index] ^= flip;
        prop_assert!(gnudi_series::head::Head::decode(&head).is_err());
        for block in &mut blocks {
            prop_assert!(gnudi_series::block::extent(block).is_ok());
            let index = at.index(block.len());
            block[index] ^= flip;
            prop_assert!(gnudi_series::block::extent(block).is_err());
            prop_assert!(gnudi_series::block::extent(&block[..index]).is_err());
        }
    }
}

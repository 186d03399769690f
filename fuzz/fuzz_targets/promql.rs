//! The parser of PromQL panics at no text; formatting a formatted query changes nothing; a plan can be evaluated.
#![no_main]

use gnudi_promql::{Evaluation, Limits, Options, QueryTimes, format, parse, syntax_tree};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(query) = std::str::from_utf8(input) else { return };
    let limits = Limits { query_bytes_max: 4096, memory_bytes_max: 1 << 24, ..Limits::default() };
    let Ok(printed) = format(query, &limits) else { return };
    // A formatted query is longer.
    let longer = Limits { query_bytes_max: 1 << 20, ..limits };
    assert_eq!(format(&printed, &longer).as_ref(), Ok(&printed));
    assert!(syntax_tree(query, &limits).is_ok());
    let times = QueryTimes { start_ms: 0, end_ms: 60_000, step_ms: 15_000 };
    if let Ok(plan) = parse(query, times, &limits) {
        let series = vec![Vec::new(); plan.selections(300_000).len()];
        let options = Options { limits, ..Options::default() };
        let _ = Evaluation { plan: &plan, series: &series, options }.run();
    }
});

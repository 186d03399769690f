//! `PromQL` as in Prometheus 3, pure: a query is parsed into a plan; the plan says which series it needs for which
//! times; the caller fetches them; the plan is evaluated on them. No I/O, no clock.
//!
//! A range query is evaluated column by column: each node of the tree computes, for each of its series, the values of
//! all steps (`series::Column`). Group keys and matching are computed once per series, not per step.
//!
//! Numbers, error texts and positions, and the order of results are Prometheus'. Missing compared to Prometheus 3.16:
//!
//! - native histograms: series have floats only; functions and operators that read native histograms are rejected;
//! - start timestamps: samples have none here;
//! - texts that are not UTF-8.

mod annotations;
mod error;
mod eval;
mod functions;
mod labels;
mod letters;
mod limits;
mod numbers;
mod plan;
mod quoted;
mod series;
mod syntax;
mod value;

pub use error::{Error, ErrorKind, Interrupt};
pub use eval::{EvaluatedSeries, Evaluation, Options, Pushdown, Selected, StepSeries, Steps};
pub use labels::{Labels, METRIC_NAME};
pub use limits::Limits;
pub use plan::{
    MatchKind, Matcher, Plan, QueryTimes, RegexStates, Selection, Windows, parse, parse_selector,
    parse_selectors_of,
};
pub use quoted::quoted;
pub use series::{STALE_NAN_BITS, Series};
pub use syntax::{duration_ms, format, syntax_tree};
pub use value::{QueryResult, Sample, SampleSeries, Usage, Value};

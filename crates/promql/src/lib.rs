//! `PromQL` as Prometheus 3 defines it, pure: a query is parsed into a plan, the plan says which series it needs of which time, the
//! caller fetches them, the plan is evaluated on them. No I/O, no clock.
//!
//! A range query is evaluated column by column: each node of the tree gives, for each of its series, the values of all steps
//! (`series::Column`). Group keys and matching are worked out once for each series, not once for each step.
//!
//! Numbers, texts of errors, positions in them, and the order of results are Prometheus'. What Prometheus 3.16 has and this lacks:
//!
//! - native histograms: series have floats only; functions and operators that read native histograms are refused;
//! - start timestamps, which no sample has here;
//! - texts that are no UTF-8.

mod annotations;
mod error;
mod eval;
mod functions;
mod hash;
mod labels;
mod limits;
mod numbers;
mod plan;
mod quoted;
mod series;
mod syntax;
mod value;

pub use error::{Error, ErrorKind, Interrupt};
pub use eval::{Evaluation, Options};
pub use labels::{Labels, METRIC_NAME};
pub use limits::Limits;
pub use plan::{MatchKind, Matcher, Plan, QueryTimes, Selection, ValueKind, Windows, parse, parse_selector};
pub use series::{STALE_NAN_BITS, Series};
pub use syntax::{format, syntax_tree};
pub use value::{QueryResult, Sample, SampleSeries, Usage, Value};

//! The functions of the language: their types, and the arithmetic of each. Their evaluation over vectors is in `eval`.

pub(crate) mod date;
pub(crate) mod extended;
pub(crate) mod histogram;
pub(crate) mod labels;
pub(crate) mod math;
pub(crate) mod over_time;
pub(crate) mod rate;
pub(crate) mod regression;
pub(crate) mod sort;
mod table;

use crate::error::Result;
use crate::plan::ValueKind;
use date::Civil;

/// The samples of a range vector's series at one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Samples<'a> {
    pub times: &'a [i64],
    pub values: &'a [f64],
    /// If the values are sums: the number of measurements in each.
    pub counts: Option<&'a [f64]>,
    /// The step. Milliseconds, as all times here.
    pub time: i64,
    /// The window is (start, end].
    pub window_start: i64,
    pub window_end: i64,
}

impl Samples<'_> {
    fn range_seconds(&self) -> f64 {
        seconds(self.window_end - self.window_start)
    }
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// The value of a window, if it has one.
type Answer = Result<Option<f64>>;

/// A function of a window, and of the scalars among its arguments.
pub(crate) type OverTime = fn(&Samples<'_>, &[f64]) -> Answer;

/// What a function does with its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Each value by itself.
    Math(fn(f64) -> f64),
    Clamp,
    ClampMin,
    ClampMax,
    Round,
    /// A part of a time in UTC; the evaluation time without an argument.
    Date(fn(&Civil) -> f64),
    Time,
    Timestamp,
    /// Samples of the store have no start timestamps: an empty vector, as from a Prometheus without them.
    StartTimestamp,
    Pi,
    Scalar,
    Vector,
    MinOf,
    MaxOf,
    QueryStart,
    QueryEnd,
    QueryRange,
    QueryStep,
    Absent,
    AbsentOverTime,
    OverTime(OverTime),
    Sort {
        descending: bool,
    },
    SortByLabel {
        descending: bool,
    },
    LabelReplace,
    LabelJoin,
    HistogramQuantile,
    HistogramQuantiles,
    HistogramFraction,
    /// Labels of other series (`plan::Info`).
    Info,
    /// It works on native histograms only.
    NativeHistogram,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    pub args: &'static [ValueKind],
    /// Repetitions of the last argument: 0 means exactly once; otherwise it is optional, up to this many times, or
    /// without limit if negative.
    pub variadic: i32,
    pub returns: ValueKind,
    pub kind: Kind,
}

impl Function {
    pub(crate) fn by_name(name: &str) -> Option<&'static Function> {
        table::FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// The least and the most arguments.
    pub(crate) fn arity(&self) -> (usize, Option<usize>) {
        let declared = self.args.len();
        match self.variadic {
            0 => (declared, Some(declared)),
            more if more > 0 => (declared - 1, Some(declared - 1 + more as usize)),
            _ => (declared - 1, None),
        }
    }

    /// Whether the value depends on the evaluation time even if the arguments do not.
    pub(crate) fn reads_time(&self) -> bool {
        match self.kind {
            Kind::Date(_) | Kind::Time | Kind::Timestamp | Kind::StartTimestamp => true,
            Kind::OverTime(_) => self.name == "predict_linear",
            _ => false,
        }
    }

    /// Functions that return a sample of the range unchanged keep the metric's name.
    pub(crate) fn keeps_name(&self) -> bool {
        self.name == "last_over_time" || self.name == "first_over_time"
    }

    /// Whether the function expects a counter. Counters are recognised by their names.
    pub(crate) fn expects_counter(&self) -> bool {
        self.name == "rate" || self.name == "increase"
    }
}

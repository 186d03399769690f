//! All functions by name.

use super::{Function, Kind, OverTime, date, math, over_time, rate, regression};
use crate::plan::ValueKind::{self, Matrix, Scalar, String, Vector};

const fn function(name: &'static str, args: &'static [ValueKind], kind: Kind) -> Function {
    Function { name, args, variadic: 0, returns: Vector, kind }
}

const fn over_time(name: &'static str, kind: OverTime) -> Function {
    function(name, &[Matrix], Kind::OverTime(kind))
}

const fn math(name: &'static str, kind: fn(f64) -> f64) -> Function {
    function(name, &[Vector], Kind::Math(kind))
}

const fn date(name: &'static str, kind: fn(&date::Civil) -> f64) -> Function {
    variadic(function(name, &[Vector], Kind::Date(kind)), 1)
}

const fn native(name: &'static str) -> Function {
    function(name, &[Vector], Kind::NativeHistogram)
}

const fn scalar(name: &'static str, args: &'static [ValueKind], kind: Kind) -> Function {
    Function { returns: Scalar, ..function(name, args, kind) }
}

#[allow(clippy::needless_pass_by_value, reason = "a constant is changed")]
const fn variadic(function: Function, variadic: i32) -> Function {
    Function { variadic, ..function }
}

pub(super) static FUNCTIONS: &[Function] = &[
    math("abs", f64::abs),
    function("absent", &[Vector], Kind::Absent),
    function("absent_over_time", &[Matrix], Kind::AbsentOverTime),
    math("acos", f64::acos),
    math("acosh", math::acosh),
    math("asin", f64::asin),
    math("asinh", math::asinh),
    math("atan", f64::atan),
    math("atanh", math::atanh),
    over_time("avg_over_time", over_time::avg),
    math("ceil", f64::ceil),
    over_time("changes", rate::changes),
    function("clamp", &[Vector, Scalar, Scalar], Kind::Clamp),
    function("clamp_max", &[Vector, Scalar], Kind::ClampMax),
    function("clamp_min", &[Vector, Scalar], Kind::ClampMin),
    math("cos", f64::cos),
    math("cosh", f64::cosh),
    over_time("count_over_time", over_time::count),
    date("day_of_month", |civil| civil.day as f64),
    date("day_of_week", |civil| civil.weekday() as f64),
    date("day_of_year", |civil| civil.day_of_year() as f64),
    date("days_in_month", |civil| civil.days_in_month() as f64),
    math("deg", f64::to_degrees),
    over_time("delta", rate::delta),
    over_time("deriv", regression::deriv),
    function(
        "double_exponential_smoothing",
        &[Matrix, Scalar, Scalar],
        Kind::OverTime(regression::double_exponential_smoothing),
    ),
    scalar("end", &[], Kind::QueryEnd),
    math("exp", f64::exp),
    over_time("first_over_time", over_time::first),
    math("floor", f64::floor),
    native("histogram_avg"),
    native("histogram_count"),
    function("histogram_fraction", &[Scalar, Scalar, Vector], Kind::HistogramFraction),
    function("histogram_quantile", &[Scalar, Vector], Kind::HistogramQuantile),
    variadic(function("histogram_quantiles", &[Vector, String, Scalar, Scalar], Kind::HistogramQuantiles), 9),
    native("histogram_stddev"),
    native("histogram_stdvar"),
    native("histogram_sum"),
    date("hour", |civil| civil.hour as f64),
    over_time("idelta", rate::idelta),
    over_time("increase", rate::increase),
    variadic(function("info", &[Vector, Vector], Kind::Info), 1),
    variadic(function("integral", &[Matrix, Scalar], Kind::OverTime(over_time::integral)), 1),
    over_time("irate", rate::irate),
    variadic(function("label_join", &[Vector, String, String, String], Kind::LabelJoin), -1),
    function("label_replace", &[Vector, String, String, String, String], Kind::LabelReplace),
    over_time("last_over_time", over_time::last),
    math("ln", f64::ln),
    math("log10", f64::log10),
    math("log2", f64::log2),
    over_time("mad_over_time", over_time::median_absolute_deviation),
    scalar("max_of", &[Scalar, Scalar], Kind::MaxOf),
    over_time("max_over_time", over_time::max),
    scalar("min_of", &[Scalar, Scalar], Kind::MinOf),
    over_time("min_over_time", over_time::min),
    date("minute", |civil| civil.minute as f64),
    date("month", |civil| civil.month as f64),
    scalar("pi", &[], Kind::Pi),
    function("predict_linear", &[Matrix, Scalar], Kind::OverTime(regression::predict_linear)),
    over_time("present_over_time", over_time::present),
    function("quantile_over_time", &[Scalar, Matrix], Kind::OverTime(over_time::quantile_over_time)),
    math("rad", f64::to_radians),
    scalar("range", &[], Kind::QueryRange),
    over_time("rate", rate::rate),
    over_time("resets", rate::resets),
    variadic(function("round", &[Vector, Scalar], Kind::Round), 1),
    scalar("scalar", &[Vector], Kind::Scalar),
    math("sgn", math::sign),
    math("sin", f64::sin),
    math("sinh", f64::sinh),
    function("sort", &[Vector], Kind::Sort { descending: false }),
    variadic(function("sort_by_label", &[Vector, String], Kind::SortByLabel { descending: false }), -1),
    variadic(function("sort_by_label_desc", &[Vector, String], Kind::SortByLabel { descending: true }), -1),
    function("sort_desc", &[Vector], Kind::Sort { descending: true }),
    math("sqrt", f64::sqrt),
    scalar("start", &[], Kind::QueryStart),
    function("start_timestamp", &[Vector], Kind::StartTimestamp),
    over_time("stddev_over_time", over_time::stddev),
    over_time("stdvar_over_time", over_time::stdvar),
    scalar("step", &[], Kind::QueryStep),
    over_time("sum_over_time", over_time::sum),
    math("tan", f64::tan),
    math("tanh", f64::tanh),
    scalar("time", &[], Kind::Time),
    function("timestamp", &[Vector], Kind::Timestamp),
    over_time("ts_of_first_over_time", over_time::time_of_first),
    over_time("ts_of_last_over_time", over_time::time_of_last),
    over_time("ts_of_max_over_time", over_time::time_of_max),
    over_time("ts_of_min_over_time", over_time::time_of_min),
    function("vector", &[Scalar], Kind::Vector),
    date("year", |civil| civil.year as f64),
];

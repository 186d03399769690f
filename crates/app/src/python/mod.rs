//! Python's conversions of JSON values, which define Gnocchi's API: `float()`, `int()`, and Gnocchi's
//! `to_timespan` and `to_timestamps`.

mod number;
mod timespan;
mod timestamps;

pub use number::{float, float_of_text, int};
pub use timespan::timespan;
pub use timestamps::{NotTimestamps, timestamp, timestamps};

//! What Python's built-ins make of a JSON value, since Gnocchi's API is defined by them: `float()`, `int()`, and its own
//! `to_timespan` and `to_timestamps`.

mod number;
mod timespan;
mod timestamps;

pub use number::{float, float_of_text, int};
pub use timespan::timespan;
pub use timestamps::{NotTimestamps, timestamp, timestamps};

//! Python's and numpy's interpretation of texts and numbers, which defines Gnocchi's API.
//!
//! Decoding request bodies is left to the API crates.

mod date;
pub mod fnmatch;
mod iso8601;
mod number;
mod text;
mod url;

pub use date::{
    NotTimestamps, after_epoch, datetime, nanoseconds_of_date, nanoseconds_of_seconds, nanoseconds_relative,
    timestamp_of_seconds, timestamp_of_text,
};
pub use iso8601::normal_date;
pub(crate) use number::with_ascii_digits;
pub use number::{float_of_text, int_of_float, int_of_text, text_of_float};
pub use text::{bool_of_text, expand_tabs, parse_uuid, repr_str};
pub use url::{quote, quote_plus, request_url, unquote, unquote_plus, unquote_strict};

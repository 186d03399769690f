//! The maths of a metric's series, and its stored formats. Pure functions of their arguments: no I/O, no
//! clock, no async.
//!
//! A request's points are encoded as [`points`]. A pass folds them into the metric's [`head`] and seals its
//! full buckets into [`block`]s. [`read`] joins blocks and head, and may aggregate again with [`resample`].
//! [`cross`] joins the series of many metrics and evaluates [`operations`] on them.

mod aggregate;
mod bits;
pub mod block;
pub mod calendar;
mod counter;
pub mod cross;
pub mod head;
pub mod layout;
pub mod operations;
pub mod packing;
pub mod points;
pub mod raw;
pub mod read;
pub mod removal;
pub mod resample;
mod rows;
mod values;
mod whole;

/// The result of decoding.
pub type Result<T, E = CodecError> = std::result::Result<T, E>;

/// The bytes are not in a format of this crate. The text is for a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("the bytes end too early")]
    Truncated,
    #[error("the checksum does not match")]
    Checksum,
    #[error("format version {0} is not known")]
    Version(u8),
    #[error("invalid {0}")]
    Invalid(&'static str),
}

//! The maths of a metric's series, and the bytes it is stored as. Pure functions of their arguments: no I/O, no clock,
//! no async.
//!
//! A request's points travel as [`points`]. A pass folds them into the metric's [`head`], from which full [`block`]s
//! leave joins blocks and head with [`read`], which may aggregate them again with [`resample`]; the series of many
//! metrics meet in [`cross`], where [`operations`] are evaluated on them.

mod aggregate;
mod bits;
pub mod block;
pub mod calendar;
mod counter;
pub mod cross;
mod error;
pub mod head;
pub mod layout;
pub mod operations;
mod packing;
pub mod points;
pub mod raw;
pub mod read;
pub mod removal;
pub mod resample;
mod rows;
mod values;
mod whole;

pub use error::CodecError;

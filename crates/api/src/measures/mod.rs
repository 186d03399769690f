//! Measures as they come in and go out over HTTP.

pub mod number;
pub mod scan;

//! api
pub mod json;
pub mod measures;

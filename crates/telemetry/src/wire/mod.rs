//! Wire formats of samples and events: dictionaries with fixed names, signed with a shared secret, as JSON,
//! `MessagePack` and Python's text form.
//!
//! Field names, their order and the signature are Ceilometer's, so that either side may be Ceilometer.

mod event;
pub mod python;
mod sample;
mod signature;

pub use event::{event_message, event_record_json, event_record_repr, events_list, trait_value};
pub use python::{json as python_json, str as python_str};
pub use sample::{MeterMessage, sample_record_json, sample_record_repr, samples_list, samples_payload};
pub use signature::Signer;

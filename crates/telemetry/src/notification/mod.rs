//! The notification agent: takes what services put on the bus, makes samples and events of it, and hands them to pipelines.
//!
//! A message is acknowledged when all that it held is where its publishers put it, never before.

pub mod message;

pub use message::Notification;

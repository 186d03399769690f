//! Figures of shared stores, for `/metrics`.

use std::time::Duration;

/// A figure of this process's work on a shared store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Without a prefix and without `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub value: FigureValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureValue {
    /// Counts since the start.
    Counter(u64),
    /// Time since the start, in seconds.
    Time(Duration),
    /// Is so now.
    Gauge(u64),
}

impl Figure {
    pub(crate) fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Figure { name, help, value: FigureValue::Counter(value) }
    }

    pub(crate) fn time(name: &'static str, help: &'static str, value: Duration) -> Self {
        Figure { name, help, value: FigureValue::Time(value) }
    }

    pub(crate) fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Figure { name, help, value: FigureValue::Gauge(value) }
    }
}

//! A registry of logs whose users panic.

use async_trait::async_trait;
use gnudi_drivers::{
    coordination::CoordinationError,
    incoming::registry::{LogRegistry, MemoryLogRegistry, RegisteredLog},
};

/// Panics when the progress of a log that has records is recorded.
#[derive(Default)]
pub struct Panicking(MemoryLogRegistry);

#[async_trait]
impl LogRegistry for Panicking {
    async fn newest_log(&self) -> Result<Option<RegisteredLog>, CoordinationError> {
        self.0.newest_log().await
    }

    async fn register_log(&self, log: &RegisteredLog) -> Result<(), CoordinationError> {
        self.0.register_log(log).await
    }

    async fn raise_log(&self, log: &RegisteredLog) -> Result<bool, CoordinationError> {
        assert!(log.reached <= log.first, "as planned");
        self.0.raise_log(log).await
    }
}

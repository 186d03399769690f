//! Retries a step of the start while its engine does not respond, up to a timeout.

use std::{fmt::Display, future::Future, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use crate::config::Config;

/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Timeout of a command: a user waits for it, but a short outage should not fail it.
const BRIEF: Duration = Duration::from_secs(5);

/// How long engines are waited for, counted from the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    until: Instant,
    timeout: Duration,
    /// The option of the timeout; `None` for a command.
    option: Option<&'static str>,
}

/// Whether a retry may help.
pub trait Retryable {
    fn may_pass(&self) -> bool;
}

impl RetryPolicy {
    /// For a short-running command: five seconds.
    pub fn for_command() -> Self {
        RetryPolicy::new(BRIEF, None)
    }

    /// For a server: `[DEFAULT] start_timeout`.
    pub fn configured(config: &Config) -> Self {
        RetryPolicy::new(config.seconds("DEFAULT", "start_timeout"), Some("[DEFAULT] start_timeout"))
    }

    fn new(timeout: Duration, option: Option<&'static str>) -> Self {
        RetryPolicy { until: Instant::now() + timeout, timeout, option }
    }

    /// Whether the program is a short-running command, which holds no lease.
    pub fn is_command(self) -> bool {
        self.option.is_none()
    }

    /// Calls `step` until it succeeds or the timeout expires. Logs each new failure; the last one is the error,
    /// prefixed with `place` (the option that names the engine).
    pub async fn run<T, E, F>(self, place: &str, mut step: impl FnMut() -> F) -> Result<T>
    where
        E: std::error::Error + Retryable + Send + Sync + 'static,
        F: Future<Output = Result<T, E>>,
    {
        let mut said = String::new();
        loop {
            let error = match step().await {
                Ok(done) => {
                    if !said.is_empty() {
                        tracing::info!("{place}: answers");
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            if !error.may_pass() {
                return Err(error).context(place.to_owned());
            }
            if Instant::now() + PAUSE >= self.until {
                let option = self.option.map_or_else(String::new, |option| format!(" ({option})"));
                let waited = format!("{place}: given up after {} s{option}", self.timeout.as_secs());
                return Err(error).context(waited);
            }
            log_retry(place, &error, &mut said, self.until);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn log_retry(place: &str, error: &impl Display, said: &mut String, until: Instant) {
    let text = error.to_string();
    if *said != text {
        let left = until.saturating_duration_since(Instant::now()).as_secs();
        tracing::warn!("{place}: {text}: tried again for {left} s");
        *said = text;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{}", if self.0 { "later" } else { "never" })]
    struct Failure(bool);

    impl Retryable for Failure {
        fn may_pass(&self) -> bool {
            self.0
        }
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_until_the_time_is_up() {
        let tries = Cell::new(0);
        let fail_until = |needed: u32, may_pass| {
            tries.set(0);
            let tries = &tries;
            move || async move {
                tries.set(tries.get() + 1);
                if tries.get() < needed { Err(Failure(may_pass)) } else { Ok(tries.get()) }
            }
        };
        let retry = RetryPolicy::new(Duration::from_secs(10), None);
        assert_eq!(retry.run("x", fail_until(3, true)).await.unwrap(), 3);
        let error = retry.run::<u32, _, _>("x", fail_until(9, false)).await.unwrap_err();
        assert_eq!((tries.get(), format!("{error:#}").as_str()), (1, "x: never"));
        for (option, text) in
            [(None, "x: given up after 0 s: later"), (Some("o"), "x: given up after 0 s (o): later")]
        {
            let short = RetryPolicy::new(Duration::from_millis(1), option);
            let error = short.run::<u32, _, _>("x", fail_until(9, true)).await.unwrap_err();
            assert_eq!((tries.get(), format!("{error:#}").as_str()), (1, text));
        }
    }
}

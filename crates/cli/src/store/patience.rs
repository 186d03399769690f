//! Opening an engine that does not answer yet: tried again until it does, or until the time for it is up.

use std::{fmt::Display, future::Future, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use crate::config::Config;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// How long engines are waited for, from the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    until: Instant,
    timeout: Duration,
}

/// Whether trying again may help.
pub trait Hopeful {
    fn may_pass(&self) -> bool;
}

impl Patience {
    /// Tries once: somebody waits for the answer.
    pub fn none() -> Self {
        Patience::new(Duration::ZERO)
    }

    /// `[DEFAULT] start_timeout`.
    pub fn configured(config: &Config) -> Self {
        Patience::new(Duration::from_secs(config.size("DEFAULT", "start_timeout") as u64))
    }

    pub fn new(timeout: Duration) -> Self {
        Patience { until: Instant::now() + timeout, timeout }
    }

    /// What `open` answers at last. A failure is logged when it is a new one; the last is the error, with `place` (the option
    /// that names the engine) before it.
    pub async fn open<T, E, F>(self, place: &str, mut open: impl FnMut() -> F) -> Result<T>
    where
        E: std::error::Error + Hopeful + Send + Sync + 'static,
        F: Future<Output = Result<T, E>>,
    {
        let mut said = String::new();
        loop {
            let error = match open().await {
                Ok(opened) => {
                    if !said.is_empty() {
                        tracing::info!("{place}: answers");
                    }
                    return Ok(opened);
                }
                Err(error) => error,
            };
            if !error.may_pass() {
                return Err(error).context(place.to_owned());
            }
            if self.timeout.is_zero() {
                return Err(error).context(place.to_owned());
            }
            if Instant::now() + PAUSE >= self.until {
                let waited =
                    format!("{place}: given up after {} s ([DEFAULT] start_timeout)", self.timeout.as_secs());
                return Err(error).context(waited);
            }
            tell(place, &error, &mut said, self.until);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn tell(place: &str, error: &impl Display, said: &mut String, until: Instant) {
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

    impl Hopeful for Failure {
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
        let patience = Patience::new(Duration::from_secs(10));
        assert_eq!(patience.open("x", fail_until(3, true)).await.unwrap(), 3);
        let error = patience.open::<u32, _, _>("x", fail_until(9, false)).await.unwrap_err();
        assert_eq!((tries.get(), format!("{error:#}").as_str()), (1, "x: never"));
        let error = Patience::none().open::<u32, _, _>("x", fail_until(9, true)).await.unwrap_err();
        assert_eq!((tries.get(), format!("{error:#}").as_str()), (1, "x: later"));
        let short = Patience::new(Duration::from_millis(1));
        let error = short.open::<u32, _, _>("x", fail_until(9, true)).await.unwrap_err();
        assert!(format!("{error:#}").contains("given up after"), "{error:#}");
    }
}

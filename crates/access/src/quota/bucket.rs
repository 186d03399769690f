//! A token bucket that may go into debt. A request is admitted while the balance is positive and charged
//! afterwards, so its cost need not be known beforehand; later requests wait until the debt is paid.

use std::time::Duration;

use gnudi_model::Timestamp;

/// The capacity of a bucket in seconds of its rate: the maximum burst.
pub const BURST_SECONDS: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    balance: f64,
    at: Timestamp,
}

impl Bucket {
    pub fn full(per_second: u64, now: Timestamp) -> Self {
        Bucket { balance: per_second as f64 * BURST_SECONDS, at: now }
    }

    /// Refills the bucket and checks that it is not empty.
    ///
    /// # Errors
    /// How long to wait.
    pub fn admit(&mut self, per_second: u64, now: Timestamp) -> Result<(), Duration> {
        let rate = per_second as f64;
        // Setting the clock back neither adds nor removes tokens.
        let elapsed = now.0.saturating_sub(self.at.0).max(0) as f64 / 1e9;
        self.balance = (self.balance + elapsed * rate).min(rate * BURST_SECONDS);
        self.at = now;
        if self.balance > 0.0 {
            return Ok(());
        }
        // Until the balance is one.
        Err(Duration::try_from_secs_f64((1.0 - self.balance) / rate).unwrap_or(Duration::MAX))
    }

    pub fn take(&mut self, amount: f64) {
        self.balance -= amount;
    }

    /// Admits a request to a bucket, which is full at first, and charges it.
    ///
    /// # Errors
    /// As [`Bucket::admit`].
    pub fn charge(
        bucket: &mut Option<Self>,
        per_second: u64,
        now: Timestamp,
        amount: f64,
    ) -> Result<(), Duration> {
        let bucket = bucket.get_or_insert_with(|| Bucket::full(per_second, now));
        bucket.admit(per_second, now).map(|()| bucket.take(amount))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Over any time, at most the capacity, the refill and one request are admitted.
        #[test]
        fn a_rate_is_kept(
            per_second in 1..1000_u64,
            requests in prop::collection::vec((0..3_000_000_000_i64, 1..5000_u32), 1..60),
        ) {
            let mut now = 0;
            let mut bucket = Bucket::full(per_second, Timestamp(now));
            let (mut taken, mut largest) = (0.0, 0.0_f64);
            for (pause, amount) in requests {
                now += pause;
                match bucket.admit(per_second, Timestamp(now)) {
                    Ok(()) => {
                        bucket.take(f64::from(amount));
                        taken += f64::from(amount);
                        largest = largest.max(f64::from(amount));
                    }
                    Err(wait) => {
                        // A client that retries after the wait is admitted.
                        let later = now + i64::try_from(wait.as_nanos()).unwrap() + 1000;
                        prop_assert!(bucket.clone().admit(per_second, Timestamp(later)).is_ok());
                    }
                }
                let brought = per_second as f64 * (BURST_SECONDS + now as f64 / 1e9);
                prop_assert!(taken <= brought + largest + 1e-6 * brought, "{taken} of {brought}");
            }
        }
    }
}

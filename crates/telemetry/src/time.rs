//! The machine's clock, and times as Python prints naive datetimes.

use std::time::SystemTime;

use gnudi_model::Timestamp;

pub fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Python's `isoformat` of a naive UTC time: `2026-01-31T12:00:00.123456`; no fraction if it is zero.
pub fn naive_iso(timestamp: Timestamp) -> String {
    timestamp.to_iso_micros().trim_end_matches("+00:00").to_owned()
}

/// Python's `str` of it: with a space for the T.
pub fn naive_text(timestamp: Timestamp) -> String {
    naive_iso(timestamp).replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_naive() {
        assert_eq!(naive_iso(Timestamp(0)), "1970-01-01T00:00:00");
        assert_eq!(naive_text(Timestamp(1_500)), "1970-01-01 00:00:00.000001");
    }
}

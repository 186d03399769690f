//! Numbers on the command line: positive, with gnocchiclient's messages, and limited.

/// Maximum requests of a run; a created metric takes 36 bytes until it is deleted.
pub const REQUESTS_MAX: u64 = 100_000_000;
/// Each has a connection.
pub const WORKERS_MAX: u64 = 10_000;
pub const THREADS_MAX: u64 = 256;
/// Maximum measures per request, some 45 bytes each.
pub const BATCH_MAX: u64 = 1_000_000;

/// A number from 1 to `MAX`.
pub fn up_to<const MAX: u64>(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} must be an integer"));
    }
    if text.starts_with('-') || digits.bytes().all(|byte| byte == b'0') {
        return Err(format!("{text} must be greater than 0"));
    }
    let number = digits.parse().ok().filter(|number| *number <= MAX);
    number.ok_or_else(|| format!("{text} must not be above {MAX}"))
}

//! Numbers on the command line: positive, with gnocchiclient's messages, and limited.

/// Maximum requests of a run; a created metric takes 36 bytes until it is deleted.
const COUNT_MAX: u64 = 100_000_000;
/// Each has a connection.
const WORKERS_MAX: u64 = 10_000;
const THREADS_MAX: u64 = 256;
/// Maximum measures per request, some 45 bytes each.
const BATCH_MAX: u64 = 1_000_000;

fn number(text: &str, max: u64) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} must be an integer"));
    }
    if text.starts_with('-') || digits.bytes().all(|byte| byte == b'0') {
        return Err(format!("{text} must be greater than 0"));
    }
    digits
        .parse()
        .ok()
        .filter(|number| *number <= max)
        .ok_or_else(|| format!("{text} must not be above {max}"))
}

pub fn requests(text: &str) -> Result<u64, String> {
    number(text, COUNT_MAX)
}

pub fn workers(text: &str) -> Result<u64, String> {
    number(text, WORKERS_MAX)
}

pub fn threads(text: &str) -> Result<u64, String> {
    number(text, THREADS_MAX)
}

pub fn batch(text: &str) -> Result<u64, String> {
    number(text, BATCH_MAX)
}

//! A server's durability: whether acknowledged writes survive a power loss.

use std::fmt;

use redis::Value;

/// From the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RedisDurability {
    /// `appendonly no`: a restart loses everything, or everything since the last snapshot.
    Memory,
    /// `appendfsync no`: the operating system writes at any time.
    System,
    /// Unknown: CONFIG is not allowed to this user.
    Unknown,
    /// `appendfsync everysec`: a power loss loses about a second.
    EverySecond,
    /// `appendfsync always`: on disk before the response.
    Disk,
}

impl RedisDurability {
    /// From the responses to `CONFIG GET appendonly` and `CONFIG GET appendfsync`.
    pub(super) fn of(appendonly: &Value, appendfsync: &Value) -> Self {
        match (second(appendonly), second(appendfsync)) {
            (Some(b"no"), _) => RedisDurability::Memory,
            (Some(b"yes"), Some(b"always")) => RedisDurability::Disk,
            (Some(b"yes"), Some(b"everysec")) => RedisDurability::EverySecond,
            (Some(b"yes"), Some(b"no")) => RedisDurability::System,
            _ => RedisDurability::Unknown,
        }
    }
}

/// The value in a response with a name and a value, as an array or a map.
fn second(value: &Value) -> Option<&[u8]> {
    let value = match value {
        Value::Array(items) => items.get(1)?,
        Value::Map(items) => &items.first()?.1,
        _ => return None,
    };
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

impl fmt::Display for RedisDurability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            RedisDurability::Memory => {
                "in memory only: appendonly is off, a restart of the server loses them"
            }
            RedisDurability::System => {
                "with appendfsync no: a power cut loses what the system had not written yet"
            }
            RedisDurability::Unknown => {
                "not known: the server does not show its configuration (CONFIG GET is refused)"
            }
            RedisDurability::EverySecond => "with appendfsync everysec: a power cut loses about a second",
            RedisDurability::Disk => "on disk: appendfsync always",
        })
    }
}

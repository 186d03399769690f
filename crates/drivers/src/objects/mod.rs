//! Object stores: Ceph, S3, Swift, a shared file system.
//!
//! An object is written as a whole. `incoming::objects` and `aggregates::objects` need two guarantees: an
//! object can be created only if absent, which decides between two writers, and a written object is visible
//! to all later reads by name. Listing is only needed for cleanup, and may lag behind.

use async_trait::async_trait;
use bytes::Bytes;

pub mod ceph;
pub mod clock;
pub mod file;
pub(crate) mod http;
pub mod memory;
mod mount;
pub mod s3;
mod scan;
pub mod swift;

pub use gnudi_model::Secret;
pub use http::HttpOptions;

use crate::OpenError;

/// Maximum length of an object's name.
pub const NAME_BYTES_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object exists; nothing was changed.
    #[error("the object {0} exists already")]
    Exists(String),
    /// No space, or the quota is exhausted.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The store does not respond, or asks for a later retry. The request may have taken effect.
    #[error("{0}")]
    Unavailable(String),
    /// A permanent error: wrong keys, no such bucket.
    #[error("{0}")]
    Refused(String),
}

/// Names consist of letters, digits and `-_./`, at most 200 bytes; their parts between slashes are neither
/// empty nor `.` or `..`. An object's name is never also a folder of other names (no `a/b` beside `a`): some
/// stores would not list it. A name is used either with `create` or with `put`, never both: a store without
/// exclusive creation keeps the two apart.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// The store, for messages: `ceph pool gnocchi`, `s3 bucket metrics at https://...`. No passwords.
    fn place(&self) -> String;

    /// Writes or overwrites an object. Durable once it returns.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// Writes an object if absent, otherwise [`ObjectError::Exists`]. Of several concurrent calls one
    /// succeeds. Durable once it returns. After [`ObjectError::Unavailable`] the object may exist: a caller
    /// that must know reads it. After any other error this call has not created it, and will not.
    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// The object; `None` if absent.
    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError>;

    /// `length` bytes from `start` on, fewer if the object ends before; `None` if it is absent.
    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError>;

    /// Removes objects; missing ones are no error.
    async fn delete(&self, names: &[String]) -> Result<(), ObjectError>;

    /// The names with the prefix, sorted by bytes. May lack recently created objects, and include recently
    /// removed ones.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError>;
}

/// Whether it is a valid name (see [`Objects`]); other objects may exist in the same place.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(allowed)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn check_name(name: &str) -> Result<(), ObjectError> {
    if is_name(name) { Ok(()) } else { Err(ObjectError::Refused(format!("invalid object name: {name:?}"))) }
}

/// The value of the HTTP header `Range`; `None` for an empty range. Servers use signed numbers.
fn range_of(start: u64, length: u64) -> Option<String> {
    if i64::try_from(start).is_err() {
        return None;
    }
    let last = start.checked_add(length.checked_sub(1)?);
    match last.filter(|last| i64::try_from(*last).is_ok()) {
        Some(last) => Some(format!("bytes={start}-{last}")),
        None => Some(format!("bytes={start}-")),
    }
}

/// Converts an error while opening a store.
fn open_error(place: &str, error: &ObjectError) -> OpenError {
    let text = error.to_string();
    let reason = text.strip_prefix(place).map_or(&text[..], |rest| rest.trim_start_matches(": "));
    OpenError::Engine { engine: place.to_owned(), reason: reason.to_owned() }
}

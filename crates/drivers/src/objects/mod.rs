//! Stores of named objects: Ceph, S3, Swift, a shared file system.
//!
//! An object is written whole. What `incoming::objects` and `aggregates::objects` need of a store is little: that an object can
//! be created only where there is none, which is what decides between two writers, and that what was written is read by
//! whoever asks next, by its name. Lists are needed for tidying up only, and may lag behind.

use async_trait::async_trait;
use bytes::Bytes;

pub mod ceph;
pub mod file;
pub(crate) mod http;
pub mod memory;
pub mod s3;
pub mod swift;

pub use gnudi_model::Secret;
pub use http::HttpOptions;

use crate::OpenError;

/// How long an object's name may be.
pub const NAME_BYTES_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// There is an object of that name: nothing was changed.
    #[error("the object {0} is there already")]
    Exists(String),
    /// No space, or the quota is used up.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The store does not answer, or asks to come back later. What was asked for may have happened.
    #[error("{0}")]
    Unavailable(String),
    /// The store refuses, and will do so again: wrong keys, no such bucket.
    #[error("{0}")]
    Refused(String),
}

/// Names are made of letters, digits and `-_./`, at most 200 bytes, and their parts between slashes are neither empty nor `.` or
/// `..`. What is a name is not also a folder of other names (there is no `a/b` beside `a`): some stores would not list it. A name is
/// used either with `create` or with `put`, never with both: a store that cannot create exclusively by itself keeps the two apart.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Where the objects lie, for messages: `ceph pool gnocchi`, `s3 bucket metrics at https://...`. No passwords.
    fn place(&self) -> String;

    /// Writes an object, in place of what it held. Durable once it returns.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// Writes an object where there is none; [`ObjectError::Exists`] otherwise. Of several that try at once, one succeeds. Durable
    /// once it returns. After [`ObjectError::Unavailable`] the object may be there: a caller that must know reads it.
    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// The object; `None` where there is none.
    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError>;

    /// `length` bytes from `start` on, fewer where the object ends before; `None` where there is no object.
    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError>;

    /// Removes objects; those that are not there are no error.
    async fn delete(&self, names: &[String]) -> Result<(), ObjectError>;

    /// The names that begin with the prefix, in the order of their bytes. May miss what was created a moment ago, and name what was
    /// removed.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError>;
}

/// Whether it is a name (see [`Objects`]); others may lie in the same place.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(allowed)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn check_name(name: &str) -> Result<(), ObjectError> {
    if is_name(name) { Ok(()) } else { Err(ObjectError::Refused(format!("no name of an object: {name:?}"))) }
}

/// The value of HTTP's header `Range`; `None` where there is nothing to ask for: servers count in signed numbers.
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

/// What kept a store from being opened.
fn open_error(place: &str, error: &ObjectError) -> OpenError {
    let text = error.to_string();
    let reason = text.strip_prefix(place).map_or(&text[..], |rest| rest.trim_start_matches(": "));
    OpenError::Engine { engine: place.to_owned(), reason: reason.to_owned() }
}

//! What goes wrong between gnudi and Keystone.

/// Why Keystone gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeystoneError {
    /// The options cannot be used; the text names the one.
    #[error("{0}")]
    InvalidOptions(String),
    /// Keystone refuses these credentials: asking again makes no sense before somebody changes something.
    #[error("{0}")]
    Refused(String),
    /// No answer, or one that says that Keystone is not well: it makes sense to ask again later.
    #[error("{0}")]
    Unavailable(String),
    /// An answer to one request that Keystone should not give: it says nothing of others.
    #[error("{0}")]
    Odd(String),
}

//! What Redis refuses, in the words of the incoming store.

use crate::{clients::redis::ClientError, incoming::IncomingError};

pub(super) fn incoming_error(error: ClientError) -> IncomingError {
    match error {
        ClientError::Unavailable(reason) => IncomingError::Unavailable(reason),
        ClientError::NoSpace(reason) => IncomingError::NoSpace(reason),
        ClientError::Refused(reason) => IncomingError::Io(reason),
    }
}

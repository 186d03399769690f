//! Reads containers that another program writes.

use bytes::Bytes;
use gnudi_http::{Method, StatusCode};

use super::{
    SwiftOptions,
    account::{Account, Call},
};
use crate::{
    OpenError,
    objects::{ObjectError, open_error},
};

/// Reads containers and objects with arbitrary names.
pub struct SwiftReader(Account);

impl SwiftReader {
    /// Logs in with the first request.
    pub fn new(options: &SwiftOptions) -> Result<Self, OpenError> {
        let place = format!("swift at {}", options.authurl);
        Account::new(options, place).map(SwiftReader)
    }

    /// Logs in, and checks that the container exists.
    pub async fn open(options: &SwiftOptions, container: &str) -> Result<Self, OpenError> {
        let reader = SwiftReader::new(options)?;
        match reader.list(container, "").await {
            Ok(Some(_)) => Ok(reader),
            Ok(None) => Err(OpenError::Engine {
                engine: reader.0.place.clone(),
                reason: format!("there is no container {container}"),
            }),
            Err(error) => Err(open_error(&reader.0.place, &error)),
        }
    }

    /// The object; `None` if absent.
    pub async fn get(&self, container: &str, name: &str) -> Result<Option<Bytes>, ObjectError> {
        let mut call = Call::new(Method::GET, container, name);
        // Not all replicas may have its newest version.
        call.headers.push(("x-newest", "true"));
        let answer = self.0.request(&call).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer.body)),
            _ => Err(self.0.refusal(&call, &answer)),
        }
    }

    /// The names with the prefix, sorted by bytes; `None` if there is no such container.
    pub async fn list(&self, container: &str, prefix: &str) -> Result<Option<Vec<String>>, ObjectError> {
        self.0.names(container, prefix).await
    }
}

//! Our trait of objects on the crate `object_store`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use gnudi_drivers::objects::{ObjectError, Objects};
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, Result, path::Path,
};

pub struct OverObjectStore(pub Arc<dyn ObjectStore>);

impl OverObjectStore {
    async fn read(&self, name: &str, range: Option<GetRange>) -> Result<Bytes> {
        self.0.get_opts(&Path::from(name), GetOptions { range, ..GetOptions::default() }).await?.bytes().await
    }
}

fn failed(error: Error) -> ObjectError {
    match error {
        Error::AlreadyExists { path, .. } => ObjectError::Exists(path),
        error => ObjectError::Unavailable(error.to_string()),
    }
}

fn found<T>(answer: Result<T>) -> Result<Option<T>, ObjectError> {
    match answer {
        Err(Error::NotFound { .. }) => Ok(None),
        answer => answer.map(Some).map_err(failed),
    }
}

#[async_trait]
impl Objects for OverObjectStore {
    fn place(&self) -> String {
        self.0.to_string()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.0.put(&Path::from(name), bytes.into()).await.map(drop).map_err(failed)
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let options = PutOptions::from(PutMode::Create);
        self.0.put_opts(&Path::from(name), bytes.into(), options).await.map(drop).map_err(failed)
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        found(self.read(name, None).await)
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        found(self.read(name, Some(GetRange::Bounded(start..start + length))).await)
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        for name in names {
            found(self.0.delete(&Path::from(name.as_str())).await)?;
        }
        Ok(())
    }

    /// Of whole parts between slashes, as all prefixes of the aggregates are.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let listed = self.0.list(Some(&Path::from(prefix))).map_ok(|object| object.location.to_string());
        let mut names: Vec<String> = listed.try_collect().await.map_err(failed)?;
        names.sort_unstable();
        Ok(names)
    }
}

//! Objects in memory that count requests and bytes, and delay each request. A deletion counts once for each object.
//!
//! Bytes are copied on their way, so that no store's caches share memory with the objects.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, future::ready, stream, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory,
    path::Path,
};

/// Puts, gets, lists, deletions, and bytes sent and received.
pub type Counts = [u64; 5];
const PUTS: usize = 0;
const GETS: usize = 1;
const LISTS: usize = 2;
const DELETIONS: usize = 3;
const BYTES: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct Counted {
    objects: Arc<InMemory>,
    meter: Arc<Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    counts: [AtomicU64; 5],
    delay_ms: AtomicU64,
}

impl Meter {
    async fn request(&self, kind: usize) {
        self.counts[kind].fetch_add(1, Relaxed);
        let delay = self.delay_ms.load(Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }
}

impl Counted {
    pub fn counts(&self) -> Counts {
        self.meter.counts.each_ref().map(|count| count.load(Relaxed))
    }

    /// What was counted since `before`.
    pub fn since(&self, before: Counts) -> Counts {
        let now = self.counts();
        std::array::from_fn(|at| now[at] - before[at])
    }

    pub fn set_delay_ms(&self, ms: u64) {
        self.meter.delay_ms.store(ms, Relaxed);
    }

    /// The length of all objects. Not counted as a request.
    pub async fn stored_bytes(&self) -> u64 {
        self.objects
            .list(None)
            .map(|object| object.unwrap().size)
            .fold(0, |sum, size| ready(sum + size))
            .await
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counted memory")
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.meter.counts[BYTES].fetch_add(payload.content_length() as u64, Relaxed);
        self.meter.request(PUTS).await;
        let copied: Vec<u8> = payload.iter().flatten().copied().collect();
        self.objects.put_opts(path, copied.into(), options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unreachable!("no object here is so large")
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.meter.request(GETS).await;
        let is_head = options.head;
        let mut got = self.objects.get_opts(path, options).await?;
        if let GetResultPayload::Stream(bytes) = got.payload {
            got.payload =
                GetResultPayload::Stream(bytes.map_ok(|bytes| Bytes::copy_from_slice(&bytes)).boxed());
        }
        let bytes = if is_head { 0 } else { got.range.end - got.range.start };
        self.meter.counts[BYTES].fetch_add(bytes, Relaxed);
        Ok(got)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let meter = self.meter.clone();
        let counted = paths.then(move |path| {
            let meter = meter.clone();
            async move {
                meter.request(DELETIONS).await;
                path
            }
        });
        self.objects.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (meter, listed) = (self.meter.clone(), self.objects.list(prefix));
        let counted = async move {
            meter.request(LISTS).await;
            listed
        };
        stream::once(counted).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meter.request(LISTS).await;
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!("neither store copies objects")
    }
}

//! Opens the log: checks its cluster, and reads it to the end.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool, atomic::AtomicU64},
    time::{Duration, Instant},
};

use gnudi_model::SackCount;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    Acknowledgements, Counters, LogState, ObjectIncoming, ObjectIncomingOptions, QueueRoom, RequestQueue,
    Tail, View, acknowledgements,
    bodies::Bodies,
    mark::Mark,
    names,
    object::{FORMAT_VERSION, seal, unseal},
    read,
    registration::Registration,
    writer,
};
use crate::{
    OpenError,
    incoming::{
        IncomingError, Result,
        registry::{self, LogRegistry},
    },
    objects::{ObjectError, Objects},
    tasks::Tasks,
};

const KIND: u64 = 0x5355_4c43;

impl ObjectIncoming {
    /// Opens the log in the store, or begins one if it is empty. `process` identifies this run of the
    /// process: random each time. With a registry, positions continue above those already used if the store
    /// holds another log, or an older copy (`incoming::registry`).
    pub async fn open(
        objects: Arc<dyn Objects>,
        registry: Option<Arc<dyn LogRegistry>>,
        cluster: Uuid,
        process: Uuid,
        options: ObjectIncomingOptions,
    ) -> Result<Arc<Self>, OpenError> {
        let place = objects.place();
        let failed = |reason: String| OpenError::Engine { engine: place.clone(), reason };
        let timeout = options.timeout;
        let in_time = async {
            let failed = |error: IncomingError| failed(error.to_string());
            let sacks = match &registry {
                Some(registry) => registry::sacks(&**registry, options.sack_count).await.map_err(failed)?,
                None => options.sack_count,
            };
            let (count, is_new) = claim(&*objects, cluster, sacks).await?;
            let registration = match registry {
                Some(registry) => {
                    Some(Registration::find(&*objects, registry, is_new, count).await.map_err(failed)?)
                }
                None => None,
            };
            let mark = Mark::beginning(count).newest(&*objects).await.map_err(failed)?;
            Ok((mark, registration))
        };
        let (mark, registration) =
            tokio::time::timeout(timeout, in_time).await.unwrap_or_else(|_| Err(failed(NO_ANSWER.into())))?;
        let room = QueueRoom::new(options.queue_bytes_max);
        let mut view = View::new(process, &mark, Bodies::new(options.bodies_bytes_max));
        if let Some(registration) = &registration {
            view.begin_at(registration.first_number());
        }
        let shared = Arc::new(LogState {
            registration,
            view: Mutex::new(view),
            tail: tokio::sync::Mutex::new(Tail::new(mark)),
            objects,
            options,
            process,
            arrived: Notify::new(),
            looked: Mutex::default(),
            is_listening: AtomicBool::default(),
            listening: Notify::new(),
            queue: RequestQueue::default(),
            written: Notify::new(),
            room,
            acknowledgements: Acknowledgements::default(),
            marked: tokio::sync::Mutex::default(),
            counters: Counters::default(),
            damaged: AtomicU64::default(),
            quarantined_bytes: AtomicU64::default(),
        });
        shared.first_look().await.map_err(|error| failed(error.to_string()))?;
        let mut tasks = Tasks::default();
        tasks.start(writer::run(Arc::clone(&shared)));
        tasks.start(writer::hint(Arc::clone(&shared)));
        tasks.start(acknowledgements::run(Arc::clone(&shared)));
        tasks.start(read::follow(Arc::clone(&shared)));
        Ok(Arc::new(Self { shared, tasks }))
    }
}

const NO_ANSWER: &str = "no answer in time";

impl LogState {
    /// Reads the log to its end, however long that takes: only single requests have a timeout.
    async fn first_look(&self) -> Result<()> {
        let hint = self.within(self.hint()).await?;
        self.view.lock().expect(hint);
        self.within(self.poll_acknowledgements(Instant::now(), Duration::ZERO)).await?;
        match self.catch_up(Instant::now()).await {
            // Later calls wait for the missing object: the process can start.
            Err(error) if self.tail.lock().await.missing.is_some() => {
                tracing::error!(%error, "the log has a gap");
            }
            Err(error) => return Err(error),
            Ok(_) => {
                if self.within(self.check_end()).await? {
                    self.catch_up(Instant::now()).await?;
                }
            }
        }
        Ok(())
    }
}

/// Claims the store for this cluster, or checks that it is claimed; returns the log's first sack count, and
/// whether it is new.
async fn claim(
    objects: &dyn Objects,
    cluster: Uuid,
    count: SackCount,
) -> Result<(SackCount, bool), OpenError> {
    let place = objects.place();
    let failed =
        |error: ObjectError| OpenError::Engine { engine: objects.place(), reason: error.to_string() };
    let path = || PathBuf::from(format!("{place}: {}", names::CLUSTER));
    let mut payload = cluster.as_bytes().to_vec();
    payload.extend_from_slice(&count.get().to_le_bytes());
    let found = match objects.get(names::CLUSTER).await.map_err(failed)? {
        Some(found) => found,
        None => match objects.create(names::CLUSTER, seal(KIND, &payload)).await {
            Ok(()) => return Ok((count, true)),
            Err(ObjectError::Exists(_) | ObjectError::Unavailable(_)) => {
                let found = objects.get(names::CLUSTER).await.map_err(failed)?;
                found.ok_or_else(|| failed(ObjectError::Unavailable(NO_ANSWER.to_owned())))?
            }
            Err(error) => return Err(failed(error)),
        },
    };
    let invalid = || OpenError::Invalid { path: path(), reason: "damaged, or no log of gnudi's".to_owned() };
    let (version, found) = unseal(KIND, &found).ok_or_else(invalid)?;
    if version > FORMAT_VERSION {
        let (found, known) = (version.into(), FORMAT_VERSION.into());
        return Err(OpenError::TooNew { path: path(), found, known });
    }
    let found: &[u8; 18] = found.try_into().map_err(|_| invalid())?;
    let owner = Uuid::from_slice(&found[..16]).expect("sixteen bytes");
    if owner != cluster {
        return Err(OpenError::OtherCluster { place, found: owner, own: cluster });
    }
    let count = u16::from_le_bytes([found[16], found[17]]).try_into().map_err(|_| invalid())?;
    Ok((SackCount(count), false))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use bytes::Bytes;
    use gnudi_model::{Sack, SackId};

    use super::{super::object::seal_as, *};
    use crate::{
        incoming::{Position, objects::view::Progress, registry::MemoryLogRegistry},
        objects::memory::MemoryObjects,
        segments::frame::items,
    };

    /// Only what has a valid checksum names a version.
    #[tokio::test]
    async fn a_newer_log_is_refused_by_its_version_and_rubbish_as_damaged() {
        let objects = MemoryObjects::default();
        let newer = seal_as(FORMAT_VERSION + 1, KIND, b"another form");
        let mut damaged = newer.to_vec();
        damaged[48] ^= 1;
        for (bytes, is_newer) in
            [(newer, true), (Bytes::from(damaged), false), (Bytes::from_static(b"rubbish"), false)]
        {
            objects.put(names::CLUSTER, bytes).await.unwrap();
            let claimed = claim(&objects, Uuid::from_u128(7), SackCount(NonZeroU16::MIN)).await;
            let refused = claimed.unwrap_err();
            assert_eq!(
                matches!(refused, OpenError::TooNew { found: 2, known: 1, .. }),
                is_newer,
                "{refused}"
            );
            assert_eq!(matches!(refused, OpenError::Invalid { .. }), !is_newer, "{refused}");
        }
    }

    #[tokio::test]
    async fn small_objects_of_a_newer_program_are_not_read() {
        let objects = MemoryObjects::default();
        let registry: Arc<dyn LogRegistry> = Arc::new(MemoryLogRegistry::default());
        let open = async |process: Uuid| {
            let (store, registry) = (Arc::new(objects.clone()), Some(registry.clone()));
            let options = ObjectIncomingOptions::default();
            ObjectIncoming::open(store, registry, Uuid::nil(), process, options).await
        };
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let log = open(one).await.unwrap();
        let sack = Sack { count: SackCount::DEFAULT, id: SackId(3) };
        let progress = Progress { acknowledged: Position(5 << 16), ..Progress::default() };
        log.shared.acknowledgements.add([(sack, progress)]);
        log.shared.acknowledgements.flush().await;
        log.shared.put_hint(0).await.unwrap();
        drop(log);
        for name in [names::HINT.to_owned(), names::generation(1), names::acknowledged(one)] {
            let known = objects.get(&name).await.unwrap().unwrap();
            let newer = seal_as(FORMAT_VERSION + 1, items(&known)[0].tag, b"something of another form");
            objects.put(&name, newer).await.unwrap();
            let refused = open(other).await.err().unwrap().to_string();
            let told = format!("{name} was written by a newer program (format 2)");
            assert!(refused.contains(&told), "{refused}");
            objects.put(&name, known).await.unwrap();
        }
        open(other).await.unwrap();
    }
}

//! Objects in memory: for tests, with call counters and fault injection.
//!
//! Simple on purpose. Nothing survives the process.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{ObjectError, Objects, check_name};

/// The operations of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Put,
    Create,
    Get,
    GetRange,
    Delete,
    List,
}

/// An injected fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Has no effect, and returns this error.
    Fails(ObjectError),
    /// Takes effect, but returns [`ObjectError::Unavailable`].
    AnswerLost,
    /// Takes effect, but returns [`ObjectError::Exists`]: a proxy has repeated a creation.
    Repeated,
}

/// A process's client of a store; clones belong to the same process.
#[derive(Clone, Default)]
pub struct MemoryObjects {
    state: Arc<Mutex<State>>,
    holds: Arc<Mutex<Vec<Held>>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Bytes>,
    calls: HashMap<Call, u64>,
    bytes: u64,
    faults: Vec<Planned>,
    is_down: bool,
    delay: Duration,
}

struct Planned {
    call: Call,
    name_part: String,
    /// Calls that still succeed before it.
    after: usize,
    fault: Fault,
}

/// Blocks calls before they take effect, as if their process was suspended, until dropped.
pub struct Hold {
    arrived: Arc<Semaphore>,
    /// Never has permits: acquiring one blocks until it is closed.
    gate: Arc<Semaphore>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.gate.close();
    }
}

impl Hold {
    /// Waits until one more call is blocked.
    pub async fn arrival(&self) {
        self.arrived.acquire().await.expect("never closed").forget();
    }
}

struct Held {
    call: Call,
    name_part: String,
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl MemoryObjects {
    /// Another process's client of the same store.
    pub fn another_process(&self) -> Self {
        Self { state: self.state.clone(), holds: Arc::default() }
    }

    /// Makes the `after`-th next call of this kind (0: the next one) fail once; counts only calls whose name
    /// or prefix, or one of whose names, contains `name_part`.
    pub fn fail(&self, call: Call, name_part: &str, after: usize, fault: Fault) {
        self.state.lock().faults.push(Planned { call, name_part: name_part.to_owned(), after, fault });
    }

    /// Whether all faults have occurred.
    pub fn is_healed(&self) -> bool {
        self.state.lock().faults.is_empty()
    }

    /// Blocks this process's calls of this kind with a name that contains `name_part`, until the result is
    /// dropped.
    pub fn hold(&self, call: Call, name_part: &str) -> Hold {
        let (arrived, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let held =
            Held { call, name_part: name_part.to_owned(), arrived: arrived.clone(), gate: gate.clone() };
        self.holds.lock().push(held);
        Hold { arrived, gate }
    }

    /// While down, every call returns [`ObjectError::Unavailable`] and has no effect.
    pub fn set_down(&self, is_down: bool) {
        self.state.lock().is_down = is_down;
    }

    /// Delays every call.
    pub fn set_delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// The number of calls of this kind, failed ones included.
    pub fn calls(&self, call: Call) -> u64 {
        self.state.lock().calls.get(&call).copied().unwrap_or_default()
    }

    /// The number of calls of all kinds.
    pub fn calls_total(&self) -> u64 {
        self.state.lock().calls.values().sum()
    }

    /// Bytes of objects that were sent or received.
    pub fn bytes_total(&self) -> u64 {
        self.state.lock().bytes
    }

    fn count_bytes(&self, bytes: &Bytes) {
        self.state.lock().bytes += bytes.len() as u64;
    }

    /// Every object, by name.
    pub fn contents(&self) -> BTreeMap<String, Bytes> {
        self.state.lock().objects.clone()
    }

    /// Counts a call, blocks or delays it as requested, and executes it unless a fault is due.
    async fn call<T>(
        &self,
        call: Call,
        names: &[&str],
        work: impl FnOnce(&mut BTreeMap<String, Bytes>) -> Result<T, ObjectError> + Send,
    ) -> Result<T, ObjectError> {
        let concerned = |part: &str| names.iter().any(|name| name.contains(part));
        let delay = {
            let mut state = self.state.lock();
            *state.calls.entry(call).or_default() += 1;
            state.delay
        };
        let gates: Vec<Arc<Semaphore>> = {
            let mut holds = self.holds.lock();
            holds.retain(|held| !held.gate.is_closed());
            let holds = holds.iter().filter(|held| held.call == call && concerned(&held.name_part));
            holds.inspect(|held| held.arrived.add_permits(1)).map(|held| held.gate.clone()).collect()
        };
        for gate in gates {
            // Closing the gate is the signal to continue.
            let _ = gate.acquire().await;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut state = self.state.lock();
        if state.is_down {
            return Err(ObjectError::Unavailable("the memory store is down".to_owned()));
        }
        match state.due(|planned| planned.call == call && concerned(&planned.name_part)) {
            None => work(&mut state.objects),
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::AnswerLost) => {
                // The request takes effect, but its response is lost.
                let _ = work(&mut state.objects);
                Err(ObjectError::Unavailable("the answer was lost".to_owned()))
            }
            Some(Fault::Repeated) => {
                let _ = work(&mut state.objects);
                Err(ObjectError::Exists(names.concat()))
            }
        }
    }
}

impl State {
    /// The first fault that is due; counts down the others.
    fn due(&mut self, concerns: impl Fn(&Planned) -> bool) -> Option<Fault> {
        let mut struck = None;
        for (at, planned) in self.faults.iter_mut().enumerate().filter(|(_, planned)| concerns(planned)) {
            if planned.after > 0 {
                planned.after -= 1;
            } else if struck.is_none() {
                struck = Some(at);
            }
        }
        struck.map(|at| self.faults.remove(at).fault)
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        self.count_bytes(&bytes);
        self.call(Call::Put, &[name], |objects| {
            objects.insert(name.to_owned(), bytes);
            Ok(())
        })
        .await
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        self.count_bytes(&bytes);
        self.call(Call::Create, &[name], |objects| {
            if objects.contains_key(name) {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            objects.insert(name.to_owned(), bytes);
            Ok(())
        })
        .await
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        let found = self.call(Call::Get, &[name], |objects| Ok(objects.get(name).cloned())).await;
        found.inspect(|found| found.iter().for_each(|bytes| self.count_bytes(bytes)))
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        let range = |objects: &mut BTreeMap<String, Bytes>| {
            Ok(objects.get(name).map(|bytes| {
                let start = start.min(bytes.len() as u64);
                let end = start.saturating_add(length).min(bytes.len() as u64);
                bytes.slice(start as usize..end as usize)
            }))
        };
        let found = self.call(Call::GetRange, &[name], range).await;
        found.inspect(|found| found.iter().for_each(|bytes| self.count_bytes(bytes)))
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        names.iter().try_for_each(|name| check_name(name))?;
        let named: Vec<&str> = names.iter().map(String::as_str).collect();
        self.call(Call::Delete, &named, |objects| {
            for name in names {
                objects.remove(name);
            }
            Ok(())
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        self.call(Call::List, &[prefix], |objects| {
            let named = objects.range(prefix.to_owned()..).map(|(name, _)| name);
            Ok(named.take_while(|name| name.starts_with(prefix)).cloned().collect())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn faults_strike_once_in_their_turn() {
        let store = MemoryObjects::default();
        let refused = ObjectError::Refused("no".to_owned());
        store.fail(Call::Put, "b", 1, Fault::Fails(refused.clone()));
        let bytes = || Bytes::from_static(b"x");
        store.put("a", bytes()).await.unwrap();
        store.put("b/1", bytes()).await.unwrap();
        assert_eq!(store.put("b/2", bytes()).await, Err(refused));
        store.put("b/2", bytes()).await.unwrap();
        assert!(store.is_healed());
        assert_eq!((store.calls(Call::Put), store.calls(Call::Get), store.calls_total()), (4, 0, 4));
    }

    #[tokio::test]
    async fn a_lost_answer_leaves_the_object() {
        let store = MemoryObjects::default();
        store.fail(Call::Create, "", 0, Fault::AnswerLost);
        let bytes = Bytes::from_static(b"x");
        assert!(matches!(store.create("a", bytes.clone()).await, Err(ObjectError::Unavailable(_))));
        assert_eq!(store.create("a", bytes.clone()).await, Err(ObjectError::Exists("a".to_owned())));
        assert_eq!(store.get("a").await, Ok(Some(bytes)));
    }

    #[tokio::test]
    async fn a_held_call_goes_on_when_it_may() {
        let store = MemoryObjects::default();
        let hold = store.hold(Call::Create, "a");
        let late = tokio::spawn({
            let store = store.clone();
            async move { store.create("a", Bytes::from_static(b"late")).await }
        });
        hold.arrival().await;
        assert!(store.contents().is_empty());
        store.put("b", Bytes::new()).await.unwrap();
        store.another_process().create("aa", Bytes::new()).await.unwrap();
        drop(hold);
        late.await.unwrap().unwrap();
        store.set_down(true);
        assert!(matches!(store.get("a").await, Err(ObjectError::Unavailable(_))));
        store.set_down(false);
        assert_eq!(store.get("a").await.unwrap().unwrap(), "late");
    }
}

//! Maps slots to nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;

use super::{
    connection::{Connector, Place, first_answer},
    error::ClientError,
    node::Node,
    slots::SLOTS,
    url::{Address, RedisUrl, Servers},
};

/// Minimum interval between refreshes.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(20);

pub(super) struct Routes {
    lanes: usize,
    state: RwLock<State>,
    /// How often slots may have moved, or a node may have gone.
    suspicions: AtomicU64,
    /// How many of them there were when the last refresh began.
    settled: AtomicU64,
    refreshing: tokio::sync::Mutex<Option<Instant>>,
}

struct State {
    nodes: Vec<Arc<Node>>,
    /// The index of the node that has each slot.
    slots: Vec<u16>,
}

impl Routes {
    pub(super) fn new(url: &RedisUrl, lanes: usize) -> Self {
        let place = match &url.servers {
            Servers::One(address) => Some(Place::Tcp(address.clone())),
            Servers::Socket(path) => Some(Place::Socket(path.clone())),
            Servers::Sentinels { .. } => None,
            Servers::Cluster(nodes) => nodes.first().cloned().map(Place::Tcp),
        };
        let node = Arc::new(Node::new(place, lanes));
        let state = State { nodes: vec![node], slots: vec![0; usize::from(SLOTS)] };
        let suspicions = AtomicU64::new(u64::from(matches!(url.servers, Servers::Cluster(_))));
        Routes {
            lanes,
            state: RwLock::new(state),
            suspicions,
            settled: AtomicU64::new(0),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.state.read().nodes.clone()
    }

    pub(super) fn node_of(&self, slot: u16) -> Arc<Node> {
        let state = self.state.read();
        Arc::clone(&state.nodes[usize::from(state.slots[usize::from(slot)])])
    }

    /// The node of a redirection.
    pub(super) fn node_at(&self, address: &Address) -> Arc<Node> {
        let mut state = self.state.write();
        let index = state.index_of(address, self.lanes);
        Arc::clone(&state.nodes[usize::from(index)])
    }

    /// Records a slot's new node.
    pub(super) fn moved(&self, slot: u16, address: &Address) {
        let mut state = self.state.write();
        let index = state.index_of(address, self.lanes);
        state.slots[usize::from(slot)] = index;
    }

    /// Requests a refresh before the next call. No effect with a single server.
    pub(super) fn suspect(&self) {
        self.suspicions.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspicions.load(Ordering::Acquire) != self.settled.load(Ordering::Acquire)
    }

    /// Reads the slots' nodes from the first node that responds.
    pub(super) async fn refresh(&self, connector: &Connector, url: &RedisUrl) -> Result<(), ClientError> {
        let Servers::Cluster(seeds) = &url.servers else {
            self.settled.store(self.suspicions.load(Ordering::Acquire), Ordering::Release);
            return Ok(());
        };
        let mut asked = self.refreshing.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASKED_AGAIN_AFTER) {
            return Ok(());
        }
        // One that comes while the nodes are asked is not settled by their answer.
        let suspicions = self.suspicions.load(Ordering::Acquire);
        let none = ClientError::Unavailable(format!("{url}: no node responds"));
        let candidates = self.candidates(seeds);
        let requests = candidates.iter().map(|address| async move {
            let ranges = connector.slots(url, address).await?;
            if ranges.is_empty() {
                return Err(ClientError::Unavailable(format!("redis {address}: no node has any slot")));
            }
            Ok(ranges)
        });
        let ranges = first_answer(requests.collect(), none).await?;
        self.adopt(ranges);
        self.settled.store(suspicions, Ordering::Release);
        *asked = Some(Instant::now());
        Ok(())
    }

    fn candidates(&self, seeds: &[Address]) -> Vec<Address> {
        let mut candidates: Vec<Address> = Vec::new();
        let nodes = self.nodes();
        let known = nodes.iter().filter_map(|node| match &node.place {
            Some(Place::Tcp(address)) => Some(address),
            _ => None,
        });
        for address in known.chain(seeds) {
            if !candidates.contains(address) {
                candidates.push(address.clone());
            }
        }
        candidates
    }

    fn adopt(&self, ranges: Vec<(u16, u16, Address)>) {
        let mut state = self.state.write();
        let mut learned = State { nodes: Vec::new(), slots: vec![0; usize::from(SLOTS)] };
        for (first, last, address) in ranges {
            let place = Some(Place::Tcp(address.clone()));
            if let Some(known) = state.nodes.iter().find(|node| node.place == place)
                && !learned.nodes.iter().any(|node| Arc::ptr_eq(node, known))
            {
                learned.nodes.push(Arc::clone(known));
            }
            let index = learned.index_of(&address, self.lanes);
            let slots = usize::from(first.min(SLOTS))..usize::from(last.saturating_add(1).min(SLOTS));
            if slots.start < slots.end {
                learned.slots[slots].fill(index);
            }
        }
        *state = learned;
    }
}

impl State {
    /// The node at an address; added if new.
    fn index_of(&mut self, address: &Address, lanes: usize) -> u16 {
        let place = Some(Place::Tcp(address.clone()));
        let known = self.nodes.iter().position(|node| node.place == place);
        let index = known.unwrap_or_else(|| {
            self.nodes.push(Arc::new(Node::new(place, lanes)));
            self.nodes.len() - 1
        });
        index as u16
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::Notify,
    };

    use super::*;

    /// A node that answers OK, and has all slots: that it says only once it is told to.
    async fn serve(listener: TcpListener, asked: Arc<Notify>, told: Arc<Notify>) {
        let port = listener.local_addr().unwrap().port();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (asked, told) = (Arc::clone(&asked), Arc::clone(&told));
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                    let answer = if text.contains("CLUSTER") {
                        asked.notify_one();
                        told.notified().await;
                        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
                    } else {
                        // Each command begins with an asterisk.
                        "+OK\r\n".repeat(text.matches('*').count())
                    };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    }

    #[tokio::test]
    async fn a_suspicion_during_a_refresh_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url: RedisUrl = format!("redis+cluster://127.0.0.1:{port}").parse().unwrap();
        let (asked, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        tokio::spawn(serve(listener, Arc::clone(&asked), Arc::clone(&told)));
        let connector = Connector { connect_timeout: Duration::from_mins(1), scripts: Vec::new() };
        let routes = Routes::new(&url, 1);
        for suspects in [true, false] {
            assert!(routes.is_suspect());
            let meanwhile = async {
                asked.notified().await;
                if suspects {
                    routes.suspect();
                }
                told.notify_one();
            };
            let (refreshed, ()) = tokio::join!(routes.refresh(&connector, &url), meanwhile);
            refreshed.unwrap();
            tokio::time::sleep(2 * ASKED_AGAIN_AFTER).await;
        }
        assert!(!routes.is_suspect());
    }
}

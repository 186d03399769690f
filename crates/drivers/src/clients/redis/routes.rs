//! Maps slots to nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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
    /// Whether slots may have moved, or a node may be gone.
    suspect: AtomicBool,
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
        let suspect = AtomicBool::new(matches!(url.servers, Servers::Cluster(_)));
        Routes { lanes, state: RwLock::new(state), suspect, refreshing: tokio::sync::Mutex::default() }
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
        self.suspect.store(true, Ordering::Release);
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// Reads the slots' nodes from the first node that responds.
    pub(super) async fn refresh(&self, connector: &Connector, url: &RedisUrl) -> Result<(), ClientError> {
        let Servers::Cluster(seeds) = &url.servers else {
            self.suspect.store(false, Ordering::Release);
            return Ok(());
        };
        let mut asked = self.refreshing.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASKED_AGAIN_AFTER) {
            return Ok(());
        }
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
        self.suspect.store(false, Ordering::Release);
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

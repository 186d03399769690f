//! The Lua scripts of the incoming store: each runs atomically on the server.

use crate::clients::redis::Script;

pub(super) struct Scripts {
    pub(super) append: Script,
    pub(super) pending: Script,
    pub(super) acknowledge: Script,
    pub(super) trim: Script,
    pub(super) arrivals: Script,
    pub(super) seal: Script,
    pub(super) open: Script,
    pub(super) forget: Script,
    pub(super) root: Script,
    pub(super) raise: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            append: Script::new(include_str!("lua/append.lua")),
            pending: Script::new(include_str!("lua/pending.lua")),
            acknowledge: Script::new(include_str!("lua/acknowledge.lua")),
            trim: Script::new(include_str!("lua/trim.lua")),
            arrivals: Script::new(include_str!("lua/arrivals.lua")),
            seal: Script::new(include_str!("lua/seal.lua")),
            open: Script::new(include_str!("lua/open.lua")),
            forget: Script::new(include_str!("lua/forget.lua")),
            root: Script::new(include_str!("lua/root.lua")),
            raise: Script::new(include_str!("lua/raise.lua")),
        }
    }

    /// For the client, which loads them into each server.
    pub(super) fn all(&self) -> Vec<Script> {
        [
            &self.append,
            &self.pending,
            &self.acknowledge,
            &self.trim,
            &self.arrivals,
            &self.seal,
            &self.open,
            &self.forget,
            &self.root,
            &self.raise,
        ]
        .map(Script::clone)
        .into()
    }
}

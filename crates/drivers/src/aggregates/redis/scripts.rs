//! The store's Lua scripts. Those that write check the fences first.

use crate::clients::redis::Script;

pub(super) struct Scripts {
    pub(super) raise: Script,
    pub(super) write: Script,
    pub(super) delete: Script,
    pub(super) read: Script,
    pub(super) set_aside: Script,
    pub(super) root: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            raise: Script::new(concat!(include_str!("lua/fences.lua"), include_str!("lua/raise.lua"))),
            write: Script::new(concat!(include_str!("lua/fences.lua"), include_str!("lua/write.lua"))),
            delete: Script::new(concat!(include_str!("lua/fences.lua"), include_str!("lua/delete.lua"))),
            read: Script::new(include_str!("lua/read.lua")),
            set_aside: Script::new(include_str!("lua/set_aside.lua")),
            root: Script::new(include_str!("lua/root.lua")),
        }
    }

    /// For the client, which loads them into each server.
    pub(super) fn all(&self) -> Vec<Script> {
        [&self.raise, &self.write, &self.delete, &self.read, &self.set_aside, &self.root]
            .map(Script::clone)
            .into()
    }
}

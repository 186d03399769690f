//! Lua scripts, and calls of them that are sent many in one trip.

use redis::{Cmd, ToRedisArgs};

use super::slots::slot_of;

/// A script that a server runs as a whole: nobody sees a half of it.
#[derive(Clone)]
pub struct Script {
    source: &'static str,
    hash: String,
}

impl Script {
    pub fn new(source: &'static str) -> Self {
        let hash = redis::Script::new(source).get_hash().to_owned();
        Script { source, hash }
    }

    pub(super) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(self.source);
        cmd
    }
}

/// What begins the names of keys that lie on one node, `{gnudi:in:0}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    pub(super) slot: u16,
}

impl Tag {
    pub fn new(name: &str) -> Self {
        let name = format!("{{{name}}}");
        let slot = slot_of(name.as_bytes());
        Tag { name, slot }
    }
}

/// One command to whichever node has a tag.
pub struct Call {
    pub(super) slot: u16,
    /// Whether it may be sent again when it is not known whether it was carried out.
    pub(super) repeatable: bool,
    cmd: Cmd,
    with_run: bool,
}

impl Call {
    /// A call of a script, which gets the tag as its only key and builds the names of others from it.
    pub fn script(script: &Script, tag: &Tag) -> Self {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&script.hash).arg(1).arg(&tag.name);
        Call { slot: tag.slot, repeatable: true, cmd, with_run: false }
    }

    /// A command on the key that follows.
    pub fn command(name: &str, tag: &Tag) -> Self {
        Call { slot: tag.slot, repeatable: true, cmd: redis::cmd(name), with_run: false }
    }

    #[must_use]
    pub fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.cmd.arg(value);
        self
    }

    /// Carried out twice it would do something else than once.
    #[must_use]
    pub fn only_once(mut self) -> Self {
        self.repeatable = false;
        self
    }

    /// Has the name of the server's history follow as the last argument.
    #[must_use]
    pub fn with_run(mut self) -> Self {
        self.with_run = true;
        self
    }

    pub(super) fn packed(&self, run: &str) -> Cmd {
        let mut cmd = self.cmd.clone();
        if self.with_run {
            cmd.arg(run);
        }
        cmd
    }

    pub fn push(&mut self, value: impl ToRedisArgs) {
        self.cmd.arg(value);
    }
}

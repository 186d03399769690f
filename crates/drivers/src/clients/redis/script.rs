//! Lua scripts, and calls that are sent in batches.

use redis::{Arg, Cmd, ToRedisArgs};
use tokio::time::Instant;

use super::{connection::Connection, slots::slot_of};

/// A script, which a server executes atomically.
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

/// Defines `Scripts`, a driver's scripts by name: each is made of one or several files.
macro_rules! scripts {
    ($($name:ident: $($file:literal),+;)+) => {
        pub(super) struct Scripts {
            $(pub(super) $name: $crate::clients::redis::Script,)+
        }

        impl Scripts {
            pub(super) fn new() -> Self {
                Scripts { $($name: $crate::clients::redis::Script::new(concat!($(include_str!($file)),+)),)+ }
            }

            /// For the client, which loads them into each server.
            pub(super) fn all(&self) -> Vec<$crate::clients::redis::Script> {
                vec![$(self.$name.clone()),+]
            }
        }
    };
}
pub(crate) use scripts;

/// The prefix of keys that lie on one node, `{gnudi:in:0}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    pub(super) slot: u16,
}

impl Tag {
    /// A key with this prefix.
    pub fn key(&self, rest: impl AsRef<[u8]>) -> Vec<u8> {
        [self.name.as_bytes(), rest.as_ref()].concat()
    }

    pub fn new(name: &str) -> Self {
        let name = format!("{{{name}}}");
        let slot = slot_of(name.as_bytes());
        Tag { name, slot }
    }
}

/// A command for the node that has a tag.
pub struct Call {
    pub(super) slot: u16,
    /// Whether it may be repeated if its outcome is unknown.
    pub(super) repeatable: bool,
    kind: CallKind,
    keys: Vec<Vec<u8>>,
    arguments: Cmd,
    with_server: bool,
}

enum CallKind {
    Command(&'static str),
    /// A script's hash.
    Script(String),
}

impl Call {
    /// Calls a script; all keys that it uses must be passed, since a cluster may be moving them.
    pub fn script(script: &Script, tag: &Tag) -> Self {
        Call::new(CallKind::Script(script.hash.clone()), tag)
    }

    pub fn command(name: &'static str, tag: &Tag) -> Self {
        Call::new(CallKind::Command(name), tag)
    }

    /// A command on a key named by another program.
    pub fn on_key(name: &'static str, key: Vec<u8>) -> Self {
        Call::with_slot(CallKind::Command(name), slot_of(&key)).key(key)
    }

    fn new(kind: CallKind, tag: &Tag) -> Self {
        Call::with_slot(kind, tag.slot)
    }

    fn with_slot(kind: CallKind, slot: u16) -> Self {
        Call { slot, repeatable: true, kind, keys: Vec::new(), arguments: Cmd::new(), with_server: false }
    }

    #[must_use]
    pub fn key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(key);
        self
    }

    pub fn push_key(&mut self, key: Vec<u8>) {
        self.keys.push(key);
    }

    #[must_use]
    pub fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.arguments.arg(value);
        self
    }

    pub fn push(&mut self, value: impl ToRedisArgs) {
        self.arguments.arg(value);
    }

    /// Marks the call as not idempotent.
    #[must_use]
    pub fn only_once(mut self) -> Self {
        self.repeatable = false;
        self
    }

    /// Appends as the last arguments the id of the server's history, and its time in microseconds at which the call is given
    /// up, or an empty text if that is unknown.
    #[must_use]
    pub fn with_server(mut self) -> Self {
        self.with_server = true;
        self
    }

    /// The command for a server.
    pub(super) fn packed(&self, connection: &Connection, deadline: Instant) -> Cmd {
        let arguments = self.arguments.args_iter();
        let mut cmd = Cmd::new();
        match &self.kind {
            CallKind::Command(name) => cmd.arg(name),
            CallKind::Script(hash) => cmd.arg("EVALSHA").arg(hash).arg(self.keys.len()),
        };
        for key in &self.keys {
            cmd.arg(&key[..]);
        }
        for argument in arguments {
            if let Arg::Simple(bytes) = argument {
                cmd.arg(bytes);
            }
        }
        if self.with_server {
            cmd.arg(connection.server.run.as_str()).arg(connection.server_time(deadline));
        }
        cmd
    }
}

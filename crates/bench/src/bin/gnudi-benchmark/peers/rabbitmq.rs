//! RabbitMQ with its own node, port mapper and directory, and a connection to it.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lapin::{Channel, Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable};
use tempfile::TempDir;

use super::{
    child::{Guarded, Leftovers, Signal},
    directory, free_address,
};
use crate::context::Context;

/// Debian's program, without the wrapper that requires another user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Erlang starts slowly on a busy machine.
const START_DELAY_MAX: Duration = Duration::from_mins(3);

/// Timeout of a connection: a broker that has just begun to listen may never respond to it.
const ANSWER_DELAY_MAX: Duration = Duration::from_secs(10);

/// Listen on loopback only; idle schedulers do not spin.
const ERLANG_ARGUMENTS: &str = "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none";

/// A broker, stopped when dropped.
pub struct RabbitMq {
    pub port: u16,
    // In the order of stopping.
    server: Guarded,
    _mapper: Guarded,
    _directory: TempDir,
}

impl RabbitMq {
    pub fn start(context: &Context) -> Result<Self> {
        ensure!(Path::new(SERVER).exists(), "{SERVER} is missing: crates/bench/install-peers installs it");
        let directory = directory(&context.leftovers)?;
        let free_port = || anyhow::Ok(free_address()?.port());
        let ports @ [port, ..] = [free_port()?, free_port()?, free_port()?];
        let (mapper, server) = start(directory.path(), ports, &context.leftovers)?;
        let mut broker = RabbitMq { port, server, _mapper: mapper, _directory: directory };
        let runtime = &context.runtime;
        let url = broker.url();
        broker.server.wait_ready(START_DELAY_MAX, || runtime.block_on(connect(&url)).is_ok())?;
        Ok(broker)
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// In oslo.messaging's form.
    pub fn transport_url(&self) -> String {
        format!("rabbit://guest:guest@127.0.0.1:{}/", self.port)
    }
}

/// A connection with a channel.
///
/// # Errors
/// If the broker refuses it, or does not respond within [`ANSWER_DELAY_MAX`].
pub async fn connect(url: &str) -> Result<(Connection, Channel)> {
    let connecting = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        anyhow::Ok((connection, channel))
    };
    let answer = tokio::time::timeout(ANSWER_DELAY_MAX, connecting).await;
    answer.context("RabbitMQ does not answer")?.context("RabbitMQ")
}

/// Number of undelivered messages.
pub async fn depth(channel: &Channel, queue: &str) -> Result<u64> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
    Ok(u64::from(queue.message_count()))
}

fn start(
    directory: &Path,
    [port, distribution, mapper_port]: [u16; 3],
    leftovers: &Leftovers,
) -> Result<(Guarded, Guarded)> {
    let path = |name: &str| directory.join(name).display().to_string();
    for name in ["log", "mnesia"] {
        std::fs::create_dir_all(directory.join(name))?;
    }
    let configuration = format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\nvm_memory_high_watermark.absolute = 4GB\n\
         disk_free_limit.absolute = 100MB\n"
    );
    std::fs::write(directory.join("rabbitmq.conf"), configuration)?;
    std::fs::write(directory.join("plugins"), "[].")?;
    let mut mapper = Command::new("epmd");
    let mapper = mapper.env("ERL_EPMD_PORT", mapper_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
    let mapper = Guarded::start(mapper, &directory.join("epmd.log"), Signal::TERM, leftovers)?;
    let mut server = Command::new(SERVER);
    let server = server.envs([
        ("HOME", path("")),
        ("RABBITMQ_NODENAME", format!("bench{port}@localhost")),
        ("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf")),
        ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
        ("RABBITMQ_MNESIA_BASE", path("mnesia")),
        ("RABBITMQ_LOG_BASE", path("log")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins")),
        ("RABBITMQ_PID_FILE", path("pid")),
        ("RABBITMQ_DIST_PORT", distribution.to_string()),
        ("ERL_EPMD_PORT", mapper_port.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG_ARGUMENTS.to_owned()),
    ]);
    let server = Guarded::start(server, &directory.join("rabbitmq.log"), Signal::TERM, leftovers)?;
    Ok((mapper, server))
}

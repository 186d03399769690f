//! RabbitMQ with its own node, port mapper and directory, and a connection to it.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lapin::{Channel, Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable};
use tempfile::TempDir;

use super::{
    child::{Guarded, Signal},
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
        let (leftovers, runtime) = (&context.leftovers, &context.runtime);
        let directory = directory(leftovers)?;
        let free_port = || anyhow::Ok(free_address()?.port());
        let (port, distribution, mapper_port) = (free_port()?, free_port()?, free_port()?);
        let path = |name: &str| directory.path().join(name);
        for name in ["log", "mnesia"] {
            std::fs::create_dir_all(path(name))?;
        }
        let configuration = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\nvm_memory_high_watermark.absolute = 4GB\n\
             disk_free_limit.absolute = 100MB\n"
        );
        std::fs::write(path("rabbitmq.conf"), configuration)?;
        std::fs::write(path("plugins"), "[].")?;
        let of_mapper =
            [("ERL_EPMD_PORT", mapper_port.to_string()), ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned())];
        let mut mapper = Command::new("epmd");
        let mapper = mapper.envs(of_mapper.clone());
        let mapper = Guarded::start(mapper, &path("epmd.log"), Signal::TERM, leftovers)?;
        let text = |name: &str| path(name).display().to_string();
        let mut server = Command::new(SERVER);
        let server = server.envs(of_mapper).envs([
            ("HOME", text("")),
            ("RABBITMQ_NODENAME", format!("bench{port}@localhost")),
            ("RABBITMQ_CONFIG_FILE", text("rabbitmq.conf")),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
            ("RABBITMQ_MNESIA_BASE", text("mnesia")),
            ("RABBITMQ_LOG_BASE", text("log")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", text("plugins")),
            ("RABBITMQ_PID_FILE", text("pid")),
            ("RABBITMQ_DIST_PORT", distribution.to_string()),
            ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG_ARGUMENTS.to_owned()),
        ]);
        let server = Guarded::start(server, &path("rabbitmq.log"), Signal::TERM, leftovers)?;
        let mut broker = RabbitMq { port, server, _mapper: mapper, _directory: directory };
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

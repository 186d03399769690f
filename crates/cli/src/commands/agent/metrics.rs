//! An agent's figures at `http://HOST:PORT/metrics`, and nothing else: the smallest server that Prometheus can ask.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};

use crate::{args::AgentArgs, config::Config};

/// A longer request is none of Prometheus'.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long a request and its answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Requests at the same time; others wait.
const CONNECTIONS_MAX: usize = 16;

/// Listens where the command line or ceilometer.conf says, if they do, as long as the runtime is there.
pub async fn serve_where_asked(args: &AgentArgs, config: &Config, registry: Registry) -> Result<()> {
    match args.metrics_listen.as_deref().or(config.text("agent", "metrics_listen")) {
        Some(address) => serve(address, registry).await.map(drop),
        None => Ok(()),
    }
}

async fn serve(address: &str, registry: Registry) -> Result<JoinHandle<()>> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "showing figures at /metrics");
    let registry = Arc::new(registry);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    Ok(tokio::spawn(async move {
        loop {
            let place = places.clone().acquire_owned().await.expect("never closed");
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, perhaps: others get time to close theirs.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let registry = registry.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(TIMEOUT, answer(stream, &registry)).await;
                drop(place);
            });
        }
    }))
}

async fn answer(mut stream: TcpStream, registry: &Registry) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let mut words = request.split(u8::is_ascii_whitespace);
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => {
            let mut text = String::new();
            match encode(&mut text, registry) {
                Ok(()) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
                Err(error) => ("500 Internal Server Error", "text/plain", error.to_string()),
            }
        }
        _ => ("404 Not Found", "text/plain", "figures are at /metrics\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if !request.starts_with(b"HEAD") {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

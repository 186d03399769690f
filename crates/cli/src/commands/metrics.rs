//! A minimal HTTP server for Prometheus: `/metrics` at an address of its own, and the pages of the polling agent's exporter. The
//! API's server, with its limits and policies, is in `gnudi_server`.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use gnudi_app::App;
use gnudi_server::Tls;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    runtime::Handle,
    task::{AbortHandle, JoinSet},
};

use crate::{args::host_and_port, config::Config, process_figures::ProcessFigures};

/// Maximum size of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Timeout of a request and its response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Concurrent connections; one more ends the oldest. If it waited instead, idle ones could keep scrapes waiting.
const CONNECTIONS_MAX: usize = 32;

/// The path of the metrics.
const PATH: &str = "/metrics";

/// The pages to serve.
pub trait Page: Send + Sync + 'static {
    const CONTENT_TYPE: &'static str;

    /// `None`: not found.
    fn text(&self, path: &str) -> impl Future<Output = Option<Result<String, String>>> + Send;
}

impl Page for Registry {
    const CONTENT_TYPE: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    async fn text(&self, path: &str) -> Option<Result<String, String>> {
        let mut text = String::new();
        let encoded = || encode(&mut text, self).map_err(|error| error.to_string()).map(|()| text);
        (path == PATH).then(encoded)
    }
}

/// The metrics of the API, the store and the process.
impl Page for App {
    const CONTENT_TYPE: &'static str = Registry::CONTENT_TYPE;

    async fn text(&self, path: &str) -> Option<Result<String, String>> {
        if path == PATH { Some(Ok(self.figures_text().await)) } else { None }
    }
}

/// The address of `--metrics-listen`, or of `[section] metrics_listen`.
pub fn address<'a>(argument: Option<&'a str>, config: &'a Config, section: &str) -> Option<&'a str> {
    argument.or(config.text(section, "metrics_listen"))
}

/// Whether `[section] metrics_listen` is an address, if it is set. Binds nothing.
pub fn check(config: &Config, section: &str) -> Result<()> {
    let text = config.text(section, "metrics_listen");
    text.map_or(Ok(()), |text| check_address(config, section, "metrics_listen", text))
}

/// Whether `text`, of this option, is an address.
pub fn check_address(config: &Config, section: &str, name: &str, text: &str) -> Result<()> {
    let place = || config.place(section, name);
    host_and_port(text).map(drop).map_err(|reason| anyhow!("{} = {text}: {reason}", place()))
}

/// Binds [`address`], if there is one; [`serve`] accepts its connections. Must be called within a Tokio runtime.
pub fn bind(argument: Option<&str>, config: &Config, section: &str) -> Result<Option<TcpListener>> {
    let Some(address) = address(argument, config, section) else { return Ok(None) };
    let option = || match argument {
        Some(_) => "--metrics-listen".to_owned(),
        None => config.place(section, "metrics_listen"),
    };
    let (listener, at) = bound(address).with_context(option)?;
    tracing::info!(address = %at, "showing figures at /metrics");
    Ok(Some(listener))
}

/// Serves an agent's metrics, and those of its process, if the command line or ceilometer.conf names an address, until
/// the returned tasks are dropped.
pub fn serve_if_configured(
    argument: Option<&str>,
    config: &Config,
    mut registry: Registry,
) -> Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    if let Some(listener) = bind(argument, config, "agent")? {
        registry.register_collector(Box::new(ProcessFigures::of(vec![("agent", Handle::current())])));
        tasks.spawn(serve(listener, None, Arc::new(registry)));
    }
    Ok(tasks)
}

/// Binds a listener, to be served later.
pub fn bound(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let within = || format!("listening on {address}");
    let listener = std::net::TcpListener::bind(address).with_context(within)?;
    listener.set_nonblocking(true).with_context(within)?;
    let listener = TcpListener::from_std(listener).with_context(within)?;
    let at = listener.local_addr().with_context(within)?;
    Ok((listener, at))
}

/// Serves forever.
pub async fn serve<P: Page>(listener: TcpListener, tls: Option<Arc<Tls>>, page: Arc<P>) {
    // Oldest first.
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Perhaps out of file descriptors: wait until others are closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let (page, tls) = (page.clone(), tls.clone());
        let connection = tokio::spawn(async move {
            let answered = async {
                match tls {
                    None => respond(stream, page.as_ref()).await,
                    Some(tls) => respond(tls.acceptor().accept(stream).await?, page.as_ref()).await,
                }
            };
            let _ = tokio::time::timeout(TIMEOUT, answered).await;
        });
        open.push_back(connection.abort_handle());
    }
}

async fn respond<P: Page>(mut stream: impl AsyncRead + AsyncWrite + Unpin, page: &P) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let mut words = request.split(u8::is_ascii_whitespace);
    let is_read = matches!(words.next(), Some(b"GET" | b"HEAD"));
    let target = words.next().filter(|_| is_read).and_then(|target| str::from_utf8(target).ok());
    // Prometheus' `params` make no difference.
    let target = target.and_then(|target| target.split('?').next());
    let found = match target {
        Some(target) => page.text(target).await,
        None => None,
    };
    let (status, kind, body) = match found {
        Some(Ok(text)) => ("200 OK", P::CONTENT_TYPE, text),
        Some(Err(error)) => ("500 Internal Server Error", "text/plain", error),
        None => ("404 Not Found", "text/plain", "figures are at /metrics\n".to_owned()),
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;
    use crate::{commands::beside, config::Project, program_args::ProgramArgs};

    #[tokio::test]
    async fn idle_connections_keep_no_scrape_waiting() {
        let (listener, at) = bound("127.0.0.1:0").unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, None, Arc::new(Registry::default())));
        let mut idle = Vec::new();
        for _ in 0..2 * CONNECTIONS_MAX {
            idle.push(TcpStream::connect(at).await.unwrap());
        }
        let mut scrape = TcpStream::connect(at).await.unwrap();
        scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let answered = scrape.read_to_string(&mut answer);
        tokio::time::timeout(TIMEOUT / 2, answered).await.expect("it waits").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    #[tokio::test]
    async fn an_agent_does_not_outlive_its_listener() {
        let config = Config::load_project(Project::Ceilometer, &ProgramArgs::default()).unwrap();
        let serve = |address| serve_if_configured(address, &config, Registry::default()).unwrap();
        assert!(beside(&mut serve(None), std::future::ready(Ok(()))).await.is_ok());
        let mut tasks = serve(Some("127.0.0.1:0"));
        tasks.abort_all();
        assert!(beside(&mut tasks, std::future::pending::<Result<()>>()).await.is_err());
    }
}

//! The publishers that need nothing outside this crate.

use std::fmt;

use super::{
    OpenError, Opened, PublisherFigures, PublisherTasks, PublisherUrl, Publishers, TestPublisher,
    file::FilePublisher, http::HttpPublisher, notifier::NotifierOptions, notifier::NotifierPublisher,
    opentelemetry::OpentelemetryPublisher, prometheus::PrometheusPublisher, tcp::TcpPublisher,
    udp::UdpPublisher,
};
use crate::{pipeline::PipelineKind, wire::Signer};

/// What publishers share.
#[derive(Clone)]
pub struct PublisherContext {
    /// This machine's name in messages: `[DEFAULT] host`.
    pub host: String,
    /// With `[publisher] telemetry_secret`.
    pub signer: Signer,
    pub notifier: NotifierOptions,
    pub figures: PublisherFigures,
    pub tasks: PublisherTasks,
}

impl fmt::Debug for PublisherContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PublisherContext").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Publishers {
    /// All kinds except `gnocchi`.
    pub fn built_in(context: PublisherContext) -> Self {
        let mut publishers = Publishers::default();
        publishers.add("test", |_, _| Ok(std::sync::Arc::new(TestPublisher)));
        let PublisherContext { host, signer, notifier, figures, tasks } = context;
        let (counts, file_tasks) = (figures.of("file"), tasks.clone());
        publishers.add("file", move |url, _| FilePublisher::open(url, counts.clone(), &file_tasks));
        for scheme in ["http", "https"] {
            let counts = figures.of(scheme);
            publishers.add(scheme, move |url, _| HttpPublisher::open(url, counts.clone()));
        }
        let counts = figures.of("prometheus");
        publishers.add("prometheus", samples_only(move |url| PrometheusPublisher::open(url, counts.clone())));
        let counts = figures.of("opentelemetryhttp");
        let open = samples_only(move |url| OpentelemetryPublisher::open(url, counts.clone()));
        publishers.add("opentelemetryhttp", open);
        let (counts, udp_signer) = (figures.of("udp"), signer.clone());
        let open = samples_only(move |url| UdpPublisher::open(url, udp_signer.clone(), counts.clone()));
        publishers.add("udp", open);
        let (counts, tcp_signer) = (figures.of("tcp"), signer.clone());
        let open = move |url: &PublisherUrl| {
            TcpPublisher::open(url, tcp_signer.clone(), host.clone(), counts.clone())
        };
        publishers.add("tcp", samples_only(open));
        let counts = figures.of("notifier");
        publishers.add("notifier", move |url, kind| {
            NotifierPublisher::open(url, kind, &notifier, signer.clone(), counts.clone(), &tasks)
        });
        publishers
    }
}

fn samples_only(
    open: impl Fn(&PublisherUrl) -> Opened + Send + Sync + 'static,
) -> impl Fn(&PublisherUrl, PipelineKind) -> Opened + Send + Sync + 'static {
    move |url, kind| match kind {
        PipelineKind::Samples => open(url),
        PipelineKind::Events => Err(OpenError("publishes samples only".to_owned())),
    }
}

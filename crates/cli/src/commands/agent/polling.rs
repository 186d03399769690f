//! `gnudi agent polling`, and the same within `gnudi serve --with polling`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use gnudi_telemetry::{
    messaging::{AmqpOutbox, envelope::Version},
    polling::{
        agent::{Chance, Counts, PollingAgent, PollingFigures, PollingOptions},
        central::{self, CentralOptions, Keys, RadosgwOptions},
        cloud::Cloud,
        compute::{self, LibvirtInspector, LibvirtOptions, LocalInstances, NovaExtra},
        discovery::{Discovery, LocalNode},
        dynamic,
        ipmi::{self, IpmiOptions},
        names::{KeystoneDirectory, Names, NamesOptions},
        notifier::{Nowhere, SampleNotifier},
        outlet::SampleSender,
        partition::Alone,
        pollster::Pollster,
        source::{self, PollingSource},
    },
    time::now,
    wire::Signer,
};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    broker, credentials,
    exports::Exports,
    partition::{self, Members},
};
use crate::{
    args::PollingArgs,
    commands::{beside, collectors::until_stopped, metrics, run_service, runtime},
    config::Config,
    keystone::trust,
    service_manager,
};

/// The default namespaces.
const NAMESPACES: [&str; 2] = ["compute", "central"];
const POLLING: &str = "polling";
/// Ceilometer's default polling file.
const DEFAULT_FILE: &str = "\
sources:
- name: some_pollsters
  interval: 300
  meters: [power.state, cpu, memory.available, memory.usage, network.incoming.bytes, network.incoming.packets,
    network.outgoing.bytes, network.outgoing.packets, disk.device.read.bytes, disk.device.read.requests,
    disk.device.write.bytes, disk.device.write.requests, volume.size, volume.snapshot.size, volume.backup.size]
";

/// `gnudi agent polling`
pub fn run(args: &PollingArgs) -> Result<()> {
    let config = super::prepare(&args.agent.program, "agent-polling")?;
    run_service(runtime(&config, "polling", Some(2))?, async {
        crate::commands::ignore_hangup()?;
        let mut registry = Registry::default();
        let agent = PollingService::new(&config, &args.polling_namespaces, &mut registry)?;
        let mut tasks =
            metrics::serve_if_configured(args.agent.metrics_listen.as_deref(), &config, registry)?;
        let polling = async {
            if args.once {
                return agent.poll_once().await;
            }
            let stopped = until_stopped();
            service_manager::ready();
            agent.run(stopped).await
        };
        beside(&mut tasks, polling).await?;
        tracing::info!("stopped");
        Ok(())
    })
}

/// The agent, configured by ceilometer.conf.
pub struct PollingService {
    agent: PollingAgent,
    members: Option<Arc<Members>>,
    outbox: Option<Arc<AmqpOutbox>>,
    exports: Exports,
}

impl PollingService {
    /// Reads all files. Without namespaces, those of the configuration. Must be called within a Tokio runtime.
    pub fn new(config: &Config, namespaces: &[String], registry: &mut Registry) -> Result<Self> {
        let namespaces = namespaces_of(config, namespaces)?;
        let host = super::host(config);
        let cloud = cloud(config)?;
        let (pollsters, discoveries) = parts(config, &namespaces, &host, cloud.as_ref())?;
        let group = group(config, &namespaces);
        let sources = sources(config, &host)?;
        let exports = Exports::new(config, &namespaces)?;
        let members = partition::members(config, &group, &host, &sources)?;
        let outbox = outbox(config, &host)?;
        let counts = Counts::default();
        registry.register_collector(Box::new(PollingFigures(counts.clone())));
        let agent = PollingAgent {
            options: PollingOptions {
                batch_size: config.size(POLLING, "batch_size"),
                pollsters_max: config.size(POLLING, "threads_to_process_pollsters"),
                jitter_max: config.seconds(POLLING, "jitter"),
                sample_source: config.text("DEFAULT", "sample_source").unwrap_or("openstack").to_owned(),
            },
            sources,
            pollsters,
            discoveries,
            partition: match &members {
                Some(members) => members.clone(),
                None => Arc::new(Alone),
            },
            sender: sender(config, outbox.clone()),
            names: names(config, cloud),
            exporter: exports.exporter.clone(),
            heartbeats: exports.heartbeats.clone(),
            chance: Chance {
                now: Box::new(now),
                new_id: Box::new(new_id),
                seed: u64::from_ne_bytes(Uuid::new_v4().as_bytes()[..8].try_into().expect("eight bytes")),
            },
            counts,
        };
        Ok(PollingService { agent, members, outbox, exports })
    }

    /// Polls until `stop`.
    ///
    /// # Errors
    /// A part of it has panicked before.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let mut tasks = std::mem::take(&mut self.exports).serve();
        if let Some(members) = self.members.clone() {
            tasks.spawn(async move { members.keep_membership().await });
        }
        let (told, stopped) = watch::channel(false);
        let stopping = async {
            stop.await;
            tracing::info!("stopping");
            let _ = told.send(true);
        };
        let polling = async {
            tokio::join!(self.agent.run(stopped), stopping);
            anyhow::Ok(())
        };
        let outcome = beside(&mut tasks, polling).await;
        // The membership is no longer kept up before it is ended.
        tasks.shutdown().await;
        self.end().await;
        outcome
    }

    /// Runs one round.
    ///
    /// # Errors
    /// No source has a meter that can be polled, resources could not be discovered, or pollsters failed and none
    /// published samples; the log has the reasons.
    pub async fn poll_once(self) -> Result<()> {
        let outcome = self.agent.poll_once().await;
        self.end().await;
        if let Some(fault) = outcome.fault() {
            bail!("--once: {fault} (the log has the reasons)");
        }
        if outcome.polled == 0 {
            tracing::warn!(
                "--once: no samples were published: this agent found no resources, or they have no samples"
            );
        }
        Ok(())
    }

    async fn end(&self) {
        if let Some(members) = &self.members {
            members.leave().await;
        }
        if let Some(outbox) = &self.outbox {
            outbox.close().await;
        }
    }
}

/// Whether each part of the agent could start with these files and options. Connects to nothing.
pub fn checks(config: &Config) -> [Result<()>; 4] {
    let host = super::host(config);
    let sources = sources(config, &host);
    [
        if config.bool(POLLING, "enable_notifications") {
            broker::main_broker(config, "check").map(drop)
        } else {
            Ok(())
        },
        check_parts(config, &host),
        Exports::check(config),
        sources.and_then(|sources| partition::members(config, "check", &host, &sources).map(drop)),
    ]
}

fn check_parts(config: &Config, host: &str) -> Result<()> {
    let namespaces = namespaces_of(config, &[])?;
    let cloud = cloud(config)?;
    let has = |name: &str| namespaces.iter().any(|namespace| namespace == name);
    if has("compute") {
        instances(config, host, cloud.as_ref())?;
    }
    if has("central") && cloud.is_some() {
        central_options(config)?;
    }
    Ok(())
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

fn namespaces_of(config: &Config, asked: &[String]) -> Result<Vec<String>> {
    let mut namespaces =
        if asked.is_empty() { config.list("DEFAULT", "polling_namespaces") } else { asked.to_vec() };
    if namespaces.is_empty() {
        namespaces = NAMESPACES.map(str::to_owned).to_vec();
    }
    namespaces.sort();
    namespaces.dedup();
    for namespace in &namespaces {
        match namespace.as_str() {
            "compute" | "central" | "ipmi" => {}
            other => bail!("polling namespace {other}: there are compute, central and ipmi"),
        }
    }
    Ok(namespaces)
}

/// The group of agents that poll the same resources.
fn group(config: &Config, namespaces: &[String]) -> String {
    match config.text(POLLING, "partitioning_group_prefix") {
        Some(prefix) => format!("{}-{prefix}", namespaces.join("-")),
        None => namespaces.join("-"),
    }
}

type Parts = (Vec<Arc<dyn Pollster>>, Vec<Arc<dyn Discovery>>);

fn parts(config: &Config, namespaces: &[String], host: &str, cloud: Option<&Cloud>) -> Result<Parts> {
    let has = |name: &str| namespaces.iter().any(|namespace| namespace == name);
    let (mut pollsters, mut discoveries) = (Vec::new(), Vec::new());
    if has("compute") {
        let (more_pollsters, discovery) = instances(config, host, cloud)?;
        pollsters.extend(more_pollsters);
        discoveries.push(discovery);
    }
    if has("ipmi") {
        pollsters.extend(ipmi::pollsters(ipmi_options(config, host)));
    }
    if has("compute") || has("ipmi") {
        discoveries.push(Arc::new(LocalNode(host.to_owned())));
    }
    match cloud {
        Some(cloud) if has("central") => {
            let options = central_options(config)?;
            pollsters.extend(central::pollsters(cloud, &options));
            discoveries.extend(central::discoveries(cloud, &options));
        }
        Some(cloud) => discoveries.push(Arc::new(central::listing::Endpoints(cloud.clone()))),
        None if has("central") => {
            tracing::warn!("[service_credentials] auth_url is not set: no service is polled");
        }
        None => {}
    }
    let directories = config.list(POLLING, "pollsters_definitions_dirs");
    let directories: Vec<PathBuf> = directories.into_iter().map(PathBuf::from).collect();
    pollsters.extend(dynamic::pollsters(&directories, namespaces, cloud));
    Ok((pollsters, discoveries))
}

/// The pollsters of this host's instances, and their discovery.
type Instances = (Vec<Arc<dyn Pollster>>, Arc<dyn Discovery>);

fn instances(config: &Config, host: &str, cloud: Option<&Cloud>) -> Result<Instances> {
    let kind = config.text("DEFAULT", "libvirt_type").unwrap_or("kvm");
    let uri = config.text("DEFAULT", "libvirt_uri");
    let inspector = LibvirtInspector::new(LibvirtOptions {
        uri: uri.unwrap_or_else(|| compute::libvirt::uri_of(kind)).to_owned(),
        library: PathBuf::from(compute::libvirt::LIBRARY),
        timeout: config.seconds(POLLING, "libvirt_timeout"),
        report_stopped: config.bool("compute", "report_stopped_instance_metrics"),
    });
    let pollsters = compute::pollsters(&inspector, &super::reserved_metadata(config));
    let method = config.text("compute", "instance_discovery_method").unwrap_or("libvirt_metadata");
    let discovery: Arc<dyn Discovery> = match (method, cloud) {
        ("libvirt_metadata", cloud) => {
            Arc::new(LocalInstances { inspector, host: host.to_owned(), extra: extra(config, host, cloud)? })
        }
        (_, Some(cloud)) => Arc::new(compute::NovaInstances::new(
            cloud.clone(),
            inspector,
            host.to_owned(),
            nova(config).to_owned(),
            config.text("service_types", "glance").unwrap_or("image").to_owned(),
            config.seconds("compute", "resource_update_interval"),
        )),
        (method, None) => bail!(
            "{} = {method}: needs [service_credentials] auth_url",
            config.place("compute", "instance_discovery_method")
        ),
    };
    Ok((pollsters, discovery))
}

/// The client that fetches from Nova what libvirt does not have.
fn extra(config: &Config, host: &str, cloud: Option<&Cloud>) -> Result<Option<NovaExtra>> {
    let fetches_metadata = config.bool("compute", "fetch_extra_metadata");
    let Some(cloud) = cloud else {
        if fetches_metadata {
            let place = config.place("compute", "fetch_extra_metadata");
            bail!("{place} = true: needs [service_credentials] auth_url");
        }
        return Ok(None);
    };
    Ok(Some(NovaExtra::new(cloud.clone(), host.to_owned(), nova(config).to_owned(), fetches_metadata)))
}

/// Nova's type in the catalogue.
fn nova(config: &Config) -> &str {
    config.text("service_types", "nova").unwrap_or("compute")
}

/// `None` without service credentials.
pub fn cloud(config: &Config) -> Result<Option<Cloud>> {
    credentials::cloud(config, config.size(POLLING, "requests_max"))
}

/// The look-up of user and project names, if configured.
pub fn names(config: &Config, cloud: Option<Cloud>) -> Option<Arc<Names>> {
    if !config.bool(POLLING, "identity_name_discovery") {
        return None;
    }
    let Some(cloud) = cloud else {
        let place = config.place(POLLING, "identity_name_discovery");
        tracing::warn!("{place}: [service_credentials] auth_url is not set: samples go without names");
        return None;
    };
    let mut options = NamesOptions::default();
    if config.bool("cache", "enabled") {
        options.lifetime = config.seconds("cache", "expiration_time");
    }
    Some(Arc::new(Names::new(Arc::new(KeystoneDirectory(cloud)), options)))
}

fn ipmi_options(config: &Config, host: &str) -> IpmiOptions {
    let command = config.text("ipmi", "ipmitool_command").unwrap_or("ipmitool");
    IpmiOptions {
        command: command.split_whitespace().map(str::to_owned).collect(),
        timeout: config.seconds("ipmi", "ipmitool_timeout"),
        failures_max: config.int("ipmi", "polling_retry").expect("has a default"),
        host: host.to_owned(),
    }
}

/// `None` if the gateway is not configured.
fn radosgw(config: &Config) -> Result<Option<RadosgwOptions>> {
    let service_type = config.string("service_types", "radosgw");
    let service_name = config.string("rgw_client", "rgw_service_name");
    if service_type.is_none() && service_name.is_none() {
        return Ok(None);
    }
    let key = |name| config.string("rgw_admin_credentials", name).unwrap_or_default();
    let trust = trust(config, "rgw_client");
    let options = gnudi_http::HttpOptions { trust, ..gnudi_http::HttpOptions::default() };
    Ok(Some(RadosgwOptions {
        service_type,
        service_name,
        keys: Keys { access: key("access_key"), secret: key("secret_key") },
        implicit_tenants: config.bool("rgw_client", "implicit_tenants"),
        http: gnudi_http::HttpClient::new_or_plain(&options).context("[rgw_client] cafile")?,
    }))
}

fn central_options(config: &Config) -> Result<CentralOptions> {
    let types = [
        ("image", "glance"),
        ("volumev3", "cinder"),
        ("network", "neutron"),
        ("object-store", "swift"),
        ("load-balancer", "octavia"),
        ("dns", "designate"),
        ("sharev2", "manila"),
        ("alarming", "aodh"),
    ];
    let service_type = |(usual, option): (&str, &str)| {
        config.text("service_types", option).map(|instead| (usual.to_owned(), instead.to_owned()))
    };
    Ok(CentralOptions {
        service_types: types.into_iter().filter_map(service_type).collect(),
        reseller_prefix: config.text("DEFAULT", "reseller_prefix").unwrap_or("AUTH_").to_owned(),
        ignore_disabled_projects: config.bool(POLLING, "ignore_disabled_projects"),
        radosgw: radosgw(config)?,
    })
}

fn sources(config: &Config, host: &str) -> Result<Vec<PollingSource>> {
    if let Some(path) = config.named_file(POLLING, "cfg_file")? {
        return Ok(source::load(&path, host)?);
    }
    let name = config.text(POLLING, "cfg_file").unwrap_or("polling.yaml");
    tracing::info!(file = name, "the file does not exist: instances and volumes are polled every 5 minutes");
    Ok(source::parse(Path::new(name), DEFAULT_FILE, host)?)
}

fn outbox(config: &Config, host: &str) -> Result<Option<Arc<AmqpOutbox>>> {
    if !config.bool(POLLING, "enable_notifications") {
        return Ok(None);
    }
    let name = format!("gnudi agent polling on {host}");
    let broker = broker::main_broker(config, &name).context("the broker for samples")?;
    Ok(Some(Arc::new(AmqpOutbox::new(broker))))
}

fn sender(config: &Config, outbox: Option<Arc<AmqpOutbox>>) -> Arc<dyn SampleSender> {
    let driver = config.text("publisher_notifier", "telemetry_driver").unwrap_or("messagingv2");
    let Some(outbox) = outbox.filter(|_| driver != "noop") else {
        tracing::warn!("samples are not published");
        return Arc::new(Nowhere);
    };
    let secret = config.text("publisher", "telemetry_secret").unwrap_or_default();
    let mut topics = config.list("oslo_messaging_notifications", "topics");
    if topics.is_empty() {
        topics.push("notifications".to_owned());
    }
    Arc::new(SampleNotifier {
        exchange: config.text("DEFAULT", "control_exchange").unwrap_or("ceilometer").to_owned(),
        topics,
        version: if driver == "messaging" { Version::Bare } else { Version::Two },
        timeout: config.seconds(POLLING, "publish_timeout").max(Duration::from_secs(1)),
        signer: Signer::new(secret),
        outbox,
        now: Box::new(now),
        new_id: Box::new(new_id),
    })
}

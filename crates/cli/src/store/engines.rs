//! Converts the options of engines for the drivers. Opens nothing; errors do not repeat values, which may be passwords.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use gnudi_drivers::{
    clients::redis::{RedisOptions, RedisUrl},
    coordination::{etcd::EtcdOptions, sql::SqlCoordinatorOptions},
    objects::{
        HttpOptions, Secret, ceph::CephOptions, file::FileOptions, s3::S3Options, swift::SwiftOptions,
    },
};
use gnudi_indexer::FollowOptions;
use gnudi_sql::{DatabaseOptions, ServerOptions};
use tokio::sync::Semaphore;

use crate::config::Config;

/// The shared index.
pub fn index(config: &Config) -> Result<ServerOptions> {
    let place = || config.place("indexer", "url");
    let url = config.text("indexer", "url").unwrap_or_default();
    let DatabaseOptions::Server(mut options) = DatabaseOptions::from_url(url).with_context(place)? else {
        bail!("{}: an index that processes share must be in PostgreSQL or MySQL", place());
    };
    options.readers_max = config.size("indexer", "connections_max") as u32;
    options.timeout = config.seconds("indexer", "timeout");
    Ok(options)
}

/// How the caches of several processes are invalidated.
pub fn follow(config: &Config) -> FollowOptions {
    FollowOptions {
        poll_interval: config.milliseconds("indexer", "changes_poll_ms"),
        unseen_max: config.milliseconds("indexer", "changes_unseen_max_ms"),
    }
}

/// Timeout of a coordinator call that does not concern a lease.
pub const COORDINATION_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// Timeout of a coordinator call: at most a third of the lease, beyond which the lease is lost.
pub fn coordination_timeout(config: &Config) -> Duration {
    (config.seconds("metricd", "lease_seconds") / 3).min(COORDINATION_TIMEOUT_MAX)
}

/// The coordinating database: the index's own, unless another is configured.
pub fn coordination_database(
    config: &Config,
    section: &str,
    name: &str,
    timeout: Duration,
) -> Result<SqlCoordinatorOptions> {
    let url = config.text(section, name).unwrap_or_default();
    let DatabaseOptions::Server(mut server) =
        DatabaseOptions::from_url(url).with_context(|| config.place(section, name))?
    else {
        bail!("{}: PostgreSQL and MySQL coordinate", config.place(section, name));
    };
    server.timeout = timeout;
    Ok(SqlCoordinatorOptions::new(server))
}

/// etcd's options.
pub fn etcd(config: &Config, section: &str, name: &str, timeout: Duration) -> Result<EtcdOptions> {
    let options = EtcdOptions::parse(config.text(section, name).unwrap_or_default());
    let options = options.map_err(|reason| anyhow!("{}: {reason}", config.place(section, name)))?;
    Ok(options.with_deadline(timeout))
}

/// `engine_timeout`
pub fn timeout(config: &Config, section: &str) -> Duration {
    config.seconds(section, "engine_timeout")
}

/// Redis' options.
pub fn redis(config: &Config, section: &str, name: &str, timeout: Duration) -> Result<RedisOptions> {
    let url: RedisUrl = config
        .text(section, name)
        .unwrap_or_default()
        .parse()
        .with_context(|| config.place(section, name))?;
    let mut options = RedisOptions::new(url);
    // Options in the URL take precedence.
    if options.url.socket_timeout.is_none() {
        options.timeout = timeout;
    }
    if section != "DEFAULT" {
        options.replicas_min = config.int(section, "redis_replicas_min").map(|replicas| replicas as u32);
    }
    Ok(options)
}

fn secret(config: &Config, section: &str, name: &str) -> Option<Secret> {
    config.text(section, name).map(Secret::new)
}

/// A call may take `engine_timeout`, one attempt half of it, so that a lost attempt can be retried.
fn http(config: &Config, section: &str) -> HttpOptions {
    let deadline = timeout(config, section);
    HttpOptions { deadline, attempt_timeout: deadline / 2, ..HttpOptions::default() }
}

/// The text of an option with a default; set to nothing, it is empty.
fn default_text(config: &Config, section: &str, name: &str) -> String {
    config.string(section, name).unwrap_or_default()
}

pub fn s3(config: &Config, section: &str) -> Result<S3Options> {
    for name in ["s3_access_key_id", "s3_secret_access_key"] {
        if config.text(section, name).is_none() {
            bail!("{}: must be set for S3", config.place(section, name));
        }
    }
    Ok(S3Options {
        endpoint_url: config.string(section, "s3_endpoint_url"),
        region_name: config.string(section, "s3_region_name"),
        access_key_id: config.string(section, "s3_access_key_id"),
        secret_access_key: secret(config, section, "s3_secret_access_key"),
        bucket_prefix: default_text(config, section, "s3_bucket_prefix"),
        http: HttpOptions {
            // A semaphore counts them, which panics beyond its own limit.
            connections_max: config.size(section, "s3_max_pool_connections").min(Semaphore::MAX_PERMITS),
            ca_file: config.path(section, "s3_cacert"),
            ..http(config, section)
        },
    })
}

pub fn swift(config: &Config, section: &str) -> SwiftOptions {
    let text = |name| config.string(section, name);
    let default_text = |name| default_text(config, section, name);
    SwiftOptions {
        auth_version: default_text("swift_auth_version"),
        authurl: default_text("swift_authurl"),
        url: text("swift_url"),
        preauthtoken: secret(config, section, "swift_preauthtoken"),
        user: default_text("swift_user"),
        key: secret(config, section, "swift_key").unwrap_or_default(),
        user_domain_name: default_text("swift_user_domain_name"),
        project_name: text("swift_project_name"),
        project_domain_name: default_text("swift_project_domain_name"),
        region: text("swift_region"),
        endpoint_type: default_text("swift_endpoint_type"),
        service_type: default_text("swift_service_type"),
        container_prefix: default_text("swift_container_prefix"),
        storage_policy: text("swift_storage_policy"),
        http: HttpOptions {
            ca_file: config.path(section, "swift_cacert"),
            insecure: config.bool(section, "swift_auth_insecure"),
            ..http(config, section)
        },
    }
}

pub fn ceph(config: &Config, section: &str) -> CephOptions {
    CephOptions {
        pool: default_text(config, section, "ceph_pool"),
        username: config.string(section, "ceph_username"),
        secret: secret(config, section, "ceph_secret"),
        keyring: config.path(section, "ceph_keyring"),
        conffile: default_text(config, section, "ceph_conffile").into(),
        namespace: default_text(config, section, "ceph_namespace"),
        connect_timeout: config.seconds(section, "ceph_timeout"),
        deadline: timeout(config, section),
        ..CephOptions::default()
    }
}

pub fn folder(config: &Config, section: &str) -> FileOptions {
    let directory = default_text(config, section, "file_basepath").into();
    FileOptions { deadline: timeout(config, section), ..FileOptions::new(directory) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    #[test]
    fn no_number_of_connections_panics() {
        let keys = "[storage]\ns3_access_key_id = a\ns3_secret_access_key = b\n";
        let text = format!("{keys}s3_max_pool_connections = {}\n", i64::MAX);
        let config = Config::of_text(Project::Gnocchi, &text).unwrap();
        let _ = Semaphore::new(s3(&config, "storage").unwrap().http.connections_max);
    }

    #[test]
    fn a_coordinator_is_as_secure_as_the_index() {
        for given in [
            "postgresql+psycopg2://u:p@h/d",
            "postgresql://u:p@h/d?sslmode=verify-full&sslrootcert=/a/ca.pem",
            "mysql+pymysql://u:p@h:1/d?charset=utf8&ssl_ca=/ca.pem&ssl_cert=/c&ssl_key=/k",
        ] {
            let config = Config::of_text(Project::Gnocchi, &format!("[indexer]\nurl = {given}\n")).unwrap();
            let index = index(&config).unwrap();
            let deadline = coordination_timeout(&config);
            let coordinator = coordination_database(&config, "indexer", "url", deadline).unwrap().database;
            assert_eq!(coordinator.timeout, deadline);
            let ServerOptions { readers_max, timeout, .. } = index;
            assert_eq!(ServerOptions { readers_max, timeout, ..coordinator }, index);
        }
    }
}

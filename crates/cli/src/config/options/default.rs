//! `[DEFAULT]`: options of all programs.

use super::{ANY, Kind, LOG_DATE_FORMAT, LOG_DIR, LOG_FILE, LOGS, Spec, THREADS, WATCH_LOG_FILE};

pub const OPTIONS: &[Spec] = &options! {
    [DEFAULT]
    option debug(Kind::Bool, "false", "Log at level debug.");
    option verbose(Kind::Bool, "true", "Log at level info; otherwise only warnings and errors.");
    option parallel_operations(THREADS, "", "Threads that serve requests. Unset: one for each processor.")
        { formerly: &[("storage", "aggregation_workers_number")] };
    option graceful_shutdown_timeout(ANY, "60",
        "Grace period in seconds for running requests when the program is stopped. 0: unlimited.");
    secret coordination_url(
        Kind::Url(&["postgresql", "postgres", "mysql", "mariadb", "redis", "rediss", "etcd3", "etcd"]),
        "Coordinator of members and sacks: URL of a database, Redis or etcd. Unset: the indexer's \
         database. Not used with the embedded store.")
        { formerly: &[("storage", "coordination_url")] };
    option start_timeout(ANY, "60",
        "gnudi: seconds for which a program that starts retries an engine that does not answer, before it \
         exits.");
    idle log_options("true", LOGS);
    text log_file("", LOG_FILE);
    text log_dir("", LOG_DIR);
    text log_date_format("%Y-%m-%d %H:%M:%S", LOG_DATE_FORMAT);
    option watch_log_file(Kind::Bool, "true", WATCH_LOG_FILE);
    idle use_syslog("false", LOGS);
    idle use_journal("false", LOGS);
    idle syslog_log_facility("user", LOGS);
};

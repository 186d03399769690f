//! `[DEFAULT]`: what concerns every program.

use super::{ANY, Kind, LOGS, POSITIVE, Spec, idle, option, secret};

pub const OPTIONS: &[Spec] = &[
    option("DEFAULT", "debug", Kind::Bool, "false", "Log at level debug."),
    option(
        "DEFAULT",
        "verbose",
        Kind::Bool,
        "true",
        "Log at level info; otherwise only warnings and errors.",
    ),
    option(
        "DEFAULT",
        "parallel_operations",
        POSITIVE,
        "",
        "Threads that serve requests. Unset: one for each processor.",
    ),
    option(
        "DEFAULT",
        "graceful_shutdown_timeout",
        POSITIVE,
        "60",
        "Seconds that running requests get to finish when the program is told to stop.",
    ),
    secret(
        "DEFAULT",
        "coordination_url",
        Kind::Url(&["postgresql", "postgres", "mysql", "mariadb", "redis", "rediss", "etcd3", "etcd"]),
        "Who is there and who owns which sack: a database's, Redis' or etcd's URL. Unset: the indexer's database. Without \
         meaning for the embedded store.",
    ),
    option(
        "DEFAULT",
        "start_timeout",
        ANY,
        "60",
        "gnudi: seconds for which a program that starts waits for an engine that does not answer, before it gives up.",
    ),
    idle("DEFAULT", "log_options", "true", LOGS),
    idle("DEFAULT", "log_dir", "", LOGS),
    idle("DEFAULT", "log_file", "", LOGS),
    idle("DEFAULT", "use_syslog", "false", LOGS),
    idle("DEFAULT", "use_journal", "false", LOGS),
    idle("DEFAULT", "syslog_log_facility", "user", LOGS),
];

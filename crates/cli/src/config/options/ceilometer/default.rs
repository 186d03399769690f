//! `[DEFAULT]`: the broker, definition files, and options of all agents.

use super::{ANY, Kind, LOG_DATE_FORMAT, LOG_DIR, LOG_FILE, LOGS, POSITIVE, Spec, WATCH_LOG_FILE};

const ROOTWRAP: &str = "no program is run by another user";

pub const OPTIONS: &[Spec] = &options! {
    [DEFAULT]
    option debug(Kind::Bool, "false", "Log at level debug.");
    option verbose(Kind::Bool, "true", "gnudi: log at level info; otherwise only warnings and errors.");
    secret transport_url(Kind::Text,
        "URL of RabbitMQ: rabbit://user:password@host:port[,user:password@host:port]/virtual_host.")
        { default: "rabbit://" };
    text control_exchange("ceilometer", "Exchange that the agents themselves publish to.");
    text host("", "Name of this machine. Unset: its host name.");
    text sample_source("openstack", "Source of new samples.");
    option reserved_metadata_namespace(Kind::List, "metering.",
        "Prefixes of instance metadata keys that are kept as user_metadata.");
    option reserved_metadata_keys(Kind::List, "", "Further metadata keys that are kept as user_metadata.");
    option reserved_metadata_length(ANY, "256", "Maximum characters of such a value; the rest is cut off.");
    text pipeline_cfg_file("pipeline.yaml", "Sources and sinks of samples.");
    text event_pipeline_cfg_file("event_pipeline.yaml", "Sources and sinks of events.");
    option max_parallel_requests(POSITIVE, "64",
        "Concurrent requests to all services together.");
    option graceful_shutdown_timeout(ANY, "60",
        "Grace period in seconds when an agent is stopped; the remaining messages stay in the broker. 0: unlimited.");
    option polling_namespaces(Kind::Lines, "", "What `agent polling` polls: compute, central, ipmi. Unset: compute and central.");
    text libvirt_uri("", "How to connect to libvirt. Unset: by libvirt_type.");
    option libvirt_type(Kind::Choice(&["kvm", "lxc", "qemu", "parallels"]), "kvm", "Type of libvirt's domains.");
    text reseller_prefix("AUTH_", "Prefix of Swift's account names.");
    idle hypervisor_inspector("libvirt", "libvirt is the only one");
    idle rootwrap_config("/etc/ceilometer/rootwrap.conf", ROOTWRAP);
    idle executor_thread_pool_size("64", "[notification] workers applies");
    idle rpc_response_timeout("60", "nothing is called by RPC");
    idle rpc_ping_enabled("false", "nothing is called by RPC");
    idle log_options("true", LOGS);
    text log_file("", LOG_FILE) { formerly: &[("DEFAULT", "logfile")] };
    text log_dir("", LOG_DIR) { formerly: &[("DEFAULT", "logdir")] };
    text log_date_format("%Y-%m-%d %H:%M:%S", LOG_DATE_FORMAT);
    option watch_log_file(Kind::Bool, "true", WATCH_LOG_FILE);
    idle log_config_append("", LOGS);
    idle log_rotation_type("none", LOGS);
    idle default_log_levels("", LOGS);
    idle use_syslog("false", LOGS);
    idle use_journal("false", LOGS);
    idle use_json("false", LOGS);
    idle use_stderr("true", LOGS);
    idle syslog_log_facility("user", LOGS);
    idle publish_errors("false", LOGS);
    idle fatal_deprecations("false", LOGS);
};

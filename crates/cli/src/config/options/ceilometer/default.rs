//! `[DEFAULT]`: the broker, the files of definitions, and what concerns every agent.

use super::{ANY, Kind, LOG_DATE_FORMAT, LOG_DIR, LOG_FILE, LOGS, POSITIVE, Spec, WATCH_LOG_FILE};

const ROOTWRAP: &str = "no program is run by another user";

pub const OPTIONS: &[Spec] = &options! {
    [DEFAULT]
    option debug(Kind::Bool, "false", "Log at level debug.");
    option verbose(Kind::Bool, "true", "gnudi: log at level info; otherwise only warnings and errors.");
    secret transport_url(Kind::Text,
        "Where RabbitMQ is: rabbit://user:password@host:port[,user:password@host:port]/virtual_host.")
        { default: "rabbit://" };
    text control_exchange("ceilometer", "Exchange that the agents themselves publish to.");
    text host("", "Name of this machine. Unset: what it calls itself.");
    text sample_source("openstack", "Source of the samples that are made here.");
    option reserved_metadata_namespace(Kind::List, "metering.",
        "Beginnings of the names of an instance's metadata that become user_metadata.");
    option reserved_metadata_keys(Kind::List, "", "Names of metadata that become user_metadata, too.");
    option reserved_metadata_length(ANY, "256", "Longest value of such metadata, in characters.");
    text pipeline_cfg_file("pipeline.yaml", "Sources and sinks of samples.");
    text event_pipeline_cfg_file("event_pipeline.yaml", "Sources and sinks of events.");
    option max_parallel_requests(POSITIVE, "64",
        "Requests under way at the same time, to all services together.");
    option graceful_shutdown_timeout(POSITIVE, "60",
        "Seconds that what is under way gets when an agent is told to stop; the rest stays in the broker.");
    option polling_namespaces(Kind::Lines, "", "What `agent polling` polls: compute, central. Unset: both.");
    text libvirt_uri("", "How to connect to libvirt. Unset: by libvirt_type.");
    option libvirt_type(Kind::Choice(&["kvm", "lxc", "qemu", "parallels"]), "kvm", "What libvirt runs here.");
    text reseller_prefix("AUTH_", "What Swift puts before a project's id.");
    idle hypervisor_inspector("libvirt", "libvirt is the only one");
    idle rootwrap_config("/etc/ceilometer/rootwrap.conf", ROOTWRAP);
    idle executor_thread_pool_size("64", "[notification] workers counts");
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

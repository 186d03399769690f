//! Sections of Gnocchi that its Python libraries read, and that have no effect here.

use super::{POLICY, Spec, WSGI, idle};

pub const OPTIONS: &[Spec] = &[
    idle("healthcheck", "detailed", "false", WSGI),
    idle("healthcheck", "backends", "", WSGI),
    idle("healthcheck", "allowed_source_ranges", "", WSGI),
    idle("healthcheck", "ignore_proxied_requests", "false", WSGI),
    idle("healthcheck", "disable_by_file_path", "", WSGI),
    idle("healthcheck", "disable_by_file_paths", "", WSGI),
    idle("healthcheck", "enable_by_file_paths", "", WSGI),
    idle("oslo_policy", "enforce_new_defaults", "true", POLICY),
    idle("oslo_policy", "policy_file", "policy.yaml", POLICY),
    idle("oslo_policy", "policy_default_rule", "default", POLICY),
    idle("oslo_policy", "policy_dirs", "policy.d", POLICY),
    idle("oslo_policy", "remote_content_type", "application/x-www-form-urlencoded", POLICY),
    idle("oslo_policy", "remote_ssl_verify_server_crt", "false", POLICY),
    idle("oslo_policy", "remote_ssl_ca_crt_file", "", POLICY),
    idle("oslo_policy", "remote_ssl_client_crt_file", "", POLICY),
    idle("oslo_policy", "remote_ssl_client_key_file", "", POLICY),
    idle("oslo_policy", "remote_timeout", "60", POLICY),
];

//! `[oslo_policy]`: the files of rules that say who may do what.

use super::{Kind, Spec, idle, option};

const REMOTE: &str = "rules of the form http: are refused, so no other server is asked";
const NO_OLD_DEFAULTS: &str = "Gnocchi's rules have no deprecated defaults";

pub const OPTIONS: &[Spec] = &[
    idle("oslo_policy", "enforce_scope", "true", "Gnocchi's rules are for tokens of any scope"),
    idle("oslo_policy", "enforce_new_defaults", "true", NO_OLD_DEFAULTS),
    option(
        "oslo_policy",
        "policy_file",
        Kind::Text,
        "policy.yaml",
        "File of rules that stand in place of Gnocchi's defaults, one by one. A relative path is looked for beside the configuration file, then in /etc/gnocchi. Where it is named here it must be there.",
    ),
    option(
        "oslo_policy",
        "policy_default_rule",
        Kind::Text,
        "default",
        "Rule that stands for those that rules refer to and nobody has written; where it is not there either, they deny.",
    ),
    option(
        "oslo_policy",
        "policy_dirs",
        Kind::List,
        "policy.d",
        "Folders of more such files, read by name after policy_file; those that are not there do not count.",
    ),
    idle("oslo_policy", "remote_content_type", "application/x-www-form-urlencoded", REMOTE),
    idle("oslo_policy", "remote_ssl_verify_server_crt", "false", REMOTE),
    idle("oslo_policy", "remote_ssl_ca_crt_file", "", REMOTE),
    idle("oslo_policy", "remote_ssl_client_crt_file", "", REMOTE),
    idle("oslo_policy", "remote_ssl_client_key_file", "", REMOTE),
    idle("oslo_policy", "remote_timeout", "60", REMOTE),
];

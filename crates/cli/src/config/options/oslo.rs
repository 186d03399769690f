//! `[oslo_policy]`: policy files. `[healthcheck]`: of Gnocchi's Python libraries, without effect here.

use super::{Kind, Spec, WSGI};

const REMOTE: &str = "rules of the form http: are rejected, so no other server is called";
const NO_OLD_DEFAULTS: &str = "Gnocchi's rules have no deprecated defaults";

pub const OPTIONS: &[Spec] = &options! {
    [oslo_policy]
    idle enforce_scope("true", "Gnocchi's rules accept tokens of any scope");
    idle enforce_new_defaults("true", NO_OLD_DEFAULTS);
    text policy_file("policy.yaml",
        "File of rules that override Gnocchi's defaults, one by one. A relative path is searched in the \
         directories of --config-dir, beside the configuration files, the last one first, and where these are \
         searched. If it is set, it must exist.");
    text policy_default_rule("default",
        "Rule that replaces undefined rules that others refer to. If it is undefined, too, they deny.");
    option policy_dirs(Kind::Lines, "policy.d",
        "Folders of more such files, one per line, read in this order after policy_file, each by name; missing ones \
         are skipped.");
    idle remote_content_type("application/x-www-form-urlencoded", REMOTE);
    idle remote_ssl_verify_server_crt("false", REMOTE);
    idle remote_ssl_ca_crt_file("", REMOTE);
    idle remote_ssl_client_crt_file("", REMOTE);
    idle remote_ssl_client_key_file("", REMOTE);
    idle remote_timeout("60", REMOTE);

    [healthcheck]
    idle detailed("false", WSGI);
    idle backends("", WSGI);
    idle allowed_source_ranges("", WSGI);
    idle ignore_proxied_requests("false", WSGI);
    idle disable_by_file_path("", WSGI);
    idle disable_by_file_paths("", WSGI);
    idle enable_by_file_paths("", WSGI);
};

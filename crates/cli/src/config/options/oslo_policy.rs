//! `[oslo_policy]`: the files of rules that say who may do what.

use super::{Kind, Spec};

const REMOTE: &str = "rules of the form http: are refused, so no other server is asked";
const NO_OLD_DEFAULTS: &str = "Gnocchi's rules have no deprecated defaults";

pub const OPTIONS: &[Spec] = &options! {
    [oslo_policy]
    idle enforce_scope("true", "Gnocchi's rules are for tokens of any scope");
    idle enforce_new_defaults("true", NO_OLD_DEFAULTS);
    text policy_file("policy.yaml",
        "File of rules that stand in place of Gnocchi's defaults, one by one. A relative path is looked for \
         beside the configuration file, then in /etc/gnocchi. Where it is named here it must be there.");
    text policy_default_rule("default",
        "Rule that stands for those that rules refer to and nobody has written; where it is not there either, \
         they deny.");
    option policy_dirs(Kind::List, "policy.d",
        "Folders of more such files, read by name after policy_file; those that are not there do not count.");
    idle remote_content_type("application/x-www-form-urlencoded", REMOTE);
    idle remote_ssl_verify_server_crt("false", REMOTE);
    idle remote_ssl_ca_crt_file("", REMOTE);
    idle remote_ssl_client_crt_file("", REMOTE);
    idle remote_ssl_client_key_file("", REMOTE);
    idle remote_timeout("60", REMOTE);
};

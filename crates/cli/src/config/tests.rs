//! Tests of loading, precedence and messages.

use super::{
    options::{CEILOMETER, GNOCCHI},
    *,
};

fn load(text: &str) -> Result<Config> {
    Config::of_text(Project::Gnocchi, text)
}

#[test]
fn defaults_pass_their_own_checks() {
    for spec in GNOCCHI.all().chain(CEILOMETER.all()) {
        assert!(spec.default.is_empty() || check(spec.kind, spec.default).is_ok(), "{}", spec.name);
    }
    let config = Config::read(Project::Gnocchi, Vec::new(), |_| None).unwrap();
    assert_eq!(config.size("api", "port"), 8041);
    assert_eq!(config.text("indexer", "url"), None);
}

#[test]
fn what_may_hold_a_password_is_secret() {
    for spec in GNOCCHI.all().chain(CEILOMETER.all()) {
        let may = spec.help.contains("password]@") || spec.help.contains(":password@");
        assert!(spec.is_secret || !may, "[{}] {}", spec.section, spec.name);
    }
}

#[test]
fn each_option_is_there_once() {
    for catalogue in [GNOCCHI, CEILOMETER] {
        let present = catalogue.all().map(|spec| (spec.section, spec.name));
        let former = catalogue.all().flat_map(Spec::former_names);
        let names: Vec<_> = present.chain(former).collect();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}

#[test]
fn a_bad_value_names_file_section_and_option() {
    let error = load("[api]\nmax_limit = many\n").unwrap_err().to_string();
    assert!(error.contains(":2: [api] max_limit = many: must be a whole number"), "{error}");
    for text in [
        "[api]\nport = 70000\n",
        "[DEFAULT]\nparallel_operations = 1025\n",
        "[metricd]\nworkers = 100000\n",
        "[metricd]\ngreedy = maybe\n",
        "[storage]\ndriver = tape\n",
    ] {
        assert!(load(text).is_err(), "{text}");
    }
}

#[test]
fn empty_numbers_and_lists_of_lines_are_as_in_oslo_config() {
    let config = load("[api]\nport = 1\nport =\n[cors]\nallowed_origin = a,\n  b\n  c\n").unwrap();
    assert_eq!(config.size("api", "port"), 8041);
    assert_eq!(config.list("cors", "allowed_origin"), ["a", "b\nc"]);
}

#[test]
fn all_bad_values_are_told() {
    let first = "[notification]\nworkers = 0\n[polling]\nbatch_size = few\njitter = -1\n";
    let error = load_ceilometer(&[first, "[DEFAULT\n", "[DEFAULT]\ndebug = maybe\nhost = $nothing\n"]);
    let error = error.unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let expected = [
        "0.conf:2: [notification] workers = 0: must be from 1 to 1024",
        "0.conf:4: [polling] batch_size = few: must be a whole number",
        "0.conf:5: [polling] jitter = -1: must be a number of seconds, or 0",
        "1.conf: line 1: a section name without a closing bracket",
        "2.conf:2: [DEFAULT] debug = maybe: must be true or false",
        "2.conf:3: [DEFAULT] host: nothing: there is no such option to refer to; write $$ for a dollar sign",
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn unknown_and_idle_options_warn() {
    let config =
        load("[api]\nnope = 1\n[storage]\nfile_subdir_len = 3\n[DEFAULT]\nuse_syslog = true\n").unwrap();
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
}

#[test]
fn an_unknown_option_is_answered_with_the_one_that_may_be_meant() {
    for (line, expected) in [
        ("[api]\nmax_limits = 1", Some("[api] max_limit")),
        ("[api]\nauthmode = basic", Some("[api] auth_mode")),
        ("[metrics]\nmetric_processing_delay = 1", Some("[metricd] metric_processing_delay")),
        ("[api]\nworkers = 1", Some("[metricd] workers")),
        ("[default]\ndebug = true", Some("[DEFAULT] debug")),
        ("[api]\nnope = 1", None),
    ] {
        let warnings = load(&format!("{line}\n")).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let hint = warnings[0].split_once("did you mean ").map(|(_, hint)| hint.trim_end_matches('?'));
        assert_eq!(hint, expected, "{warnings:?}");
    }
}

#[test]
fn the_command_line_counts_most() {
    let mut config = load("[DEFAULT]\ndebug = true\nlog_file = a\n").unwrap();
    let words = ["p", "--debug", "--log-file=b", "--nodebug", "--use-syslog", "--nouse-journal"];
    let command = <ProgramArgs as clap::Args>::augment_args(clap::Command::new("p"));
    let matches = command.get_matches_from(words);
    let args = <ProgramArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    config.set_from_command_line(&args).unwrap();
    assert!(!config.bool("DEFAULT", "debug"));
    assert_eq!(config.text("DEFAULT", "log_file"), Some("b"));
    assert_eq!(config.place("DEFAULT", "log_file"), "--log-file");
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(config.warnings[0].starts_with("--use-syslog: without effect"));
}

#[test]
fn incoming_is_as_storage_where_it_says_nothing() {
    let text = "[storage]\ndriver = ceph\nceph_pool = a\nredis_url = redis://r\n[incoming]\ndriver = redis\nceph_pool = ${storage.ceph_pool}\n";
    let config = load(text).unwrap();
    let incoming = |name| config.text("incoming", name);
    assert_eq!((incoming("driver"), config.text("storage", "driver")), (Some("redis"), Some("ceph")));
    assert_eq!((incoming("redis_url"), incoming("ceph_pool")), (Some("redis://r"), Some("a")));
    assert_eq!(incoming("s3_bucket_prefix"), Some("gnocchi"), "the default of [storage]");
    assert!(config.place("incoming", "redis_url").ends_with(":4: [storage] redis_url"));
    assert!(config.place("incoming", "driver").ends_with(":6: [incoming] driver"));
    assert!(config.place("incoming", "s3_cacert").ends_with("[storage] s3_cacert"));
}

#[test]
fn the_environment_counts_as_in_oslo_config() {
    let environment = |variable: &str| {
        let value = match variable {
            "OS_STORAGE__REDIS_URL" => "redis://environment",
            "GNOCCHI_INDEXER_URL" => "postgresql://environment",
            "AWS_DEFAULT_REGION" => "there",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[storage]\nredis_url = redis://file\ns3_region_name = here\n").unwrap();
    let config = Config::read(Project::Gnocchi, vec![file.path().to_owned()], environment).unwrap();
    assert_eq!(config.text("storage", "redis_url"), Some("redis://environment"));
    assert_eq!(config.text("incoming", "redis_url"), Some("redis://environment"));
    assert_eq!(config.text("storage", "s3_region_name"), Some("here"));
    assert_eq!(config.text("indexer", "url"), Some("postgresql://environment"));
    assert_eq!(config.place("storage", "redis_url"), "OS_STORAGE__REDIS_URL: [storage] redis_url");
}

/// Even with errors around them.
#[test]
fn passwords_are_in_no_message() {
    let of_gnocchi = GNOCCHI.all().map(|spec| (Project::Gnocchi, spec));
    let of_ceilometer = CEILOMETER.all().map(|spec| (Project::Ceilometer, spec));
    for (project, spec) in of_gnocchi.chain(of_ceilometer).filter(|(_, spec)| spec.is_secret) {
        for value in ["hunter2", "http://u:hunter2@h", "redis:hunter2", "postgresql://u:hunter2@h/d"] {
            let text = format!("[{}]\n{} = {value}\n{}s = {value}\n", spec.section, spec.name, spec.name);
            let said = match Config::of_text(project, &text) {
                Ok(config) => {
                    format!("{:?} {config:?} {}", config.warnings, config.place(spec.section, spec.name))
                }
                Err(error) => format!("{error:#} {error:?}"),
            };
            assert!(!said.contains("hunter2"), "{said}");
            assert!(said.contains(spec.name), "{said}");
        }
    }
    for text in [
        "[storage]\nredis_url hunter2\n",
        "redis_url = hunter2\n",
        "  hunter2\n",
        "[hunter2\n",
        "[DEFAULT]\ndebug = true\n  # redis://:hunter2@h\n",
    ] {
        let error = format!("{:#}", load(text).unwrap_err());
        assert!(!error.contains("hunter2"), "{error}");
    }
}

fn load_ceilometer(texts: &[&str]) -> Result<Config> {
    let directory = tempfile::tempdir().unwrap();
    let paths = texts.iter().enumerate().map(|(index, text)| {
        let path = directory.path().join(format!("{index}.conf"));
        std::fs::write(&path, text).unwrap();
        path
    });
    Config::read(Project::Ceilometer, paths.collect(), |_| None)
}

#[test]
fn of_several_files_the_last_counts_and_lines_add_up() {
    let first =
        "[notification]\nworkers = 2\nmessaging_urls = rabbit://a,b:1/\nmessaging_urls = rabbit://c/\n";
    let second = "[DEFAULT]\nnotification_workers = 3\n[notification]\nmessaging_urls = rabbit://d/\n";
    let config = load_ceilometer(&[first, second]).unwrap();
    assert_eq!(config.int("notification", "workers"), Some(3));
    let place = config.place("notification", "workers");
    assert!(place.ends_with("1.conf:2: [notification] workers"), "{place}");
    let urls = config.list("notification", "messaging_urls");
    assert_eq!(urls, ["rabbit://a,b:1/", "rabbit://c/", "rabbit://d/"]);
    assert_eq!(config.list("notification", "pipelines"), ["meter", "event"]);
    assert_eq!(config.list("notification", "notification_control_exchanges").len(), 14);
}

#[test]
fn deprecated_names_count_less_than_present_ones() {
    for text in [
        "[DEFAULT]\nnotification_workers = 3\n[notification]\nworkers = 2\n",
        "[notification]\nworkers = 2\n[DEFAULT]\nnotification_workers = 3\n",
    ] {
        let config = load_ceilometer(&[text]).unwrap();
        assert_eq!(config.int("notification", "workers"), Some(2), "{text}");
    }
    let exchanges =
        "[notification]\nnotification_control_exchanges = a\n[DEFAULT]\nhttp_control_exchanges = b\n";
    let config = load_ceilometer(&[exchanges]).unwrap();
    assert_eq!(config.list("notification", "notification_control_exchanges"), ["b", "a"]);

    let old = "[api]\nrefresh_timeout = 7\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n\
               [storage]\nmetric_processing_delay = 5\naggregation_workers_number = 4\nswift_tenant_name = s\n\
               [incoming]\nswift_tenant_name = i\n[keystone_authtoken]\ntenant-name = k\n\
               auth_plugin = v3password\n";
    let config = load(old).unwrap();
    assert_eq!(config.warnings, [""; 0]);
    assert_eq!(config.int("api", "operation_timeout"), Some(7));
    assert!(config.bool("api", "enable_proxy_headers_parsing"));
    assert_eq!(config.int("metricd", "metric_processing_delay"), Some(5));
    assert_eq!(config.int("DEFAULT", "parallel_operations"), Some(4));
    assert_eq!(config.text("storage", "swift_project_name"), Some("s"));
    assert_eq!(config.text("incoming", "swift_project_name"), Some("i"));
    assert_eq!(config.text("keystone_authtoken", "project_name"), Some("k"));
    assert_eq!(config.text("keystone_authtoken", "auth_type"), Some("v3password"));
}

#[test]
fn ceilometers_options_are_checked_too() {
    let text = "[DEFAULT]\nnope = 1\nuse_json = true\n[api]\nport = 1\n[service_credentials]\ntenant-name = t\n\
         auth_plugin = v3password\n";
    let config = Config::of_text(Project::Ceilometer, text).unwrap();
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    assert_eq!(config.text("service_credentials", "project_name"), Some("t"));
    assert_eq!(config.text("gnocchi", "project_name"), Some("t"), "as in [service_credentials]");
    assert_eq!(config.text("service_credentials", "auth_type"), Some("v3password"));
}

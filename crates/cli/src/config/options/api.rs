//! `[api]`, `[archive_policy]` and `[cors]`: options of the REST API.

use super::{ANY, Kind, PORT, POSITIVE, Spec, WSGI};

pub const OPTIONS: &[Spec] = &options! {
    [api]
    text host("127.0.0.1",
        "Address to listen on. Another than loopback needs a password_file, or --allow-open-access, with \
         auth_mode basic, which trusts every caller.");
    option port(PORT, "8041", "Port to listen on; 0 for any free one.");
    option auth_mode(Kind::Choice(&["basic", "keystone", "remoteuser"]), "basic",
        "Authentication of callers. basic: the user's name, with a password only if password_file is set; `admin` is \
         the administrator. remoteuser: a proxy in front names the user. keystone: by tokens of Keystone.");
    text password_file("",
        "gnudi: users and their passwords for auth_mode basic, as `gnudi passwd` and `htpasswd -B` write them; \
         read again on SIGHUP and when the file changes. Unset: any password is accepted, as in Gnocchi.");
    text remoteuser_header("X-Remote-User",
        "gnudi: the header in which the proxy names the user, for auth_mode remoteuser.");
    option remoteuser_proxies(Kind::List, "",
        "gnudi: addresses and networks (192.0.2.1, 192.0.2.0/24) from which that header is trusted; auth_mode \
         remoteuser needs them.");
    option max_limit(POSITIVE, "1000", "Maximum items in one response of a listing.");
    option operation_timeout(ANY, "10",
        "Timeout in seconds of a request that waits for processing (refresh); then 503.")
        { formerly: &[("", "refresh_timeout")] };
    option enable_proxy_headers_parsing(Kind::Bool, "false",
        "Trust Forwarded and X-Forwarded-* headers. Only behind a proxy that sets them.")
        { formerly: &[("oslo_middleware", "enable_proxy_headers_parsing")] };
    option body_bytes_max(POSITIVE, "33554432", "gnudi: largest request body; a larger one is answered 413.");
    option bodies_bytes_max(POSITIVE, "536870912",
        "gnudi: maximum bytes of all request bodies that are read or processed, half of it from one address; \
         beyond it requests get 503.");
    option body_grace_ms(POSITIVE, "10000",
        "gnudi: how long a client may stall within a body, or send less than 8 KiB a second, before its connection \
         is closed.");
    option answers_bytes_max(POSITIVE, "536870912",
        "gnudi: maximum bytes of points and details in all responses that clients have not read yet, of which one \
         project gets seven eighths of what the others leave; beyond it 503.");
    option request_measures_max(Kind::Int { min: 1, max: 4_194_304 }, "500000",
        "gnudi: maximum measures in one request; beyond it 413.");
    option empty_answers(Kind::Bool, "false",
        "gnudi: aggregates without data (no resource, no metric with the name, no common points) \
         are empty, instead of 404 and 400, unless a request has `empty=false`. `empty=true` does it for one \
         request.");
    option prometheus_labels(Kind::Choice(&["all", "none"]), "all",
        "gnudi: which labels of Prometheus' series, besides job and instance, are part of the names of metrics. \
         none: as in Gnocchi, where series that differ in other labels are one metric, and the last one of a \
         request is stored.");
    text prometheus_archive_policy("raw",
        "gnudi: archive policy of metrics created by /api/v1/write and /api/v1/otlp/v1/metrics. If it is empty or \
         does not exist, the archive policy rules apply.");
    option prometheus_ceilometer_names(Kind::Bool, "true",
        "gnudi: whether PromQL finds metrics also by their names in Ceilometer's exporters: \
         ceilometer_disk_device_read_bytes is disk.device.read.bytes.");
    option prometheus_delayed_name_removal(Kind::Bool, "false",
        "gnudi: whether PromQL drops metric names only at the end of a query, so that label_replace and \
         aggregations by __name__ still see them: Prometheus' feature promql-delayed-name-removal.");
    option connections_max(POSITIVE, "10000", "gnudi: maximum concurrent connections.");
    option header_timeout_ms(POSITIVE, "10000", "gnudi: timeout of a request's head.");
    text tls_certificate("",
        "gnudi: the server's certificate and its chain, in PEM; the API then uses HTTPS only. \
         Read again on SIGHUP and when the file changes.");
    text tls_key("", "gnudi: the certificate's private key, in PEM.");
    option project_metrics_max(ANY, "",
        "gnudi: maximum active metrics that a project (with other auth_modes than keystone: a user) may have \
         created; beyond it 429. Unset: no limit.");
    option project_measures_per_second(POSITIVE, "",
        "gnudi: measures that a project may post per second, ten seconds' worth at once; beyond it 429. \
         Unset: no limit.");
    option project_request_cost_per_second(POSITIVE, "",
        "gnudi: what a project's requests may cost per second, ten seconds' worth at once: a request costs 1, and \
         1 more for each 100 metrics that it reads across and for each 64 KiB of its response. Beyond it 429. \
         Unset: no limit.");
    text limits_file("",
        "gnudi: YAML file of limits of single projects, which override these: `id: {metrics_max: .., \
         measures_per_second: .., request_cost_per_second: ..}`; read at the start.");
    text metrics_listen("",
        "gnudi: host:port of /metrics, if not the API's own address, where every client of the API can read it \
         without a password.");
    option project_figures(Kind::Bool, "false",
        "gnudi: show each project's usage at /metrics, even without limits. Everybody who can read /metrics \
         sees the projects' ids.");
    idle paste_config("api-paste.ini", WSGI);
    idle uwsgi_path("", WSGI);
    idle uwsgi_mode("http", WSGI);

    [archive_policy]
    option default_aggregation_methods(Kind::List, "mean,min,max,sum,std,count",
        "Methods of an archive policy that names none.");

    [cors]
    option allowed_origin(Kind::List, "", "Origins whose pages may call the API.");
    option allow_credentials(Kind::Bool, "true", "Whether such pages may send credentials.");
    option expose_headers(Kind::List, "", "Headers that such pages may read.");
    option max_age(ANY, "3600", "Seconds for which a browser may keep a preflight answer.");
    option allow_methods(Kind::List, "OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,PATCH",
        "Methods that such pages may use.");
    option allow_headers(Kind::List,
        "Authorization,X-Auth-Token,X-Subject-Token,X-User-Id,X-Domain-Id,X-Project-Id,X-Roles",
        "Headers that such pages may send.");
};

//! `[api]`, `[archive_policy]` and `[cors]`: what the REST API does.

use super::{ANY, Kind, POSITIVE, Spec, WSGI, idle, option};

pub const OPTIONS: &[Spec] = &[
    option(
        "api",
        "host",
        Kind::Text,
        "127.0.0.1",
        "Address to listen on. Another than loopback needs a password_file, or --allow-open-access, with auth_mode basic, which trusts whoever calls.",
    ),
    option(
        "api",
        "port",
        Kind::Int { min: 0, max: 65_535 },
        "8041",
        "Port to listen on; 0 for any free one.",
    ),
    option(
        "api",
        "auth_mode",
        Kind::Choice(&["basic", "keystone", "remoteuser"]),
        "basic",
        "Who callers are. basic: the user's name counts, the password only with password_file, and `admin` is the administrator. \
         remoteuser: a proxy in front names the user.",
    ),
    option(
        "api",
        "password_file",
        Kind::Text,
        "",
        "gnudi: users and their passwords for auth_mode basic, as `gnudi passwd` and `htpasswd -B` write them; read again on \
         SIGHUP and when the file changes. Unset: any password is right, as in Gnocchi.",
    ),
    option(
        "api",
        "remoteuser_header",
        Kind::Text,
        "X-Remote-User",
        "gnudi: the header in which the proxy names the user, for auth_mode remoteuser.",
    ),
    option(
        "api",
        "remoteuser_proxies",
        Kind::List,
        "",
        "gnudi: addresses and networks (192.0.2.1, 192.0.2.0/24) from which that header is believed; auth_mode remoteuser needs \
         them.",
    ),
    option("api", "max_limit", POSITIVE, "1000", "Most items in one answer of a listing."),
    option(
        "api",
        "operation_timeout",
        ANY,
        "10",
        "Seconds that a request waits for measures to be processed (refresh) before it answers 503.",
    ),
    option(
        "api",
        "enable_proxy_headers_parsing",
        Kind::Bool,
        "false",
        "Believe Forwarded and X-Forwarded-* headers. Only behind a proxy that sets them.",
    ),
    option(
        "api",
        "body_bytes_max",
        POSITIVE,
        "33554432",
        "gnudi: largest request body; a larger one is answered 413.",
    ),
    option(
        "api",
        "request_measures_max",
        Kind::Int { min: 1, max: 4_194_304 },
        "500000",
        "gnudi: most measures in one request; more are answered 413.",
    ),
    option(
        "api",
        "prometheus_labels",
        Kind::Choice(&["all", "none"]),
        "all",
        "gnudi: which labels of Prometheus' series, besides job and instance, are part of the names of metrics. none: as in \
         Gnocchi, where series that differ in other labels are one metric, of which the last in a request counts.",
    ),
    option("api", "connections_max", POSITIVE, "10000", "gnudi: most connections at the same time."),
    option(
        "api",
        "header_timeout_ms",
        POSITIVE,
        "10000",
        "gnudi: how long a client may take to send a request's head.",
    ),
    option(
        "api",
        "tls_certificate",
        Kind::Text,
        "",
        "gnudi: the server's certificate and those that vouch for it, in PEM; the API then speaks HTTPS only. Read again on \
         SIGHUP and when the file changes.",
    ),
    option("api", "tls_key", Kind::Text, "", "gnudi: the certificate's private key, in PEM."),
    idle("api", "paste_config", "api-paste.ini", WSGI),
    idle("api", "uwsgi_path", "", WSGI),
    idle("api", "uwsgi_mode", "http", WSGI),
    option(
        "archive_policy",
        "default_aggregation_methods",
        Kind::List,
        "mean,min,max,sum,std,count",
        "Methods of an archive policy that names none.",
    ),
    option("cors", "allowed_origin", Kind::List, "", "Origins whose pages may call the API."),
    option("cors", "allow_credentials", Kind::Bool, "true", "Whether such pages may send credentials."),
    option("cors", "expose_headers", Kind::List, "", "Headers that such pages may read."),
    option("cors", "max_age", ANY, "3600", "Seconds for which a browser may keep a preflight answer."),
    option(
        "cors",
        "allow_methods",
        Kind::List,
        "OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,PATCH",
        "Methods that such pages may use.",
    ),
    option(
        "cors",
        "allow_headers",
        Kind::List,
        "Authorization,X-Auth-Token,X-Subject-Token,X-User-Id,X-Domain-Id,X-Project-Id,X-Roles",
        "Headers that such pages may send.",
    ),
];

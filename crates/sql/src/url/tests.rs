//! Valid URLs, and the errors of invalid ones.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::options::Tls;

fn read(url: &str) -> ServerOptions {
    match DatabaseOptions::from_url(url) {
        Ok(DatabaseOptions::Server(options)) => options,
        other => panic!("{url}: {other:?}"),
    }
}

fn tcp(name: &str, port: u16) -> Host {
    Host::Tcp(name.to_owned(), port)
}

#[test]
fn gnocchis_forms_are_taken() {
    for scheme in ["postgresql", "postgres", "postgresql+psycopg2", "postgresql+psycopg", "POSTGRESQL"] {
        let options = read(&format!("{scheme}://me:secret@db.example:5433/gnocchi"));
        let expected = ServerOptions {
            password: Some(Secret::new("secret")),
            ..ServerOptions::new(Server::Postgres, tcp("db.example", 5433), "me", "gnocchi")
        };
        assert_eq!(options, expected);
    }
    for scheme in ["mysql", "mysql+pymysql", "mariadb", "mariadb+pymysql", "mysql+mysqldb"] {
        let options = read(&format!("{scheme}://me@db/gnocchi?charset=utf8"));
        assert_eq!(options, ServerOptions::new(Server::Mysql, tcp("db", 3306), "me", "gnocchi"));
    }
    let options = read("postgresql://m%40e:p%3A%2F%3F%25@[::1]:5433/%C3%A9");
    let expected = ServerOptions {
        password: Some(Secret::new("p:/?%")),
        ..ServerOptions::new(Server::Postgres, tcp("::1", 5433), "m@e", "\u{e9}")
    };
    assert_eq!(options, expected);
    assert_eq!(read("postgresql://me:a@b:c@h/d").password, Some(Secret::new("a@b:c")));
    // As SQLAlchemy reads them.
    for password in ["a/b", "/", "a?b=c", "a/b?c:d", "?"] {
        for rest in ["h:99/d", "h:99/d?charset=utf8", "h:99/d?ssl_ca=/a@b"] {
            let options = read(&format!("mysql+pymysql://me:{password}@{rest}"));
            assert_eq!(options.password, Some(Secret::new(password)), "{password} {rest}");
            assert_eq!((&*options.user, &*options.database), ("me", "d"), "{password} {rest}");
            assert_eq!(options.host, tcp("h", 99), "{password} {rest}");
        }
    }
    let options = read("mysql://me@h/d?ssl_ca=/a:b@c");
    assert_eq!((options.password, &*options.user, options.host), (None, "me", tcp("h", 3306)));
    assert_eq!(read("mysql://me@/d").host, tcp("localhost", 3306));
}

#[test]
fn sockets_are_named_by_options() {
    let socket = |path: &str, port| Host::Socket(path.into(), port);
    assert_eq!(read("postgresql://me@/d?host=/run/postgresql").host, socket("/run/postgresql", 5432));
    assert_eq!(read("postgresql://me@/d?host=/run&port=5433").host, socket("/run", 5433));
    assert_eq!(read("postgresql://me@/d?host=db").host, tcp("db", 5432));
    // As libpq.
    assert_eq!(read("postgresql://me@/d").host, socket("/var/run/postgresql", 5432));
    assert_eq!(read("postgresql://me@:5433/d").host, socket("/var/run/postgresql", 5433));
    assert_eq!(read("mysql+pymysql://me@localhost/d?unix_socket=/run/s").host, socket("/run/s", 0));
}

#[test]
fn options_that_ask_for_what_is_done_anyway_are_taken() {
    let plain = read("postgresql://u@h/d");
    for option in [
        "keepalives=1&keepalives_idle=30&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=9",
        "target_session_attrs=read-write",
        "target_session_attrs=primary",
        "channel_binding=prefer",
        "read_timeout=60&write_timeout=60",
    ] {
        assert_eq!(read(&format!("postgresql://u@h/d?{option}")), plain, "{option}");
    }
    assert_eq!(read("mysql://u@h/d?read_timeout=5").timeout, Duration::from_secs(5));
}

#[test]
fn a_file_has_three_slashes_or_four() {
    for (url, path) in [
        ("sqlite:///gnocchi.db", "gnocchi.db"),
        ("sqlite:////var/lib/a%20b", "/var/lib/a b"),
        ("sqlite+pysqlite:///x?y=1", "x"),
    ] {
        let Ok(DatabaseOptions::Sqlite(options)) = DatabaseOptions::from_url(url) else { panic!("{url}") };
        assert_eq!(options.path, Path::new(path));
    }
    assert_eq!(
        DatabaseOptions::from_url("sqlite://").err().map(|e| e.to_string().contains("three slashes")),
        Some(true)
    );
    assert_eq!(DatabaseOptions::from_url("sqlite:///").err(), Some(InvalidUrl::Missing("file")));
}

#[test]
fn certificates_are_verified_as_asked() {
    let mode = |url: &str| read(url).tls.mode;
    for (name, expected) in [
        ("disable", TlsMode::Disabled),
        ("prefer", TlsMode::Preferred),
        ("require", TlsMode::Required),
        ("verify-ca", TlsMode::VerifyCa),
        ("verify-full", TlsMode::VerifyIdentity),
        ("VERIFY_IDENTITY", TlsMode::VerifyIdentity),
    ] {
        assert_eq!(mode(&format!("postgresql://u@h/d?sslmode={name}")), expected);
        assert_eq!(mode(&format!("mysql://u@h/d?ssl_mode={name}")), expected);
    }
    let tls = read("postgresql://u@h/d?sslmode=verify-full&sslrootcert=/r&sslcert=/c&sslkey=/k").tls;
    let file = |path: &str| Some(PathBuf::from(path));
    let expected = Tls {
        mode: TlsMode::VerifyIdentity,
        root_certificates: file("/r"),
        certificate: file("/c"),
        key: file("/k"),
    };
    assert_eq!(tls, expected);
    assert_eq!(read("mysql://u@h/d?ssl_ca=/r&ssl_cert=/c&ssl_key=/k").tls, expected);
    assert_eq!(mode("mysql://u@h/d?ssl_ca=/r&ssl_check_hostname=false"), TlsMode::VerifyCa);
    assert_eq!(mode("mysql://u@h/d"), TlsMode::Preferred);
}

#[test]
fn a_bad_url_is_told_what_is_wrong() {
    for (url, said) in [
        ("gnocchi.db", "no scheme"),
        ("oracle://u:hidden@h/d", "scheme oracle"),
        ("postgresql://u:hidden@h", "no database"),
        ("postgresql://u:hidden@h/", "no database"),
        ("postgresql://h/d", "no user"),
        ("postgresql://u:hidden@h:0/d", "bad port"),
        ("postgresql://u:hidden@h:99999/d", "bad port"),
        ("postgresql://u:hidden@[::1/d", "bad host"),
        ("postgresql://u:hidden@[::1]x/d", "bad host"),
        ("postgresql://u:hidden@a,b/d", "bad host"),
        ("postgresql://u:hidden@/d?host=a,b", "bad host"),
        ("postgresql://u:hidden@/d?host=a&host=b", "bad host"),
        ("postgresql://u:hidden@h/d?target_session_attrs=standby", "bad value for target_session_attrs"),
        ("postgresql://u:hidden@h/d?channel_binding=require", "bad value for channel_binding"),
        ("postgresql://u:hidden%4@h/d", "bad password"),
        ("postgresql://u:hidden%ff@h/d", "bad password"),
        ("postgresql://u:hidden%00@h/d", "bad password"),
        ("mysql://u:hidden@h/d?sslmode=perhaps", "bad value for sslmode"),
        ("mysql://u:hidden@h/d?ssl_check_hostname=perhaps", "bad value for ssl_check_hostname"),
        ("mysql://u:hidden@h/d?connect_timeout=0", "bad value for connect_timeout"),
        ("mysql://u:hidden@h/d?colour=red", "unknown option colour"),
    ] {
        let error = DatabaseOptions::from_url(url).expect_err(url).to_string();
        assert!(error.contains(said) && !error.contains("hidden"), "{url}: {error}");
    }
}

#[test]
fn a_password_is_not_shown() {
    let options = DatabaseOptions::from_url("postgresql://me:hidden@h/d").unwrap();
    let shown = format!("{options:?} {}", options.place());
    assert!(!shown.contains("hidden") && shown.contains("postgresql://me@h:5432/d"), "{shown}");
}

proptest! {
    #[test]
    fn parts_are_read_as_they_were_written(user in ".{1,9}", password in ".{0,9}", database in ".{1,9}") {
        prop_assume!(![&user, &password, &database].iter().any(|text| text.contains('\0')));
        let escaped = |text: &str| {
            let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap();
            text.bytes().flat_map(|byte| ['%', digit(byte >> 4), digit(byte & 15)]).collect::<String>()
        };
        let url = format!("mysql://{}:{}@h/{}", escaped(&user), escaped(&password), escaped(&database));
        let options = read(&url);
        prop_assert_eq!(options.password, Some(Secret::new(password)));
        prop_assert_eq!((options.user, options.database), (user, database));
    }

    #[test]
    fn nothing_breaks_the_reader(url in "(postgresql|mysql|sqlite)://[a-z:@/?&=%0-9\\[\\]]{0,30}") {
        DatabaseOptions::from_url(&url).ok();
    }
}

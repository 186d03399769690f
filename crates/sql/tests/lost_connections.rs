//! What ends a connection: with servers of the tests' own, which speak just enough of the protocols.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread::{self, JoinHandle},
};

use gnudi_sql::{Class, Connector, DatabaseOptions, Pool, Purpose, class, is_lost};
use tokio::sync::oneshot;

/// A server, and how to connect to it. What it returns is the result of its thread.
fn start<T: Send + 'static>(
    scheme: &str,
    tls: &str,
    serve: impl FnOnce(&TcpListener) -> T + Send + 'static,
) -> (Connector, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://me@{}/index?sslmode={tls}", listener.local_addr().unwrap());
    let connector = Connector::new(&DatabaseOptions::from_url(&url).unwrap());
    (connector, thread::spawn(move || serve(&listener)))
}

fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().unwrap().0
}

/// The class of the error with which a server answers a statement, and whether the connection is lost then.
async fn outcome(scheme: &str, serve: impl FnOnce(&mut TcpStream) + Send + 'static) -> (Class, bool) {
    let (connector, server) = start(scheme, "disable", move |listener| serve(&mut accept(listener)));
    let mut connection = connector.connect(Purpose::Write).await.unwrap();
    let error = connection.run("SELECT 1").await.unwrap_err();
    server.join().unwrap();
    assert_eq!(connection.is_lost(), is_lost(&error), "{error}");
    (class(&error), is_lost(&error))
}

fn put_to_mysql(client: &mut TcpStream, sequence: u8, payload: &[u8]) {
    let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
    packet[3] = sequence;
    packet.extend_from_slice(payload);
    client.write_all(&packet).unwrap();
}

fn take_from_mysql(client: &mut TcpStream) -> String {
    let mut header = [0; 4];
    client.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    client.read_exact(&mut payload).unwrap();
    String::from_utf8_lossy(&payload).into_owned()
}

/// A server of `MySQL` that accepts a connection, and does not know its third setting: returns that.
fn greet_mysql(client: &mut TcpStream) -> String {
    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    // Version, connection and nonce; capabilities (transactions, 4.1, a database), collation and status.
    let greeting = [&b"\x0a8.0.36\0"[..], &[0; 13], &[0x09, 0x22, 45, 2, 0, 0, 0], &[0; 11]].concat();
    put_to_mysql(client, 0, &greeting);
    take_from_mysql(client);
    put_to_mysql(client, 2, OK);
    // The settings of the session, sqlx's and ours.
    for _ in 0..2 {
        take_from_mysql(client);
        put_to_mysql(client, 1, OK);
    }
    let setting = take_from_mysql(client);
    refuse_mysql(client, 1193, "HY000");
    setting
}

/// Answers by an error.
fn refuse_mysql(client: &mut TcpStream, number: u16, state: &str) {
    let error = [&[0xff_u8][..], &number.to_le_bytes(), b"#", state.as_bytes(), b"refused"].concat();
    put_to_mysql(client, 1, &error);
}

/// A server of `MySQL` that answers a statement by an error.
fn mysql(client: &mut TcpStream, number: u16, state: &str) {
    greet_mysql(client);
    take_from_mysql(client);
    refuse_mysql(client, number, state);
}

/// A server of `PostgreSQL` that accepts a connection: returns what it is started with.
fn greet_postgres(client: &mut TcpStream) -> String {
    let startup = take_from_postgres(client);
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
    // The settings of the session.
    client.read_exact(&mut [0]).unwrap();
    take_from_postgres(client);
    client.write_all(b"C\0\0\0\x08SET\0Z\0\0\0\x05I").unwrap();
    startup
}

/// A message without its kind.
fn take_from_postgres(client: &mut TcpStream) -> String {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut message = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut message).unwrap();
    String::from_utf8_lossy(&message).into_owned()
}

/// A server of `PostgreSQL` whose second answer is an error.
fn postgres(client: &mut TcpStream, severity: &str, code: &str) {
    greet_postgres(client);
    client.read_exact(&mut [0]).unwrap();
    take_from_postgres(client);
    refuse_postgres(client, severity, code);
}

/// Answers by an error.
fn refuse_postgres(client: &mut TcpStream, severity: &str, code: &str) {
    let fields = format!("S{severity}\0V{severity}\0C{code}\0Mrefused\0\0");
    let length = (fields.len() as u32 + 4).to_be_bytes();
    client.write_all(&[&b"E"[..], &length, fields.as_bytes()].concat()).unwrap();
}

#[tokio::test]
async fn mysqls_errors_that_end_a_connection() {
    for (number, state, expected) in [
        // The server has closed an idle connection (MySQL 8.0.24 and newer).
        (4031, "HY000", (Class::Unavailable, true)),
        (1927, "70100", (Class::Unavailable, true)),
        (1053, "08S01", (Class::Unavailable, true)),
        // The server is no longer the primary: a new connection may reach the one that is.
        (1290, "HY000", (Class::Unavailable, true)),
        (1836, "HY000", (Class::Unavailable, true)),
        // Statements that took too long, in MySQL and in MariaDB: another connection would repeat them.
        (3024, "HY000", (Class::Unavailable, false)),
        (1969, "70100", (Class::Unavailable, false)),
        // Until an operator lifts it.
        (1129, "HY000", (Class::Unavailable, false)),
        // A new connection finds room for its statements.
        (1461, "42000", (Class::Unavailable, true)),
        (1213, "40001", (Class::Contended, false)),
        // Of a replication group.
        (3101, "40000", (Class::Contended, false)),
        (3100, "HY000", (Class::Unavailable, false)),
        (1064, "42000", (Class::Other, false)),
    ] {
        let outcome = outcome("mysql", move |client| mysql(client, number, state)).await;
        assert_eq!(outcome, expected, "{number}");
    }
}

#[tokio::test]
async fn postgresqls_errors_that_end_a_connection() {
    for (severity, code, expected) in [
        // The server has closed an idle connection (`idle_session_timeout`).
        ("FATAL", "57P05", (Class::Unavailable, true)),
        ("FATAL", "57P01", (Class::Unavailable, true)),
        ("FATAL", "25P03", (Class::Unavailable, true)),
        ("FATAL", "XX000", (Class::Other, true)),
        // Of a proxy.
        ("ERROR", "08006", (Class::Unavailable, true)),
        // The server is no longer the primary: a new connection may reach the one that is.
        ("ERROR", "25006", (Class::Unavailable, true)),
        ("ERROR", "57014", (Class::Unavailable, false)),
        ("ERROR", "40001", (Class::Contended, false)),
        ("ERROR", "42601", (Class::Other, false)),
    ] {
        let outcome = outcome("postgresql", move |client| postgres(client, severity, code)).await;
        assert_eq!(outcome, expected, "{code}");
    }
}

/// Nodes of Galera apply each other's commits later; other servers do not know the setting.
#[tokio::test]
async fn mysql_sees_what_other_nodes_have_committed() {
    for purpose in [Purpose::Read, Purpose::Write, Purpose::Coordinate, Purpose::Migrate] {
        let (connector, server) = start("mysql", "disable", |listener| greet_mysql(&mut accept(listener)));
        connector.connect(purpose).await.unwrap();
        let setting = server.join().unwrap();
        assert!(setting.contains("wsrep_sync_wait = 7"), "{purpose:?}: {setting}");
    }
}

/// `PgBouncer` refuses connections that ask for more than it knows.
#[tokio::test]
async fn postgresql_is_asked_for_nothing_that_pgbouncer_refuses() {
    let (connector, server) =
        start("postgresql", "disable", |listener| greet_postgres(&mut accept(listener)));
    connector.connect(Purpose::Read).await.unwrap();
    let startup = server.join().unwrap();
    assert!(startup.contains("application_name") && !startup.contains("extra_float_digits"), "{startup}");
}

/// Answers a query by the number of a process.
fn answer_postgres(client: &mut TcpStream, process: u8) {
    client.read_exact(&mut [0]).unwrap();
    take_from_postgres(client);
    // A column of the type int4.
    let column = [&b"\0\x01pid\0"[..], &[0; 6], &[0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, 0]].concat();
    let row = [0, 1, 0, 0, 0, 1, b'0' + process];
    let messages: [(u8, &[u8]); 4] = [(b'T', &column), (b'D', &row), (b'C', b"SELECT 1\0"), (b'Z', b"I")];
    for (kind, body) in messages {
        let length = (body.len() as u32 + 4).to_be_bytes();
        client.write_all(&[&[kind][..], &length, body].concat()).unwrap();
    }
}

/// `PgBouncer` in transaction mode.
#[tokio::test]
async fn a_pooler_that_shares_sessions_is_known_by_their_processes() {
    for (processes, expected) in [([[1, 2], [3, 3], [1, 2]], true), ([[1, 2]; 3], false)] {
        let (connector, server) = start("postgresql", "disable", move |listener| {
            let mut clients = [(); 2].map(|()| {
                let mut client = accept(listener);
                greet_postgres(&mut client);
                client
            });
            for pair in processes {
                for (client, process) in clients.iter_mut().zip(pair) {
                    answer_postgres(client, process);
                }
            }
        });
        let mut connection = connector.connect(Purpose::Migrate).await.unwrap();
        assert_eq!(connector.shares_sessions(&mut connection).await.unwrap(), expected, "{processes:?}");
        server.join().unwrap();
    }
}

/// As with the servers' own clients: rustls refuses old versions of TLS and of certificates.
#[tokio::test]
async fn tls_that_fails_is_done_without_unless_it_is_required() {
    for (mode, connects) in [("prefer", true), ("require", false)] {
        let (connector, server) = start("postgresql", mode, move |listener| {
            let mut client = accept(listener);
            take_from_postgres(&mut client);
            // Yes, and the alert that they have no version in common.
            client.write_all(b"S\x15\x03\x03\0\x02\x02\x46").unwrap();
            if connects {
                greet_postgres(&mut accept(listener));
            }
        });
        let connected = connector.connect(Purpose::Read).await;
        assert_eq!(connected.is_ok(), connects, "{mode}: {:?}", connected.err());
        server.join().unwrap();
    }
}

/// Takes a statement that is to be prepared: the messages up to the one that asks for the answers.
fn take_statement_from_postgres(client: &mut TcpStream) {
    let mut kind = [0];
    while kind != *b"S" {
        client.read_exact(&mut kind).unwrap();
        take_from_postgres(client);
    }
}

/// Callers that give up would otherwise have the server execute any number of statements, each over another connection.
#[tokio::test]
async fn a_read_that_was_given_up_keeps_its_connection_until_it_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://me@{}/index?sslmode=disable", listener.local_addr().unwrap());
    let DatabaseOptions::Server(mut options) = DatabaseOptions::from_url(&url).unwrap() else {
        panic!("{url}")
    };
    options.readers_max = 1;
    let (asked, is_asked) = oneshot::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut client = accept(&listener);
        greet_postgres(&mut client);
        take_statement_from_postgres(&mut client);
        asked.send(()).unwrap();
        may_answer.recv().unwrap();
        refuse_postgres(&mut client, "ERROR", "42601");
        client.write_all(b"Z\0\0\0\x05I").unwrap();
        // The next caller's.
        take_statement_from_postgres(&mut client);
        refuse_postgres(&mut client, "ERROR", "42601");
    });
    let pool = Pool::open(&DatabaseOptions::Server(options)).await.unwrap();
    let given_up = pool.fetch_all(pool.statement("SELECT 1"));
    tokio::select! {
        rows = given_up => panic!("{:?}", rows.map(|rows| rows.len())),
        asked = is_asked => asked.unwrap(),
    }
    answer.send(()).unwrap();
    let refused = pool.fetch_all(pool.statement("SELECT 2")).await.map(|rows| rows.len()).unwrap_err();
    assert_eq!(class(&refused), Class::Other, "{refused}");
    server.join().unwrap();
}

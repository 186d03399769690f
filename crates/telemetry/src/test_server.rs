//! An HTTP server for tests, and a login and a cloud at one.

use std::{sync::Arc, time::Duration};

use gnudi_http::Trust;
use gnudi_keystone::{Credentials, DomainRef, Interface, KeystoneOptions, UserRef};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::polling::cloud::Cloud;

/// Starts a server and returns its URL. `answer` gets the first line and the body of each request, and gives the status and
/// the body of the response.
pub async fn serve<A>(answer: A) -> String
where
    A: FnMut(&str, &str) -> (&'static str, &'static str) + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(Mutex::new(answer));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(respond(BufReader::new(stream), answer.clone()));
        }
    });
    url
}

/// A login at the Keystone with this URL, without its version.
pub fn keystone(url: &str) -> KeystoneOptions {
    KeystoneOptions {
        auth_url: format!("{url}/v3"),
        credentials: Credentials::Password {
            user: UserRef::Name { name: "u".into(), domain: DomainRef::Name("Default".into()) },
            password: "p".into(),
            scope: None,
        },
        region_name: None,
        interface: Interface::Public,
        trust: Trust::Anyone,
        identity: None,
        timeout: Duration::from_mins(1),
    }
}

/// A cloud whose catalogue has these endpoints of a service.
pub async fn cloud(service: &str, endpoints: &[String]) -> Cloud {
    let endpoints: Vec<Value> =
        endpoints.iter().map(|url| json!({ "interface": "public", "url": url })).collect();
    let token = json!({ "token": {
        "issued_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-02T00:00:00Z",
        "catalog": [{ "type": service, "endpoints": endpoints }],
    } });
    let token: &'static str = token.to_string().leak();
    let url = serve(move |_, _| ("201 Created", token)).await;
    Cloud::new(keystone(&url), 1).unwrap()
}

async fn respond<A>(mut stream: BufReader<TcpStream>, answer: Arc<Mutex<A>>)
where
    A: FnMut(&str, &str) -> (&'static str, &'static str),
{
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        let (status, text) = (*answer.lock())(head.lines().next().unwrap_or_default(), &body);
        let length = text.len();
        let response =
            format!("HTTP/1.1 {status}\r\nX-Subject-Token: t\r\nContent-Length: {length}\r\n\r\n{text}");
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

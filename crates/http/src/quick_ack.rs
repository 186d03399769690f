//! Connections that acknowledge received data at once while they wait for more.
//!
//! Servers without `TCP_NODELAY`, such as radosgw by default, hold a response's body back until its head is acknowledged
//! (Nagle's algorithm), and Linux delays that acknowledgement by 40 ms.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{
    Uri,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower_service::Service;

/// Opens connections like [`HttpConnector`].
#[derive(Clone, Debug)]
pub struct QuickAckConnector(pub HttpConnector);

impl Service<Uri> for QuickAckConnector {
    type Response = QuickAckStream;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async { connecting.await.map(QuickAckStream) })
    }
}

pub struct QuickAckStream(TokioIo<TcpStream>);

impl Read for QuickAckStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        if read.is_pending() {
            // Each time, since Linux resets the option when data is sent. Without it the connection is only slow.
            let _ = self.0.inner().set_quickack(true);
        }
        read
    }
}

impl Write for QuickAckStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Connection for QuickAckStream {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use hyper::Request;
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpListener,
    };

    use crate::{HttpClient, HttpOptions, Trust};

    /// Answers each request of one connection with a head and, in a separate write without `TCP_NODELAY`, a body.
    async fn answer_in_two_pieces(listener: TcpListener) {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap() > 0 {
            if line == "\r\n" {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n").await.unwrap();
                stream.write_all(b"body").await.unwrap();
            }
            line.clear();
        }
    }

    #[tokio::test]
    async fn a_body_is_not_held_back_until_a_delayed_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(answer_in_two_pieces(listener));
        let client =
            HttpClient::new(&HttpOptions { trust: Trust::Anyone, ..HttpOptions::default() }).unwrap();
        let started = Instant::now();
        // Linux delays none of a connection's first acknowledgements.
        for _ in 0..60 {
            let answer = client.send(Request::get(&url).body(Bytes::new()).unwrap()).await.unwrap();
            assert_eq!(answer.body, "body");
        }
        // With a delay of 40 ms for most: 1.8 s.
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
        server.abort();
    }
}

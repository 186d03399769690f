"""Sockets that remember what publishers send."""

import contextlib
import http.server
import socket
import struct
import threading

TIMEOUT_S = 60


@contextlib.contextmanager
def datagrams(host="127.0.0.1"):
    """`next()` of what it yields waits for a datagram."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((host, 0))
        server.settimeout(TIMEOUT_S)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        yield server.getsockname()[1], lambda: server.recv(65536)


@contextlib.contextmanager
def stream():
    """Yields a port and a function that waits for a message behind its length."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        connections = []

        def exactly(length):
            data = b""
            while len(data) < length:
                part = connections[0].recv(length - len(data))
                assert part, "closed"
                data += part
            return data

        def message():
            if not connections:
                connections.append(server.accept()[0])
                connections[0].settimeout(TIMEOUT_S)
            (length,) = struct.unpack("<Q", exactly(8))
            return exactly(length)

        try:
            yield server.getsockname()[1], message
        finally:
            for connection in connections:
                connection.close()


class Requests:
    """An HTTP server; answers what `statuses` says, one after the other, then 202. With a TLS context it speaks HTTPS."""

    def __init__(self, context=None):
        self.seen, self.statuses = [], []
        requests = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = requests.statuses.pop(0) if requests.statuses else 202
                headers = {name.lower(): value for name, value in self.headers.items()}
                requests.seen.append((status, self.path, headers, body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        seen, self.seen = self.seen, []
        return seen

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

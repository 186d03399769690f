"""Sockets that record what publishers send."""

import contextlib
import socket
import struct

from support.http_stand_in import HttpStandIn

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


class Requests(HttpStandIn):
    """Answers what `statuses` says, one after the other, then 202."""

    def __init__(self, context=None):
        super().__init__(context=context)
        self.seen, self.statuses = [], []

    def respond(self, method, path, headers, body):
        status = self.statuses.pop(0) if self.statuses else 202
        self.seen.append((status, path, {name.lower(): value for name, value in headers.items()}, body))
        return status, {}, None

    def take(self):
        seen, self.seen = self.seen, []
        return seen


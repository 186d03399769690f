"""A TCP proxy before a server that can delay it, refuse in its place, or disconnect, as failing engines do.

Its only HTTP is the response 503 to requests that arrive while it is set to refuse.
"""

import re
import socket
import threading
import time

REFUSAL = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CHUNK_BYTES = 65536


class Proxy:
    """Listens on `port` of loopback and passes all on to `target` (a port). Its moods can be changed at any time."""

    def __init__(self, target):
        self.target = target
        self.delay_s = 0.0
        self.refusing = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.refused = 0
        self._open = set()
        self._lock = threading.Lock()
        self._closed = False

    def start(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def stop(self):
        self._closed = True
        self.listener.close()
        self.hang_up()

    def hang_up(self):
        """Ends all connections in the middle of whatever they do."""
        with self._lock:
            sockets, self._open = self._open, set()
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def refuse(self, refusing):
        """While true, new requests are answered with 503; connections that are open are ended."""
        self.refusing = refusing
        if refusing:
            self.hang_up()

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            if self.refusing:
                self._refuse(client)
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
            except OSError:
                return
            with server:
                server.settimeout(None)
                with self._lock:
                    self._open |= {client, server}
                back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
                back.start()
                self._pass(client, server, self._asked)
                back.join()
                with self._lock:
                    self._open -= {client, server}

    def _refuse(self, client):
        client.settimeout(5)
        try:
            client.recv(CHUNK_BYTES)
            client.sendall(REFUSAL)
            self.refused += 1
            # What is still under way must not turn the answer into a reset.
            client.shutdown(socket.SHUT_WR)
            while client.recv(CHUNK_BYTES):
                pass
        except OSError:
            pass

    def _asked(self, data, server):
        """For subclasses: `data` of a client is about to pass to the server, on this socket."""

    def _pass(self, source, target, watch=lambda data, target: None):
        try:
            while data := source.recv(CHUNK_BYTES):
                if self.delay_s:
                    time.sleep(self.delay_s)
                watch(data, target)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class CountingProxy(Proxy):
    """Writes down which requests pass: `requests` has method and path of each, in their order."""

    LINE = re.compile(rb"([A-Z]+) (/\S*) HTTP/1\.1$")

    def __init__(self, target):
        super().__init__(target)
        self.requests = []
        # The incomplete line of each connection, by its socket.
        self._rest = {}

    def count(self, method, path):
        """How many requests to the path, whatever their arguments, have passed."""
        return sum(1 for found, asked in list(self.requests) if found == method and asked.split("?")[0] == path)

    def _asked(self, data, server):
        # What has no end of a line yet may go on in the next piece; bodies here have none.
        *lines, self._rest[server] = (self._rest.get(server, b"") + data).split(b"\r\n")
        for line in lines:
            if found := self.LINE.search(line):
                self.requests.append((found[1].decode(), found[2].decode()))


class CuttingProxy(Proxy):
    """Hangs up once, in place of the client's message number `cut_at` (from 1; never: 0). `messages` counts them."""

    def __init__(self, target, cut_at=0):
        super().__init__(target)
        self.messages, self.cut_at = 0, cut_at

    def _asked(self, data, server):
        with self._lock:
            self.messages += 1
            is_cut = self.messages == self.cut_at
        if is_cut:
            self.hang_up()

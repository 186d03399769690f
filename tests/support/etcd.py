"""An etcd of one's own in a directory: loopback only, without authentication."""

import pathlib
import urllib.request

from support.process import Engine, Process, free_port, required

START_TIMEOUT_S = 60


class Etcd(Engine):
    def __init__(self, directory):
        required("etcd", "etcd-server")
        self.directory = pathlib.Path(directory)
        self.port, self.peer_port = free_port(), free_port()

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        own, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        self.process = Process(
            ["etcd", "--name", "one", "--data-dir", self.directory / "data", "--listen-client-urls", own,
             "--advertise-client-urls", own, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"one={peer}", "--unsafe-no-fsync"],
            self.directory / "log",
        )
        self.process.wait_ready(self._healthy, START_TIMEOUT_S)
        return self

    @property
    def url(self):
        return f"etcd3+http://127.0.0.1:{self.port}"

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

"""An etcd of one's own in a directory: loopback only, without authentication."""

import pathlib
import shutil
import urllib.request

from support.process import Process, free_port

START_TIMEOUT_S = 30


class EtcdMissing(Exception):
    """No etcd on this machine."""


class Etcd:
    def __init__(self, directory):
        if shutil.which("etcd") is None:
            raise EtcdMissing("etcd is missing: run scripts/install-test-deps, or install `etcd-server`")
        self.directory = pathlib.Path(directory)
        self.port, self.peer_port = free_port(), free_port()
        self.process = None

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

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process = None

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

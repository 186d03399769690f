"""Ceph's object gateway on a `Ceph` of one's own: S3 and Swift over HTTP, one user."""

import pathlib

from support.http import Client
from support.process import Engine, Process, free_port, required

START_TIMEOUT_S = 90
ACCESS_KEY, SECRET_KEY = "gnudi-access", "gnudi-secret"
SWIFT_USER, SWIFT_KEY = "gnudi:swift", "gnudi-swift-secret"


class Radosgw(Engine):
    def __init__(self, directory, ceph):
        for program in ["radosgw", "radosgw-admin"]:
            required(program, "radosgw")
        self.directory, self.ceph = pathlib.Path(directory), ceph
        self.port = free_port()

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self._serve()
        admin = lambda *words: self.ceph.run("radosgw-admin", "-c", self.ceph.conf, *words)
        admin("user", "create", "--uid=gnudi", "--display-name=gnudi", f"--access-key={ACCESS_KEY}",
              f"--secret-key={SECRET_KEY}", "--max-buckets=0")
        admin("subuser", "create", "--uid=gnudi", f"--subuser={SWIFT_USER}", "--access=full")
        admin("key", "create", f"--subuser={SWIFT_USER}", "--key-type=swift", f"--secret-key={SWIFT_KEY}")
        return self

    def restart(self):
        self.stop()
        self._serve()

    def _serve(self):
        self.process = Process(
            ["radosgw", "-f", "-c", self.ceph.conf, "-n", "client.rgw.a",
             f"--rgw-frontends=beast endpoint=127.0.0.1:{self.port}"],
            self.directory / "log",
        )
        self.process.wait_ready(self._answers, START_TIMEOUT_S)

    @property
    def s3_options(self):
        """The lines of [storage] or [incoming] that name this gateway by S3, without the driver and the bucket."""
        return (f"s3_endpoint_url = http://127.0.0.1:{self.port}\ns3_region_name = default\n"
                f"s3_access_key_id = {ACCESS_KEY}\ns3_secret_access_key = {SECRET_KEY}\n")

    @property
    def swift_options(self):
        """Likewise, by Swift."""
        return (f"swift_auth_version = 1\nswift_authurl = http://127.0.0.1:{self.port}/auth/1.0\n"
                f"swift_user = {SWIFT_USER}\nswift_key = {SWIFT_KEY}\n")

    def _answers(self):
        return Client("127.0.0.1", self.port, user=None, timeout_s=5).answers("/")

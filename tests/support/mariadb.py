"""A MariaDB of one's own in a directory: loopback only, no password, gone when the test run ends.

Under root the server runs as the user `mysql`, since it refuses to run as root.
"""

import os
import pathlib
import shutil
import subprocess

from support.process import Engine, Process, free_port, required

START_TIMEOUT_S = 60


class Mariadb(Engine):
    """A server with the superuser `root`, tuned for a throw-away database (no sync of the disk)."""

    def __init__(self, directory):
        for program in ["mariadbd", "mariadb-install-db", "mariadb-admin", "mariadb"]:
            required(program, "mariadb-server")
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "socket"
        self.port = None

    def start(self):
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        data = self.directory / "data"
        if not data.exists():
            if os.geteuid() == 0:
                shutil.chown(self.directory, "mysql")
            # Several that are installed at once take the same names for their temporary tables.
            self._run("mariadb-install-db", "--no-defaults", *self._user(), f"--datadir={data}",
                      f"--tmpdir={self.directory}", "--auth-root-authentication-method=normal", "--skip-test-db")
        self.port = self.port or free_port()
        self.process = Process(
            ["mariadbd", "--no-defaults", *self._user(), f"--datadir={data}", f"--tmpdir={self.directory}", f"--socket={self.socket}",
             f"--port={self.port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M",
             "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--sync-binlog=0",
             "--character-set-server=utf8mb4", "--max-connections=200"],
            self.directory / "log",
        )
        self.process.wait_ready(self._answers, START_TIMEOUT_S)
        return self

    def create_database(self, name):
        """A new empty database; answers its URL, as Gnocchi writes it."""
        self._run("mariadb", "--no-defaults", "-S", self.socket, "-u", "root", "-e", f"CREATE DATABASE `{name}`")
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{name}"

    def _user(self):
        return ["--user=mysql"] if os.geteuid() == 0 else []

    def _answers(self):
        command = ["mariadb-admin", "--no-defaults", "-S", self.socket, "-u", "root", "ping"]
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0

    def _run(self, *command):
        done = subprocess.run(
            [*map(str, command)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd="/", check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

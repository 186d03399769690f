"""A PostgreSQL of one's own in a directory: loopback only, no password, gone when the test run ends.

Under root the server runs as the user `postgres`, since PostgreSQL refuses to run as root.
"""

import glob
import os
import pathlib
import shutil
import subprocess

from support.process import ProgramMissing, free_port


def program_dir():
    """The newest installed version's directory of server programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found:
        return pathlib.Path(found[-1]).parent
    initdb = shutil.which("initdb")
    if initdb is None:
        raise ProgramMissing("PostgreSQL is missing: run scripts/install-test-deps, or install `postgresql`")
    return pathlib.Path(initdb).resolve().parent


class Postgres:
    """A server with the superuser `postgres`, tuned for a throw-away database (no fsync)."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.programs = program_dir()
        self.port = None
        self.running = False

    def _run(self, *command):
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*as_user, *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, timeout=120, cwd="/", check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stderr[-2000:]}")

    def start(self):
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres")
        data = self.directory / "data"
        if not data.exists():
            self._run(self.programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                      "--locale=C", "-N")
        self.port = self.port or free_port()
        self._run(self.programs / "pg_ctl", "-D", data, "-l", self.directory / "log", "-w", "-t", "60",
                  "-o", self.options(), "start")
        self.running = True
        return self

    def options(self):
        """Of the server's command line."""
        return (f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory}"
                " -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=200")

    def create_database(self, name):
        """A new empty database; answers its URL."""
        self._run(self.programs / "createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "postgres", name)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def restart(self):
        self.stop()
        self.start()

    def stop(self):
        """Ends all connections; what was committed is there at the next start, on the same port."""
        if self.running:
            self._run(self.programs / "pg_ctl", "-D", self.directory / "data", "-m", "fast", "-w", "stop")
            self.running = False

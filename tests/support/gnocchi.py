"""A real Gnocchi to compare with: its own database on a shared server, the file driver unless told, one process."""

import json
import os
import pathlib
import subprocess
import sys
import uuid

from support.http import Client
from support.process import Process, free_port, wait_until

TESTS = pathlib.Path(__file__).resolve().parents[1]
# Where Debian's python3-rados is, which no virtual environment sees and PyPI lacks.
DEBIAN = pathlib.Path("/usr/lib/python3/dist-packages")
START_TIMEOUT_S = 90

CONFIG = """\
[DEFAULT]
verbose = false
[indexer]
url = {database}
{stores}{more}
"""
FILES = """\
[storage]
driver = file
file_basepath = {directory}/store
"""


class Fork:
    """In place of a `subprocess.Popen`: a process that another one has forked, and whose exit status nobody knows."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = "an unknown status"
        return self.returncode

    def wait(self, timeout=60):
        return wait_until(self.poll, timeout, f"the end of process {self.pid}")


class Forked(Process):
    """A server that the process which has loaded Gnocchi forks."""

    # What forks, by its Python. It ends with the run, and with it the pipe.
    parents = {}

    def __init__(self, python, arguments, log_path, env):  # pylint: disable=super-init-not-called
        self.command, self.log_path = [str(python), "-m", "support.gnocchi_app"], str(log_path)
        if python not in self.parents or self.parents[python].poll() is not None:
            with open(self.log_path, "ab") as log:
                self.parents[python] = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                                        cwd=TESTS, env={**os.environ, **env}, start_new_session=True)
        parent = self.parents[python]
        asked = {"arguments": [str(one) for one in arguments], "environment": env, "log": self.log_path}
        parent.stdin.write(json.dumps(asked) + "\n")
        parent.stdin.flush()
        pid = parent.stdout.readline()
        assert pid, f"{self.command} ended with {parent.wait(10)}\n{self.log()[-4000:]}"
        self.child = Fork(int(pid))


class Gnocchi:
    """One server on a free loopback port.

    `databases` makes its database: a Postgres or a Mariadb. `stores` is the text of its sections [storage] and [incoming], files in its
    directory unless told; `config` is appended to its configuration file; `metricd`: process what is pending in the background;
    `python`: of the environment that it runs in, this one unless told.
    """

    def __init__(self, directory, databases, prefix="", stores=None, config="", metricd=False, python=sys.executable):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.databases, self.prefix, self.config, self.metricd = databases, prefix, config, metricd
        self.stores = FILES.format(directory=self.directory) if stores is None else stores
        self.python = python
        self.port = None
        self.process = None

    def start(self):
        database = self.databases.create_database("gnocchi_" + uuid.uuid4().hex)
        config = self.directory / "gnocchi.conf"
        config.write_text(CONFIG.format(database=database, stores=self.stores, more=self.config))
        self.port = free_port()
        arguments = ["--config-file", config, "--port", self.port]
        arguments += ["--prefix", self.prefix] if self.prefix else []
        arguments += ["--metricd"] if self.metricd else []
        # keystonemiddleware finds the configuration by the project's name only: in the home directory.
        env = {"HOME": str(self.directory), "PYTHONPATH": str(self.modules())}
        self.process = Forked(self.python, arguments, self.directory / "log", env)
        self.process.wait_ready(self.healthy, START_TIMEOUT_S)
        return self

    def modules(self):
        """A folder with Debian's module rados, and no other of its modules. Only Debian's version of Python finds it there."""
        folder = self.directory / "modules"
        folder.mkdir(exist_ok=True)
        for module in DEBIAN.glob("rados.*.so"):
            (folder / module.name).unlink(missing_ok=True)
            (folder / module.name).symlink_to(module)
        return folder

    def healthy(self):
        return self.client(timeout_s=5).answers()

    def client(self, user="admin", timeout_s=60):
        return Client("127.0.0.1", self.port, self.prefix, user, timeout_s)

    def log(self):
        return self.process.log()

    def stop(self):
        self.process.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()

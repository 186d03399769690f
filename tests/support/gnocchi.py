"""A real Gnocchi to compare with: its own database on a shared server, the file driver unless told, one process."""

import pathlib
import sys
import uuid

from support.http import Client
from support.process import Process, free_port

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
        command = [self.python, "-m", "support.gnocchi_app", "--config-file", config,
                   "--port", self.port]
        command += ["--prefix", self.prefix] if self.prefix else []
        command += ["--metricd"] if self.metricd else []
        # keystonemiddleware finds the configuration by the project's name only: in the home directory.
        env = {"HOME": str(self.directory), "PYTHONPATH": str(self.modules())}
        self.process = Process(command, self.directory / "log", cwd=TESTS, env=env)
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

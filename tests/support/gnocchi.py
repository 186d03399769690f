"""A real Gnocchi to compare with: its own database on a shared server, the file driver, one process."""

import pathlib
import sys
import uuid

from support.http import Client
from support.process import Process, free_port

TESTS = pathlib.Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 90

CONFIG = """\
[DEFAULT]
verbose = false
[indexer]
url = {database}
[storage]
driver = file
file_basepath = {directory}/store
{more}
"""


class Gnocchi:
    """One server on a free loopback port.

    `databases` makes its database: a Postgres or a Mariadb. `config` is appended to its configuration file; `metricd`: process what is pending in the background; `python`: of the
    environment that it runs in, this one unless told.
    """

    def __init__(self, directory, databases, prefix="", config="", metricd=False, python=sys.executable):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.databases, self.prefix, self.config, self.metricd = databases, prefix, config, metricd
        self.python = python
        self.port = None
        self.process = None

    def start(self):
        database = self.databases.create_database("gnocchi_" + uuid.uuid4().hex)
        config = self.directory / "gnocchi.conf"
        config.write_text(CONFIG.format(directory=self.directory, database=database, more=self.config))
        self.port = free_port()
        command = [self.python, "-m", "support.gnocchi_app", "--config-file", config,
                   "--port", self.port]
        command += ["--prefix", self.prefix] if self.prefix else []
        command += ["--metricd"] if self.metricd else []
        # keystonemiddleware finds the configuration by the project's name only: in the home directory.
        self.process = Process(command, self.directory / "log", cwd=TESTS, env={"HOME": str(self.directory)})
        self.process.wait_ready(self.healthy, START_TIMEOUT_S)
        return self

    def healthy(self):
        try:
            return self.client(timeout_s=5).get("/healthcheck").status == 200
        except OSError:
            return False

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

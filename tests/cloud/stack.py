"""A cloud's programs on one machine, and their users. Each has its own files in the cloud's own /etc, and is started as DevStack starts
it, by the command line of its package.

OpenStack's own run in the environment of `support.cloud_venv`, their APIs under gunicorn. gnudi runs in the place of Gnocchi and Ceilometer,
by the units and the names that its package has for them.
"""

import json
import shutil
import subprocess

from packages import units
from support import cloud_venv, gnudi, mounts
from support.gnudi import ROOT
from support.http import Client
from support.keystone import REGION
from support.process import Process, free_port, wait_until

START_TIMEOUT_S = 120
COMMAND_TIMEOUT_S = 600
GUNICORN = """\
wsgi_app = "{application}"
bind = "127.0.0.1:{port}"
workers = 1
threads = 4
timeout = 120
worker_tmp_dir = "{directory}"
control_socket_disable = True
"""


class Stack:
    """`keystone` runs. Databases are made in `databases`, messages go over `broker`."""

    def __init__(self, directory, keystone, databases, broker):
        self.keystone, self.databases, self.broker = keystone, databases, broker
        self.mounted = mounts.Mounts(directory)
        self.work = self.mounted.directory / "work"
        self.links = self.mounted.directory / "bin"
        self.work.mkdir()
        self.links.mkdir()
        self.project = keystone.project("service")
        self.processes = {}
        self.ports = {}
        for line in (ROOT / "deploy" / "program-names").read_text().splitlines():
            (self.links / line.split()[0]).symlink_to(gnudi.binary())

    # What programs find.

    def files(self, program, **texts):
        """Files of /etc/<program>: `api_paste__ini` is api-paste.ini. What its package has there lies beside them."""
        directory = self.mounted.etc / program
        shipped = cloud_venv.directory() / "etc" / program
        if shipped.is_dir():
            shutil.copytree(shipped, directory)
        directory.mkdir(exist_ok=True)
        for name, text in texts.items():
            stem, _, end = name.rpartition("__")
            (directory / f"{stem.replace('_', '-')}.{end}").write_text(text)
        (self.mounted.log / program).mkdir(exist_ok=True)

    def state(self, name):
        """A directory for what a program keeps."""
        path = self.work / name
        path.mkdir(exist_ok=True)
        return path

    def user(self, name, *roles):
        """A service's user, with the roles that DevStack gives it."""
        return self.keystone.user(name, roles={self.project: ["service", *roles]})

    def credentials(self, user):
        """The lines with which a section logs in."""
        return (f"auth_type = password\nauth_url = {self.keystone.url}\nusername = {user.name}\npassword = {user.password}\n"
                f"user_domain_name = Default\nproject_name = {self.project.name}\nproject_domain_name = Default\nregion_name = {REGION}\n")

    def api(self, name, kind, path=""):
        """A port for an API, known to the catalogue as a service of this type."""
        self.ports[name] = free_port()
        self.keystone.service(kind, name, f"http://127.0.0.1:{self.ports[name]}{path}")
        return self.ports[name]

    # Programs.

    def run(self, program, *arguments, environment=None):
        """A program of the cloud, to its end."""
        done = subprocess.run(self._command(self._program(program), *arguments), capture_output=True, text=True, check=False,
                              timeout=COMMAND_TIMEOUT_S, stdin=subprocess.DEVNULL, env=self.mounted.environment(**environment or {}))
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, name, *words, environment=None):
        """A program that stays."""
        command = self._command(self._program(words[0]), *words[1:])
        self.processes[name] = Process(command, self.work / f"{name}.log", env=self.mounted.environment(**environment or {}), cwd=self.work)
        return self.processes[name]

    def serve(self, name, application, path="/", environment=None):
        """An API of OpenStack's, until it answers."""
        directory = self.state(f"{name}-api")
        port = self.ports[name]
        (directory / "gunicorn.conf.py").write_text(GUNICORN.format(application=application, port=port, directory=directory))
        command = self._command("sh", "-c", 'cd "$1" && exec "$2"', "sh", directory, cloud_venv.program("gunicorn"))
        process = Process(command, self.work / f"{name}-api.log", env=self.mounted.environment(**environment or {}))
        self.processes[f"{name}-api"] = process
        process.wait_ready(lambda: answers(port, path), START_TIMEOUT_S)

    def unit(self, name):
        """What one of gnudi's units in the place of another's starts."""
        unit = units.read((ROOT / "deploy" / "systemd" / "compat" / f"{name}.service").read_text())
        program, *words = units.start_words(unit, {})
        return self.start(name, program.removeprefix("/usr/bin/"), *words)

    def request(self, name, token, method, path, body=None, headers=None):
        """An answer of one of the APIs."""
        client = Client("127.0.0.1", self.ports[name], user=None, timeout_s=120)
        try:
            return client.request(method, path, body, headers={"X-Auth-Token": token, **(headers or {})})
        finally:
            client.close()

    def wait(self, condition, timeout_s, what):
        """Until a condition holds; a failure shows the ends of all logs."""
        try:
            return wait_until(condition, timeout_s, what)
        except TimeoutError as error:
            logs = [*sorted(self.work.glob("*.log")), *sorted(self.mounted.log.glob("*/*.log"))]
            ends = "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in logs)
            raise AssertionError(f"{error}\n{ends}") from None

    def stop(self):
        for process in reversed(self.processes.values()):
            process.kill()

    def _program(self, name):
        return self.links / name if (self.links / name).is_symlink() else cloud_venv.program(name)

    def _command(self, *words):
        return self.mounted.command(*words)


def answers(port, path):
    try:
        return Client("127.0.0.1", port, user=None, timeout_s=60).get(path).status < 500
    except OSError:
        return False


def document(answer, *statuses):
    return json.loads(answer.expect(*statuses or (200,)).body)

"""A real Keystone: SQLite unless told, fernet tokens, gunicorn on a free loopback port, everything in one directory.

`Keystone` starts and stops it and makes what tests need in it: projects, users with roles, services with endpoints, tokens,
application credentials. Names are unique within one Keystone, so that tests that share it choose their own, or take
`unique(...)`.
"""

import base64
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import shutil
import subprocess

from support import cloud_venv
from support.http import Client
from support.process import Engine, Process, free_port, wait_until

START_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 600
REGION = "RegionOne"
ADMIN_PASSWORD = "secret"

CONFIG = """\
[DEFAULT]
log_dir = {directory}/log
[database]
connection = {connection}
[token]
provider = fernet
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credential
[identity]
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
"""

GUNICORN = """\
wsgi_app = "keystone.wsgi.api:application"
bind = "127.0.0.1:{port}"
workers = 1
threads = 4
worker_tmp_dir = "{directory}"
control_socket_disable = True
raw_env = ["OS_KEYSTONE_CONFIG_DIR={directory}", "OS_KEYSTONE_CONFIG_FILES=keystone.conf"]
"""

_numbers = itertools.count(1)


def unique(prefix):
    """A name that nobody has taken yet."""
    return f"{prefix}{next(_numbers)}"


@dataclasses.dataclass(frozen=True)
class Project:
    name: str
    id: str


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    id: str
    password: str


class TokenClient(Client):
    """Requests to one server with one token (None: without), and without any other credentials."""

    def __init__(self, server, token):
        super().__init__("127.0.0.1", server.port, server.prefix, None, timeout_s=60)
        self.token = token

    def request(self, method, path, body=None, headers=None):
        sent = {"X-Auth-Token": self.token, **(headers or {})}
        return super().request(method, path, body, sent)


class KeystoneError(Exception):
    """Keystone refused what a test wanted of it."""


class Keystone(Engine):
    """One server. It keeps its port and what is in it when it is stopped and started again."""

    def __init__(self, directory, connection=None):
        """`connection`: the URL of a database for whoever has many clients at a time; SQLite's is locked now and then."""
        self.directory = pathlib.Path(directory)
        self.connection = connection or f"sqlite:///{self.directory}/keystone.db"
        self.port = free_port()
        self._admin_token = None
        self._role_ids = {}

    # Its life.

    @property
    def url(self):
        """What `auth_url` says, without the version."""
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Starts it, at the first time from nothing, and waits until it answers."""
        if not self.directory.exists():
            self._create()
        # Without arguments, which Keystone would take for its own: gunicorn finds its configuration where it runs.
        self.process = Process([cloud_venv.program("gunicorn")], self.directory / "gunicorn.log", cwd=self.directory)
        self.process.wait_ready(self.healthy, START_TIMEOUT_S)
        return self

    def healthy(self):
        return Client("127.0.0.1", self.port, user=None, timeout_s=10).answers("/v3")

    def _create(self):
        try:
            self.directory.mkdir(parents=True)
            for name in ["fernet", "credential", "log"]:
                (self.directory / name).mkdir(mode=0o700)
            # What `fernet_setup` and `credential_setup` make, which take two seconds each to load.
            for name, number in itertools.product(["fernet", "credential"], ["0", "1"]):
                (self.directory / name / number).write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
            (self.directory / "keystone.conf").write_text(CONFIG.format(directory=self.directory, connection=self.connection))
            (self.directory / "gunicorn.conf.py").write_text(GUNICORN.format(directory=self.directory, port=self.port))
            url = f"{self.url}/v3"
            self._manage("db_sync")
            self._manage("bootstrap", "--bootstrap-password", ADMIN_PASSWORD, "--bootstrap-region-id", REGION,
                         "--bootstrap-admin-url", url, "--bootstrap-internal-url", url, "--bootstrap-public-url", url)
        except BaseException:
            # The next start must not take half of it for the whole.
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def _manage(self, *arguments):
        command = [cloud_venv.program("keystone-manage"), "--config-file", self.directory / "keystone.conf", *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                              timeout=COMMAND_TIMEOUT_S)
        if done.returncode != 0:
            raise KeystoneError(f"keystone-manage {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    # Requests.

    def request(self, method, path, body=None, token=None, headers=None):
        """An answer of any status; as the administrator, unless another token is given."""
        sent = {"X-Auth-Token": token or self.admin_token(), **(headers or {})}
        client = Client("127.0.0.1", self.port, user=None, timeout_s=60)
        try:
            return client.request(method, f"/v3{path}", body, headers=sent)
        finally:
            client.close()

    def _done(self, method, path, body=None, **kwargs):
        answer = self.request(method, path, body, **kwargs)
        if answer.status >= 300:
            raise KeystoneError(f"{method} {path}: {answer!r}")
        return json.loads(answer.body) if answer.body else None

    # Who and what there is.

    def project(self, name):
        """A new project of the default domain."""
        made = self._done("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})["project"]
        return Project(name, made["id"])

    def user(self, name, password="pw", roles=None):
        """A new user of the default domain; `roles`: names of roles by project."""
        made = self._done("POST", "/users", {"user": {"name": name, "password": password, "domain_id": "default"}})
        user = User(name, made["user"]["id"], password)
        for project, names in (roles or {}).items():
            for role in names:
                self.grant(user, project, role)
        return user

    def admin(self):
        """The administrator that Keystone was born with, whose project is `admin`."""
        found = self._done("GET", "/users?name=admin")["users"][0]
        return User("admin", found["id"], ADMIN_PASSWORD)

    def admin_project(self):
        return Project("admin", self._done("GET", "/projects?name=admin")["projects"][0]["id"])

    def role(self, name):
        """The id of a role: `admin`, `manager`, `member`, `reader` and `service` are there; others are made."""
        if not self._role_ids:
            self._role_ids = {role["name"]: role["id"] for role in self._done("GET", "/roles")["roles"]}
        if name not in self._role_ids:
            self._role_ids[name] = self._done("POST", "/roles", {"role": {"name": name}})["role"]["id"]
        return self._role_ids[name]

    def grant(self, user, project, role):
        self._done("PUT", f"/projects/{project.id}/users/{user.id}/roles/{self.role(role)}")

    def service(self, service_type, name, url, region=REGION, interfaces=("public", "internal", "admin")):
        """A new service with its endpoints at `url`; its id."""
        service = self._done("POST", "/services", {"service": {"type": service_type, "name": name}})["service"]["id"]
        for interface in interfaces:
            self.endpoint(service, interface, url, region)
        return service

    def endpoint(self, service, interface, url, region=REGION):
        """A new endpoint of the service of that id."""
        wanted = {"interface": interface, "service_id": service, "region_id": region, "url": url}
        return self._done("POST", "/endpoints", {"endpoint": wanted})["endpoint"]["id"]

    def identity_endpoint(self, interface, url, region):
        """A new endpoint of Keystone itself."""
        identity = self.request("GET", "/services?type=identity").json()["services"][0]["id"]
        return self.endpoint(identity, interface, url, region)

    def region(self, name):
        """A new region, by its name."""
        self._done("POST", "/regions", {"region": {"id": name}})
        return name

    def metric_service(self, url):
        """The service of type `metric`, all of whose endpoints are at `url` from now on; made where there is none."""
        found = self._done("GET", "/services?type=metric")["services"]
        if not found:
            return self.service("metric", "gnocchi", url)
        for endpoint in self._done("GET", f"/endpoints?service_id={found[0]['id']}")["endpoints"]:
            self._done("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": url}})
        return found[0]["id"]

    # Tokens.

    def admin_token(self):
        if self._admin_token is None:
            self._admin_token = self._login(_password("admin", ADMIN_PASSWORD), _project_scope("admin"))
        return self._admin_token

    def token(self, user, project=None):
        """A token of a user, scoped to a project, or to nothing."""
        return self._login(_password(user.name, user.password), project and _project_scope(project.name))

    def system_token(self, user):
        """A token that is scoped to the whole system, for which the user gets the role `admin` there."""
        self._done("PUT", f"/system/users/{user.id}/roles/{self.role('admin')}")
        return self._login(_password(user.name, user.password), {"system": {"all": True}})

    def expired_token(self, user, project):
        """A token that was valid until an hour ago."""
        return self.token_until(user, project, datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1))

    def token_until(self, user, project, end):
        """A token, made with Keystone's own keys, that is valid until `end` (a datetime with a time zone)."""
        arguments = [user.id, project.id, end.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")]
        script = pathlib.Path(__file__).with_name("keystone_token.py")
        done = subprocess.run(
            [str(cloud_venv.python()), "-IB", str(script), str(self.directory / "keystone.conf"), *arguments],
            capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise KeystoneError(done.stderr[-2000:])
        return done.stdout.strip()

    def revoke(self, token):
        """Makes a token void, as its owner would."""
        self._done("DELETE", "/auth/tokens", token=token, headers={"X-Subject-Token": token})

    def application_credential(self, user, project, access_rules=None):
        """Id and secret of a new one; `access_rules` as in Keystone's API: `[{"service", "method", "path"}]`."""
        wanted = {"name": unique("credential")}
        if access_rules is not None:
            wanted["access_rules"] = access_rules
        path = f"/users/{user.id}/application_credentials"
        made = self._done("POST", path, {"application_credential": wanted}, token=self.token(user, project))
        return made["application_credential"]["id"], made["application_credential"]["secret"]

    def application_credential_token(self, credential, secret):
        """A token by an application credential, by its id and secret."""
        return self._login({"methods": ["application_credential"],
                            "application_credential": {"id": credential, "secret": secret}}, None)

    def _login(self, identity, scope):
        auth = {"identity": identity, **({"scope": scope} if scope else {})}
        client = Client("127.0.0.1", self.port, user=None, timeout_s=60)
        answer = client.post("/v3/auth/tokens", {"auth": auth})
        client.close()
        if answer.status != 201:
            raise KeystoneError(f"login: {answer!r}")
        return answer.headers["x-subject-token"]

    # For configurations.

    def authtoken(self, user, project, more=""):
        """The section [keystone_authtoken] of a service that logs in as `user`. A Keystone that is slow counts as one that is away only
        after a minute."""
        return (f"[keystone_authtoken]\nauth_type = password\nauth_url = {self.url}\n"
                f"www_authenticate_uri = {self.url}\nusername = {user.name}\npassword = {user.password}\n"
                f"user_domain_name = Default\nproject_name = {project.name}\nproject_domain_name = Default\n"
                f"region_name = {REGION}\nhttp_connect_timeout = 60\n{more}")

    def credentials(self, user, region):
        """[service_credentials] of Ceilometer's agents, for a user of the project `admin`."""
        return {"auth_type": "password", "auth_url": self.url, "username": user.name, "password": user.password, "project_name": "admin",
                "user_domain_name": "Default", "project_domain_name": "Default", "region_name": region, "interface": "public"}

    def environment(self, user, project):
        """The OS_* variables with which OpenStack's command lines log in."""
        return {"OS_AUTH_TYPE": "password", "OS_AUTH_URL": f"{self.url}/v3", "OS_USERNAME": user.name,
                "OS_PASSWORD": user.password, "OS_PROJECT_NAME": project.name, "OS_USER_DOMAIN_NAME": "Default",
                "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": REGION, "OS_IDENTITY_API_VERSION": "3"}

    def wait_gone(self):
        """Waits until nobody answers on the port any more."""
        wait_until(lambda: not self.healthy(), START_TIMEOUT_S, "Keystone's end")


def _password(name, password):
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    return {"methods": ["password"], "password": {"user": user}}


def _project_scope(name):
    return {"project": {"name": name, "domain": {"id": "default"}}}

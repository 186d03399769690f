"""The notification agent in a cloud: it logs in with [service_credentials] on a real Keystone, finds the store in the catalogue,
and posts to a gnudi that requires tokens."""

import time
import uuid

import pytest

from support.keystone import TokenClient, unique
from support.process import Process, wait_until
from support.proxy import CountingProxy
from telemetry.agents import QUEUE, notify, polled, sample

TIMEOUT_S = 120
FILTERED = """sources: [{{name: s, meters: ['*'], sinks: [k]}}]
sinks: [{{name: k, publishers: ['gnocchi://?filter_project={}']}}]
"""


class World:
    """Whom Keystone knows: gnudi's user and Ceilometer's, and projects with users of their own."""

    def __init__(self, keystone):
        self.keystone = keystone
        self.service_project, self.tenant, self.noisy = (keystone.project(unique(name)) for name in ("serv", "tenant", "noisy"))
        self.gnudi = keystone.user(unique("gnocchi"), roles={self.service_project: ["service"]})
        self.ceilometer = keystone.user(unique("ceilometer"), roles={self.service_project: ["admin", "service"]})
        self.member = keystone.user(unique("member"), roles={self.tenant: ["member"]})
        self.operator = keystone.admin()

    def store_config(self):
        return f"[api]\nauth_mode = keystone\n{self.keystone.authtoken(self.gnudi, self.service_project)}"

    def credentials(self, auth_url=None, user=None):
        user = user or self.ceilometer
        return (f"[notification]\npipelines = meter\n[service_credentials]\nauth_type = password\n"
                f"auth_url = {auth_url or self.keystone.url}/v3\n"
                f"username = {user.name}\npassword = {user.password}\nuser_domain_id = default\n"
                f"project_name = {self.service_project.name}\nproject_domain_id = default\nregion_name = RegionOne\n"
                "interface = internalURL\n")

    def client(self, store):
        return TokenClient(store, self.keystone.token(self.operator, self.keystone.admin_project()))


@pytest.fixture(scope="module")
def world(keystone):
    return World(keystone)


def measured(client, resource):
    answer = client.get(f"/v1/resource/image/{resource}/metric/image.size/measures?refresh=true")
    return {} if answer.status == 404 else {value for _, _, value in answer.expect(200).json()}


def wait_acknowledged(ours, count):
    """Asks the agent and nobody else: a Keystone has enough to do."""
    try:
        wait_until(lambda: ours.figure("acknowledged") >= count, TIMEOUT_S, f"{count} messages")
    except TimeoutError:
        raise AssertionError(ours.log()[-4000:]) from None


def new_id():
    return str(uuid.uuid4())


def test_samples_come_by_the_catalogue_and_tokens_are_renewed(keystone, world, bus, gnudi, agent):
    store = gnudi(config=world.store_config())
    keystone.metric_service(f"http://127.0.0.1:{store.port}")
    proxy = CountingProxy(keystone.port).start()
    logins = lambda: proxy.count("POST", "/v3/auth/tokens")  # noqa: E731
    client = world.client(store)
    try:
        ours = agent(bus, config=world.credentials(f"http://127.0.0.1:{proxy.port}"),
                     pipeline=FILTERED.format(world.noisy.name)).start()
        theirs, quiet, loud = new_id(), new_id(), new_id()
        notify(bus.url(), [polled([
            sample(theirs, volume=1, project_id=world.tenant.id), sample(loud, volume=2, project_id=world.noisy.id),
            sample(quiet, volume=3, project_id=world.noisy.name),
        ])])
        wait_acknowledged(ours, 1)
        assert measured(client, quiet) == {3}
        assert measured(client, theirs) == {1} and not measured(client, loud)
        assert client.get(f"/v1/resource/image/{loud}").status == 404
        # What was made for a project, its users see.
        member = TokenClient(store, keystone.token(world.member, world.tenant))
        assert measured(member, theirs) == {1}
        described = member.get(f"/v1/resource/image/{theirs}").expect(200).json()
        assert described["creator"] == f"{world.ceilometer.id}:{world.service_project.id}"
        # One login for the publisher, one for whoever asks for the project; each may come again where Keystone is slow to answer.
        # Requests there are many more.
        before = logins()
        assert before <= 4
        # Whatever makes a token void: here, a password that is set anew, to what it was.
        answer = keystone.request("PATCH", f"/users/{world.ceilometer.id}", {"user": {"password": world.ceilometer.password}})
        answer.expect(200)
        # A store that was started anew remembers nobody: it asks Keystone, and says 401.
        store.kill()
        store.process = Process(store.command(), store.log_path, env=store.env)
        store.process.wait_ready(store.healthy, TIMEOUT_S)
        notify(bus.url(), [polled([sample(theirs, volume=4, timestamp="2026-01-01T01:00:00", project_id=world.tenant.id)])])
        wait_acknowledged(ours, 2)
        assert measured(client, theirs) == {1, 4}
        assert before < logins() < before + 20
        assert ours.figure("set_aside") == 0
        bus.wait_empty([QUEUE])
        assert ours.stop() == 0
    finally:
        proxy.stop()


@pytest.mark.long
def test_a_token_that_ends_is_renewed(keystone, world, bus, gnudi, agent):
    """Tokens of four seconds."""
    proxy = CountingProxy(keystone.port).start()
    path = keystone.directory / "keystone.conf"
    usual = path.read_text()
    path.write_text(usual.replace("provider = fernet\n", "provider = fernet\nexpiration = 4\n"))
    try:
        keystone.stop()
        keystone.start()
        store = gnudi(config=world.store_config())
        keystone.metric_service(f"http://127.0.0.1:{store.port}")
        ours = agent(bus, config=world.credentials(f"http://127.0.0.1:{proxy.port}"),
                     pipeline=FILTERED.format(world.noisy.name)).start()
        resource = new_id()
        for number in range(3):
            # Longer than a token lives.
            time.sleep(4 if number else 0)
            notify(bus.url(), [polled([sample(resource, volume=number, timestamp=f"2026-01-01T0{number}:00:00")])])
            wait_acknowledged(ours, number + 1)
        wait_until(lambda: proxy.count("POST", "/v3/auth/tokens") >= 3, TIMEOUT_S, "a renewal")
        path_of_measures = f"/v1/resource/image/{resource}/metric/image.size/measures?refresh=true"

        def read():
            """The answer, unless the token has expired before it was checked."""
            answer = world.client(store).get(path_of_measures)
            return answer.status != 401 and answer

        found = wait_until(read, TIMEOUT_S, "a token in time").expect(200).json()
        assert {value for _, _, value in found} == set(range(3))
        assert ours.figure("set_aside") == 0
        assert ours.stop() == 0
    finally:
        proxy.stop()
        path.write_text(usual)
        keystone.stop()
        keystone.start()


def test_an_agent_that_comes_before_its_user(keystone, world, bus, gnudi, agent):
    """Neither samples nor the filter are lost while Keystone lets it not log in."""
    store = gnudi(config=world.store_config())
    keystone.metric_service(f"http://127.0.0.1:{store.port}")
    name = unique("late")
    late = type(world.ceilometer)(name, "", "pw")
    ours = agent(bus, config=world.credentials(user=late), pipeline=FILTERED.format(world.noisy.name)).start()
    theirs, loud = new_id(), new_id()
    notify(bus.url(), [polled([sample(theirs, volume=1), sample(loud, volume=2, project_id=world.noisy.id)])])
    wait_until(lambda: "refuses gnudi's login" in ours.log(), TIMEOUT_S, "a refusal")
    keystone.user(name, roles={world.service_project: ["admin"]})
    client = world.client(store)
    wait_acknowledged(ours, 1)
    assert measured(client, theirs) == {1}
    bus.wait_empty([QUEUE])
    assert client.get(f"/v1/resource/image/{loud}").status == 404
    assert ours.stop() == 0


def test_a_server_that_logs_in_to_the_system(keystone, gnudi):
    """`[keystone_authtoken] system_scope`: the token with which gnudi asks for others' is of no project."""
    user = keystone.user(unique("system"))
    keystone.system_token(user)
    config = "\n".join(line for line in keystone.authtoken(user, keystone.admin_project()).splitlines() if "project_" not in line)
    store = gnudi(config=f"[api]\nauth_mode = keystone\n{config}\nsystem_scope = all\n")
    client = TokenClient(store, keystone.token(keystone.admin(), keystone.admin_project()))
    assert client.get("/v1/metric").status == 200
    assert TokenClient(store, "nonsense").get("/v1/metric").status == 401

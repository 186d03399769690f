"""Names of users and projects in samples: both polling agents use the same Keystone, through a proxy that counts requests."""

import json

import pytest

from support.keystone import unique
from support.process import wait_until
from support.proxy import CountingProxy
from telemetry import polling
from telemetry.agents import notify
from telemetry.polling import samples, source
from telemetry.receivers import Requests
from telemetry.services import PATHS, Services, image, volume

NOBODY = "n0b0dy"
METERS = ["image.size", "volume.size"]
IDENTITY = ("/v3/projects/", "/v3/users/")
LOOK_UPS_MAX = 4


class World:
    """Images and volumes of two projects and two users whom Keystone knows, and of some whom it does not."""

    def __init__(self, keystone):
        self.keystone = keystone
        self.user = keystone.user(unique("ceilometer"), roles={keystone.admin_project(): ["admin"]})
        self.projects = [keystone.project(unique("tenant \u00e9")) for _ in range(2)]
        self.users = [keystone.user(unique("owner")) for _ in range(2)]
        self.proxy = CountingProxy(keystone.port).start()
        self.region = keystone.region(unique("names"))
        keystone.identity_endpoint("public", f"http://127.0.0.1:{self.proxy.port}", self.region)
        self.services = Services([]).start()
        for service_type in ("image", "volumev3"):
            keystone.service(service_type, service_type, f"{self.services.url}{PATHS[service_type]}", self.region, ["public"])
        owners = [(self.users[0].id, self.projects[0].id), (self.users[1].id, self.projects[1].id),
                  (self.users[0].id, self.projects[1].id), (NOBODY, self.projects[0].id), (self.users[1].id, "../" + NOBODY)]
        self.services.lists[("image", "images")] = [[image(number, owner=project) for number, (_, project) in enumerate(owners)]]
        self.services.lists[("volume", "volumes/detail")] = [[
            volume(number, user_id=user, **{"os-vol-tenant-attr:tenant_id": project})
            for number, (user, project) in enumerate(owners)]]

    def questions(self):
        """Which ids Keystone was asked for, once for each time."""
        return sorted(path for _, path in list(self.proxy.requests) if path.startswith(IDENTITY))

    def credentials(self):
        return self.keystone.credentials(self.user, self.region)

    def stop(self):
        self.proxy.stop()
        self.services.stop()


@pytest.fixture(scope="module")
def world(keystone):
    world = World(keystone)
    yield world
    world.stop()


@pytest.fixture
def configure(bus, tmp_path, world):
    def configured(topic, *more, interval=600, option="identity_name_discovery"):
        world.proxy.requests.clear()
        return polling.configure(tmp_path / topic, bus, topic, [source(*METERS, interval=interval)], {
            "service_credentials": world.credentials(), "polling": {option: "true"}}, *more)

    return configured


def test_both_agents_tell_the_same_names(reader, configure, world, tmp_path):
    found, expected, told = polling.polled_by_both(reader, configure, "names", 10, tmp_path, "central")
    # An id that is a path is one to us, and none to them.
    strange = {key for key, sample in expected.items() if sample["project_id"] == "../" + NOBODY}
    assert {found[key]["project_name"] for key in strange} == {None}
    for key in strange:
        expected[key]["project_name"] = None
    polling.assert_alike(found, expected, told=told)
    names = {(sample["user_name"], sample["project_name"]) for sample in found.values()}
    users, projects = ([one.name for one in some] for some in (world.users, world.projects))
    assert names == {(None, projects[0]), (None, projects[1]), (None, None), (users[0], projects[0]), (users[1], projects[1]),
                     (users[0], projects[1]), (users[1], None)}


def test_keystone_is_asked_once_for_each(reader, configure, world, tmp_path):
    conf = configure("names-once", {"polling": {"jitter": 0.01, "threads_to_process_pollsters": 0}}, interval=1)
    with polling.ending(polling.ours(conf, tmp_path / "ours.log", namespace="central")) as agent:
        reader.until("names-once", lambda got: len(got) >= 40)
        assert len(questions := world.questions()) == len(set(questions)) == 6, questions
        for unknown in (f'id="{NOBODY}"', f'id="../{NOBODY}"'):
            assert agent.log().count(unknown) == 1, agent.log()
        assert agent.log().count("samples go without its name") == 2, agent.log()


def test_names_are_looked_up_again_when_their_time_is_over(reader, configure, world, tmp_path):
    """With the option's former name."""
    conf = configure("names-again", {"polling": {"jitter": 0.01}, "cache": {"enabled": "true", "expiration_time": 2}},
                     interval=1, option="tenant_name_discovery")
    agent = polling.ours(conf, tmp_path / "ours.log", namespace="central")
    project, name = world.projects[0], unique("renamed")
    try:
        has = lambda wanted: lambda got: any(sample["project_name"] == wanted for sample in got)  # noqa: E731
        reader.until("names-again", has(project.name))
        world.keystone.request("PATCH", f"/projects/{project.id}", {"project": {"name": name}}).expect(200)
        reader.until("names-again", has(name))
        assert world.questions().count(f"/v3/projects/{project.id}") >= 2
        assert agent.log().count("samples go without its name") == 2, "that nobody has an id still is no news"
    finally:
        agent.kill()
        world.keystone.request("PATCH", f"/projects/{project.id}", {"project": {"name": project.name}}).expect(200)


def test_samples_go_without_names_where_keystone_is_away(reader, configure, world):
    conf = configure("names-away")
    refused = world.proxy.refused
    world.proxy.refuse(True)
    try:
        told = polling.poll_once(conf, "central")
    finally:
        world.proxy.refuse(False)
    found = samples(reader.until("names-away", lambda got: len(got) >= 10))
    assert {sample["project_name"] for sample in found} == {None}
    assert 1 <= world.proxy.refused - refused <= LOOK_UPS_MAX
    assert told.count("no names of users and projects can be looked up") == 1, told


def test_no_names_without_anybody_to_ask(reader, configure):
    conf = configure("names-none", {"service_credentials": {"auth_url": ""}})
    # Nor is there anything to poll.
    ended = polling.polled(conf, "central")
    assert ended.returncode == 1 and "no source has a meter that can be polled here" in ended.stdout
    assert "[polling] identity_name_discovery: " in ended.stdout and "samples go without names" in ended.stdout


def test_samples_that_definitions_look_up_have_names(bus, agent, world):
    """As in Ceilometer, those of definitions with `lookup` alone; each id is asked for once."""
    sink, topic = Requests().start(), "names-notified"
    credentials = "".join(f"{name} = {value}\n" for name, value in world.credentials().items())
    pipeline = f"sources: [{{name: s, meters: ['storage.*', image.size], sinks: [k]}}]\n" \
               f"sinks: [{{name: k, publishers: ['http://127.0.0.1:{sink.port}/']}}]\n"
    ours = agent(bus, pipeline=pipeline, config=f"[service_credentials]\n{credentials}[polling]\nidentity_name_discovery = true\n"
                 f"[oslo_messaging_notifications]\ntopics = {topic}\n[notification]\npipelines = meter\n").start()
    world.proxy.requests.clear()
    user, project = world.users[0], world.projects[0]

    def request(user_id):
        measurements = [{"metric": {"name": f"storage.objects.{way}.bytes", "unit": "B"}, "result": 28} for way in ("incoming", "outgoing")]
        return {"exchange": "swift", "publisher_id": "s", "event_type": "objectstore.http.request", "priority": "info",
                "payload": {"target": {"id": "container"}, "initiator": {"id": user_id, "project_id": project.id},
                            "measurements": [{"metric": [one["metric"]], "result": one["result"]} for one in measurements]}}

    notify(bus.url(), [request(user.id), request(NOBODY), request(user.id)], topic=topic)
    wait_until(lambda: len(sink.seen) == 3, 60, "three messages")
    found = [sample for _, _, _, body in sink.take() for sample in json.loads(body)]
    assert sorted((one["user_id"], one["user_name"], one["project_name"]) for one in found if one["user_id"] == user.id) == \
        [(user.id, user.name, project.name)] * 4
    assert [(one["user_name"], one["project_name"]) for one in found if one["user_id"] == NOBODY] == [(None, project.name)] * 2
    assert world.questions() == sorted([f"/v3/users/{user.id}", f"/v3/users/{NOBODY}", f"/v3/projects/{project.id}"])
    image = {"exchange": "glance", "publisher_id": "g", "event_type": "image.upload", "priority": "info",
             "payload": {"id": "i", "owner": project.id, "size": 1, "name": "n"}}
    notify(bus.url(), [image], topic=topic)
    wait_until(lambda: sink.seen, 60, "the image")
    assert [one["project_name"] for one in json.loads(sink.take()[0][3])] == [None]
    assert ours.stop() == 0

"""Data of instances that libvirt finds and only Nova has: both polling agents request it from the same Nova."""

import pytest

from support.keystone import unique
from telemetry import polling
from telemetry.polling import domain, instance_id, source
from telemetry.services import PATHS, Services, server

INTERVAL_S = 1
#: The last is on its way from another host, and Nova does not know the one before.
DOMAINS = [domain(1), domain(2, flavor_id=None), domain(3, flavor_id=None), domain(4, flavor_id=None), domain(5, flavor_id=None)]
SERVERS = [
    server(1, instance_id(1), metadata={"metering.stack.id": "s-1", "metering.server_group": "\u00e9" * 20, "fqdn": "a.b",
                                        "metering.status": "hidden by the instance's own", "other": "never told"}),
    server(2, instance_id(2), metadata={}, flavor={"id": "43", "links": []}),
    server(3, instance_id(3), metadata={"custom.role": "db", "metering.n": "7"}),
]
ELSEWHERE = server(5, instance_id(5), metadata={"fqdn": "c"}, **{"OS-EXT-SRV-ATTR:host": "cmp2"})
RESERVED = {"DEFAULT": {"reserved_metadata_namespace": "metering., custom.", "reserved_metadata_keys": "fqdn,nothing",
                        "reserved_metadata_length": 12}}


@pytest.fixture(scope="module")
def nova(keystone):
    region = keystone.region(unique("extra"))
    services = Services([]).start()
    services.region = region
    services.user = keystone.user(unique("ceilometer"), roles={keystone.admin_project(): ["admin"]})
    keystone.service("compute", "nova", f"{services.url}{PATHS['compute']}", region, ["public"])
    yield services
    services.stop()


@pytest.fixture
def configure(bus, tmp_path, keystone, nova):
    def configured(topic, *more, fetch="true", interval=600, domains=DOMAINS):
        nova.servers, nova.elsewhere, nova.is_broken = SERVERS, [ELSEWHERE], False
        nova.asked.clear()
        directory = tmp_path / topic
        directory.mkdir()
        return polling.configure(directory, bus, topic, [source("power.state", "disk.root.size", interval=interval)], {
            "DEFAULT": {"libvirt_uri": polling.libvirt(directory, domains)}, "service_credentials": keystone.credentials(nova.user, nova.region),
            "compute": {"fetch_extra_metadata": fetch}, "polling": {"jitter": 0.01}}, *more)

    return configured


def metadata(found):
    """By the instances' ids."""
    return {resource: sample["resource_metadata"] for (meter, resource), sample in found.items() if meter == "power.state"}


@pytest.mark.parametrize("case, fetch", [("reserved", "true"), ("usual", "true"), ("none", "false")])
def test_both_agents_tell_the_same_metadata(reader, configure, nova, tmp_path, case, fetch):
    more = [RESERVED] if case == "reserved" else []
    configured = lambda topic: configure(topic, *more, fetch=fetch)
    found, expected, told = polling.polled_by_both(reader, configured, f"extra-{case}", 10, tmp_path)
    polling.assert_alike(found, expected, told=told)
    users = {resource: of_one.get("user_metadata") for resource, of_one in metadata(found).items()}
    assert users == {
        "reserved": {instance_id(1): {"stack_id": "s-1", "server_group": "\u00e9" * 12, "fqdn": "a.b"}, instance_id(2): None,
                     instance_id(3): {"role": "db", "n": "7"}, instance_id(4): None, instance_id(5): {"fqdn": "c"}},
        "usual": {instance_id(1): {"stack_id": "s-1", "server_group": "\u00e9" * 20}, instance_id(2): None,
                  instance_id(3): {"n": "7"}, instance_id(4): None, instance_id(5): None},
        "none": dict.fromkeys(map(instance_id, range(1, 6))),
    }[case]
    flavors = [of_one["flavor"]["id"] for _, of_one in sorted(metadata(found).items())]
    assert flavors == ["42", "43" if fetch == "true" else "42", "42", "42", "42"]


def test_nova_is_asked_once(reader, configure, nova, tmp_path):
    """A list for all, one question for each whom it does not name, and one for the flavor of whom nobody knows."""
    with polling.ending(polling.ours(configure("extra-once", interval=INTERVAL_S), tmp_path / "ours.log")) as agent:
        reader.until("extra-once", lambda got: len(got) >= 45)
        asked = [path for path in nova.asked if "/compute/v2.1/" in path]
        assert sorted(asked) == [
            "GET /compute/v2.1/flavors?is_public=None", "GET /compute/v2.1/servers/" + instance_id(4),
            "GET /compute/v2.1/servers/" + instance_id(5), "GET /compute/v2.1/servers/detail?host=cmp1&all_tenants=True"]
        assert agent.log().count("Nova has no such instance") == 1


def test_samples_come_while_nova_is_away(reader, configure, nova, tmp_path):
    conf = configure("extra-away", interval=INTERVAL_S)
    nova.is_broken = True
    with polling.ending(polling.ours(conf, tmp_path / "ours.log")) as agent:
        reader.until("extra-away", lambda got: len(got) >= 45)
        assert len([path for path in nova.asked if "/compute/v2.1/" in path]) == 1, nova.asked
        assert agent.log().count("Nova does not respond") == 1


def test_metadata_need_somebody_to_ask(configure):
    conf = configure("extra-nobody", {"service_credentials": {"auth_url": ""}})
    ended = polling.polled(conf)
    assert ended.returncode != 0
    assert f"{conf}:" in ended.stdout and "[compute] fetch_extra_metadata = true: needs" in ended.stdout, ended.stdout

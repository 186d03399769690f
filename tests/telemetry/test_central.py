"""Meters of services: gnudi's polling agent and Ceilometer's poll the same stand-ins, which are in a real Keystone's catalogue."""

import json

import pytest

from support.keystone import unique
from support.process import wait_until
from telemetry import polling
from telemetry.polling import by_meter_and_resource, domain, instance_id, samples, source
from telemetry.services import ACCESS_KEY, CONTAINERS, PATHS, SECRET_KEY, Services, server

#: Of `dynamic.refused` two, and an image without data.
THEIRS_MORE = 3
METERS = ["image.size", "volume.*", "ip.floating", "network.services.*", "storage.*", "dynamic.*", "radosgw.*"]

DYNAMIC = """
- name: dynamic.count
  sample_type: gauge
  unit: thing
  endpoint_type: custom
  url_path: things
  value_attribute: figures.count
  response_entries_key: things
  next_sample_url_attribute: links.next
  metadata_fields: [name, figures.kind, status]
  metadata_mapping: {name: display_name, status: state}
  preserve_mapped_metadata: false
- name: dynamic.status
  sample_type: cumulative
  unit: status
  endpoint_type: custom
  url_path: things
  value_attribute: status
  value_mapping: {up: 1, down: 0}
  default_value: -7
  skip_sample_values: [gone]
  response_entries_key: things
  next_sample_url_attribute: links.next
  project_id_attribute: owner.id
  user_id_attribute: maker
  resource_id_attribute: name
  metadata_fields: [id]
  metadata_mapping: {id: uuid}
  headers: {x-one: two}
- name: dynamic.part.{kind}
  sample_type: delta
  unit: B
  endpoint_type: custom
  url_path: things
  value_attribute: "[parts].size"
  response_entries_key: things
  skip_sample_values: [0]
- name: dynamic.load
  sample_type: gauge
  unit: load
  endpoint_type: custom
  url_path: stats
  value_attribute: load
  response_entries_key: stats.node
  response_handlers: [json, xml]
  resource_id_attribute: "@id"
  metadata_fields: ["@zone"]
- name: dynamic.operated
  sample_type: gauge
  unit: x
  endpoint_type: custom
  url_path: "'../v1/thi' + 'ngs?title=x y'"
  value_attribute: "figures.count | value * 2 | round(value / 4, 1)"
  response_entries_key: ". | value['things']"
  next_sample_url_attribute: ". | value.get('links', {}).get('next')"
  project_id_attribute: "owner | value['id'].upper()"
  resource_id_attribute: "name | value + '-x'"
  metadata_fields: ["figures.kind | value * 3", ". | '%s:%d' % (value['id'], len(value['parts']))"]
- name: dynamic.extra
  sample_type: gauge
  unit: x
  endpoint_type: custom
  url_path: things
  value_attribute: figures.count
  response_entries_key: things
  metadata_fields: [name, title]
  extra_metadata_fields_skip: [{metadata: {name: t2}}, {}]
  extra_metadata_fields:
    - name: maker_name
      endpoint_type: custom
      url_path: "'makers/' + str(sample['maker'])"
      value: name
      metadata_fields: [room, title]
    - name: room_size
      endpoint_type: custom
      url_path: "'rooms/' + str(extra_metadata_captured['room'])"
      value: "size | value * 10"
    - name: host_said
      host_command: "'echo ' + extra_metadata_by_name['maker_name']['metadata']['room'] + ' ' + str(sample['value'])"
      response_handlers: [text]
      value: out
- name: dynamic.refused
  sample_type: gauge
  unit: x
  endpoint_type: custom
  url_path: things
  value_attribute: "figures.count | value.__add__(2)"
"""


@pytest.fixture(scope="module")
def region(keystone):
    """A region of a Keystone that others use too, with an identity service in it."""
    name = keystone.region(unique("polling"))
    keystone.identity_endpoint("public", keystone.url, name)
    return name


@pytest.fixture(scope="module")
def user(keystone):
    return keystone.user(unique("ceilometer"), roles={keystone.admin_project(): ["admin"]})


@pytest.fixture(scope="module")
def services(keystone, region):
    """The second of two new projects is disabled."""
    projects = [keystone.project(unique("stored")) for _ in range(2)]
    keystone.request("PATCH", f"/projects/{projects[1].id}", {"project": {"enabled": False}}).expect(200)
    services = Services(project.id for project in projects).start()
    for service_type, path in PATHS.items():
        keystone.service(service_type, service_type, f"{services.url}{path}", region, ["public"])
    yield services
    services.stop()


@pytest.fixture
def configure(bus, tmp_path, keystone, region, user, services):
    def configured(topic, *more, meters=METERS, **options):
        dynamic = tmp_path / "pollsters.d"
        dynamic.mkdir(exist_ok=True)
        (dynamic / "some.yaml").write_text(DYNAMIC)
        return polling.configure(tmp_path / topic, bus, topic, [source(*meters)], {
            # Where Ceilometer 27 reads it, though it lists it among those of [polling] too.
            "DEFAULT": {"pollsters_definitions_dirs": dynamic},
            "service_types": {"radosgw": "radosgw"},
            "rgw_admin_credentials": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
            "service_credentials": keystone.credentials(user, region), "polling": options}, *more)

    return configured


def test_services_tell_both_agents_the_same(reader, configure, services, tmp_path):
    their_agent = polling.theirs(configure("central-theirs"), tmp_path / "ceilometer.log", "central")
    with polling.ending(their_agent):
        told = polling.poll_once(configure("central-ours"), "central")
        ours = samples(reader.published("central-ours"))
        # Theirs has more: what is refused here, and what has no size.
        reader.until("central-theirs", lambda got: len(got) >= len(ours) + THEIRS_MORE)
        theirs = samples(reader.silent("central-theirs", 2))
    expected = by_meter_and_resource(reader.messages("central-theirs"))
    for (meter, _), sample in expected.items():
        if meter == "network.services.vpn.connections":
            # Keys are for nobody who reads metadata.
            assert sample["resource_metadata"].pop("psk")
    # What is refused here is evaluated there.
    expected = {key: sample for key, sample in expected.items() if key[0] != "dynamic.refused"}
    # An image that has no data yet has no size; no notification agent takes such a sample.
    expected = {key: sample for key, sample in expected.items() if sample["counter_volume"] is not None}
    assert len(theirs) == len(expected) + THEIRS_MORE
    polling.assert_alike(by_meter_and_resource(reader.messages("central-ours")), expected, told=told)
    names = {sample["counter_name"] for sample in ours}
    wanted = {"image.size": 2, "volume.size": 3, "volume.snapshot.size": 1, "volume.backup.size": 1, "volume.service.health": 2,
              "volume.provider.pool.capacity.virtual_free": 1, "ip.floating": 3, "network.services.vpn": 1,
              "network.services.firewall": 2, "network.services.firewall.policy": 1, "storage.objects": 2,
              "storage.containers.objects.size": 4, "dynamic.count": 3, "dynamic.status": 2, "dynamic.part.left": 2,
              "dynamic.part.right": 2, "dynamic.load": 2, "dynamic.operated": 3, "dynamic.extra": 2,
              "radosgw.containers.objects": 4}
    assert {name: sum(one["counter_name"] == name for one in ours) for name in wanted} == wanted
    assert "dynamic.refused" not in names
    assert f"{tmp_path}/pollsters.d/some.yaml: " in told and "there is no method __add__ here" in told
    extra = {sample["resource_metadata"]["name"]: sample["resource_metadata"] for sample in ours
             if sample["counter_name"] == "dynamic.extra"}
    assert extra["t1"] == {"name": "t1", "title": "x", "maker_name": "Ada", "room": "r1", "room_size": 40, "host_said": "r1 7"}
    assert extra["t2"] == {"name": "t2", "title": "x"}


def test_nova_tells_both_agents_the_same(reader, configure, services, tmp_path):
    services.servers = [
        server(1, instance_id(1)),
        # From a volume, of a flavor that is gone.
        server(2, instance_id(2), image="", flavor={"id": "m1 gone", "links": []}, metadata={}),
        server(3, instance_id(3), **{"OS-EXT-STS:vm_state": "error"}),
    ]
    options = {"DEFAULT": {"libvirt_uri": polling.libvirt(tmp_path, [domain(number) for number in (1, 2, 3)])},
               "compute": {"instance_discovery_method": "naive"}}
    meters = ["cpu", "power.state", "disk.root.size", "disk.ephemeral.size"]
    configured = lambda topic: configure(topic, options, meters=meters)
    found, expected, told = polling.polled_by_both(reader, configured, "nova", 8, tmp_path)
    for sample in expected.values():
        # What openstacksdk adds of its own: where the cloud is, and what it has no names for.
        for name in ("location", "properties"):
            sample["resource_metadata"].get("image_meta", {}).pop(name, None)
    polling.assert_alike(found, expected, told=told)
    assert len([asked for asked in services.asked if "servers/detail" in asked]) == 2, "once for each agent"


def test_a_service_that_is_registered_later_is_polled(reader, configure, services, keystone, region, tmp_path):
    """Long before the agent logs in again, which brings it a new catalogue."""
    kind = unique("image")
    conf = configure("central-later", {"service_types": {"glance": kind}}, meters=["image.size"], jitter=0)
    conf.with_name("polling.yaml").write_text(json.dumps({"sources": [source("image.size", interval=1)]}))
    agent = polling.ours(conf, tmp_path / "gnudi.log", namespace="central")
    with polling.ending(agent):
        wait_until(lambda: "the catalogue has no such service" in agent.log(), polling.TIMEOUT_S, "what is missing")
        keystone.service(kind, kind, f"{services.url}/image", region, ["public"])
        reader.until("central-later", lambda got: len(got) >= 2)


def test_a_service_is_found_by_another_name_of_its_type(reader, configure, services, keystone, tmp_path):
    """Clouds list it under the official type, pollsters and options name an alias."""
    region = keystone.region(unique("polling"))
    identity = keystone.request("GET", "/services?type=identity").json()["services"][0]["id"]
    keystone.endpoint(identity, "public", keystone.url, region)
    made = keystone.request("POST", "/services", {"service": {"type": "shared-file-system", "name": unique("shares")}})
    keystone.endpoint(made.expect(201).json()["service"]["id"], "public", f"{services.url}/custom/v1", region)
    options = {"service_credentials": {"region_name": region}}
    theirs, ours = (configure(topic, options, meters=["dynamic.count"]) for topic in ("type-theirs", "type-ours"))
    definitions = DYNAMIC.replace("endpoint_type: custom", "endpoint_type: sharev2")
    (tmp_path / "pollsters.d" / "some.yaml").write_text(definitions)
    with polling.ending(polling.theirs(theirs, tmp_path / "ceilometer.log", "central")):
        told = polling.poll_once(ours, "central")
        found = by_meter_and_resource(reader.until("type-ours", lambda got: len(got) >= 3))
        expected = by_meter_and_resource(reader.until("type-theirs", lambda got: len(got) >= 3))
    polling.assert_alike(found, expected, told=told)


def test_no_more_requests_are_under_way_than_allowed(reader, configure, services):
    found = set()
    for requests_max, enough in ((2, 2), (7, 5)):
        # A busy machine sends its requests one after the other, unless they are answered later still.
        for number, delay_s in enumerate([0.03, 0.3, 1]):
            topic = f"central-{requests_max}-{number}"
            services.delay_s, services.most_under_way = delay_s, 0
            try:
                polling.poll_once(configure(topic, requests_max=requests_max, threads_to_process_pollsters=0), "central")
            finally:
                services.delay_s = 0.0
            assert services.most_under_way <= requests_max
            found.add(len(samples(reader.published(topic))))
            if services.most_under_way >= enough:
                break
        else:
            raise AssertionError(f"{services.most_under_way} of {requests_max} requests are under way at most")
    assert len(found) == 1 and min(found) > 40, found


def test_links_that_lead_back_end_a_list(reader, configure, services):
    services.is_circular = True
    try:
        polling.poll_once(configure("central-circular", meters=["image.size"]), "central")
    finally:
        services.is_circular = False
    assert sorted(sample["resource_id"] for sample in samples(reader.published("central-circular"))) == sorted(
        services.lists["image", "images"][page][0]["id"] for page in (0, 1))


def test_a_list_is_read_again_if_a_page_is_gone(reader, configure, services):
    services.pages_lost = 2
    polling.poll_once(configure("central-lost", meters=["volume.size"]), "central")
    assert services.pages_lost == 0 and len(samples(reader.published("central-lost"))) == 3
    # Three times in a row is no chance: that is told, and is no cloud without volumes.
    services.pages_lost = 3
    try:
        ended = polling.polled(configure("central-gone", meters=["volume.size"]), "central")
    finally:
        services.pages_lost = 0
    assert ended.returncode == 1 and "resources could not be discovered, and were not polled: volumes" in ended.stdout, ended.stdout
    assert "marker not found" in ended.stdout, ended.stdout


def test_an_account_that_is_away_costs_no_other(reader, configure, services):
    for number, away in enumerate(sorted(services.accounts)):
        topic = f"central-away-{number}"
        services.unreachable = {away}
        try:
            ended = polling.polled(configure(topic, meters=["storage.objects"]), "central")
        finally:
            services.unreachable = set()
        assert "503" in ended.stdout and away in ended.stdout, ended.stdout
        found = {sample["resource_id"] for sample in samples(reader.published(topic))}
        assert found == services.accounts - {away}


def test_one_page_of_containers_is_asked_for(configure, services):
    """As by Ceilometer, also if it is full."""
    services.containers = [{"name": f"{number:05}", "count": 1, "bytes": 1} for number in range(10_000)]
    services.asked.clear()
    try:
        conf = configure("central-containers", meters=["storage.containers.objects"], enable_notifications="false")
        polling.poll_once(conf, "central")
    finally:
        services.containers = CONTAINERS
    listings = [asked for asked in services.asked if asked.startswith("GET /object-store/")]
    assert listings and not any("marker" in asked for asked in listings)


def test_lists_are_asked_for_once_a_round(reader, configure, services):
    services.asked.clear()
    polling.poll_once(configure("central-once", ignore_disabled_projects="true"), "central")
    lists = [asked for asked in services.asked if "things" not in asked]
    assert len(lists) == len(set(lists)), sorted(lists)
    accounts = {sample["resource_id"] for sample in samples(reader.published("central-once"))
                if sample["counter_name"] == "storage.objects"}
    assert len(accounts) == 1, "a disabled project is left out"

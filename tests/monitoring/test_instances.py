"""The dashboard of a cloud's instances, on two projects' instances as Ceilometer's meters are stored: every panel has series, with the
figures that were polled."""

import json
import time
import uuid

import pytest
from monitoring import files
from prometheus.oracle import ask, http
from support import gnudi as program
from support.gnudi import Gnudi
from support.http import create_policy

pytestmark = pytest.mark.slow
BOARD = files.dashboard("openstack-instances")
INTERVAL_S = 300
ROUNDS = 12
RATE_INTERVAL = "20m"
MEGABYTE = 1 << 20
#: By project, with the share of a processor that each instance has used.
PROJECTS = {"alpha": {"web": 0.5, "db": 0.25}, "beta": {"batch": 1.5}}
VCPUS = 2
MEMORY_MB, USED_MB = 2048, 512
ALLOCATED = 10 * 1024 * MEGABYTE
#: Bytes, requests and packets a second.
SPEED = 1000


@pytest.fixture(scope="module")
def cloud(module_path):
    """A server that has been sent an hour of rounds; and the time of the last one."""
    directory = module_path
    with Gnudi(directory) as server:
        config = directory / "ceilometer.conf"
        config.write_text(f"[gnocchi]\nauth_type = gnocchi-basic\nuser = admin\nendpoint = http://127.0.0.1:{server.port}\n")
        done = program.run("agent", "upgrade", "--config-file", config)
        assert done.returncode == 0, done.stderr
        client = server.client()
        # As the notification agent makes them at its start.
        for name, methods in (("ceilometer-low", ["mean"]), ("ceilometer-low-rate", ["mean", "rate:mean"])):
            create_policy(client, name, [(f"{INTERVAL_S}s", 8640)], aggregation_methods=methods)
        last = int(time.time()) // INTERVAL_S * INTERVAL_S
        for project, instances in PROJECTS.items():
            for name, share in instances.items():
                poll(client, project, name, share, last)
        yield server, last


def poll(client, project, name, share, last):
    """What an agent stores of one instance, its disk and its interface."""
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    counters = {"cpu": share * 1e9}
    store(client, "instance", identity, project, {"display_name": name, "host": "node-1", "flavor_id": "42", "flavor_name": "m1.small"}, last,
          {"vcpus": VCPUS, "memory.available": MEMORY_MB, "memory.usage": USED_MB}, counters)
    part = {"instance_id": identity}
    rates = {f"disk.device.{way}.{what}": SPEED for way in ("read", "write") for what in ("bytes", "requests")}
    store(client, "instance_disk", f"{identity}-vda", project, {**part, "name": "vda"}, last, {"disk.device.allocation": ALLOCATED}, rates)
    rates = {f"network.{way}.{what}": SPEED for way in ("incoming", "outgoing") for what in ("bytes", "packets", "packets.drop", "packets.error")}
    store(client, "instance_network_interface", f"{identity}-tap0", project, {**part, "name": "tap0"}, last, {}, rates)


def store(client, kind, identity, project, attributes, last, levels, rates):
    """`levels` stay as they are, `rates` are counters that grow by so much a second."""
    metrics = {name: {"archive_policy_name": "ceilometer-low"} for name in levels}
    metrics |= {name: {"archive_policy_name": "ceilometer-low-rate"} for name in rates}
    client.post(f"/v1/resource/{kind}", {"id": identity, "project_id": project, **attributes, "metrics": metrics}).expect(201)
    # Rounds begin some time after the full five minutes.
    times = [last - number * INTERVAL_S + 20 for number in reversed(range(ROUNDS))]
    for name, value in levels.items():
        client.post(f"/v1/resource/{kind}/{identity}/metric/{name}/measures", [{"timestamp": at, "value": value} for at in times]).expect(202)
    for name, rate in rates.items():
        points = [{"timestamp": at, "value": rate * (at - times[0])} for at in times]
        client.post(f"/v1/resource/{kind}/{identity}/metric/{name}/measures", points).expect(202)
    for name in metrics:
        client.get(f"/v1/resource/{kind}/{identity}/metric/{name}/measures?refresh=true").expect(200)


def asked(cloud, expression):
    """The newest values of a panel's series: {labels: value}."""
    server, last = cloud
    status, answer = ask(server.port, "/api/v1/query_range", {"query": expression, "start": last - 1800, "end": last, "step": INTERVAL_S}, "POST")
    assert status == 200, (expression, answer)
    return {tuple(sorted(one["metric"].items())): float(one["values"][-1][1]) for one in answer["data"]["result"]}


def test_every_panel_has_series(cloud):
    wanted = files.expressions(BOARD, RATE_INTERVAL, "1h")
    assert len(wanted) >= 20
    for title, text in wanted:
        found = asked(cloud, text)
        assert found and all(value == value for value in found.values()), (title, text, found)
        by_project = "sum by (project)" in text or "count by (project)" in text
        assert not by_project or {dict(labels)["project"] for labels in found} == PROJECTS.keys(), (title, text, found)


def test_panels_show_what_was_polled(cloud):
    by_title = {}
    for title, text in files.expressions(BOARD, RATE_INTERVAL, "1h"):
        by_title.setdefault(title, []).append(asked(cloud, text))
    # The title of one panel for all, and of one by project.
    total, by_project = by_title["Processors in use"]
    used = {project: sum(instances.values()) for project, instances in PROJECTS.items()}
    assert list(total.values()) == [pytest.approx(sum(used.values()))]
    assert {dict(labels)["project"]: value for labels, value in by_project.items()} == pytest.approx(used)
    assert [list(values.values()) for values in by_title["Instances"]] == [[3], [2, 1]]
    shares, = by_title["Use of their processors (vcpus)"]
    assert {dict(labels)["display_name"]: value for labels, value in shares.items()} == pytest.approx({"web": 0.25, "db": 0.125, "batch": 0.75})
    shares, = by_title["The twenty that use most of their memory"]
    assert {dict(labels)["display_name"] for labels in shares} == {"web", "db", "batch"} and set(shares.values()) == {USED_MB / MEMORY_MB}
    assert list(by_title["Disk allocated (disk.device.allocation)"][0].values()) == [2 * ALLOCATED, ALLOCATED]
    total, read, written = by_title["Disk: read and written"]
    assert list(total.values()) == pytest.approx([6 * SPEED])
    assert sorted(read.values()) == pytest.approx([SPEED, 2 * SPEED]) and sorted(written.values()) == pytest.approx([-2 * SPEED, -SPEED])
    dropped, _ = by_title["Packets dropped or wrong (network.*.packets.drop, .error)"]
    assert sorted(dropped.values()) == pytest.approx([2 * SPEED, 4 * SPEED])


def test_variables_list_projects_and_their_instances(cloud):
    server, _ = cloud
    values = {name: json.loads(http(server.port, "GET", files.values_path(BOARD, variable))[1])["data"]
              for name, variable in files.variables(BOARD).items()}
    assert values == {"project": sorted(PROJECTS), "instance": ["batch", "db", "web"]}

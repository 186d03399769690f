"""OpenStack's clients of Prometheus' API, on gnudi with Keystone's tokens, as they are on Aetos: python-observabilityclient, Aodh's alarms,
CloudKitty's rating, Watcher's strategies. The data was written by Ceilometer through Gnocchi's API, and by remote write."""

import json
import pathlib
import subprocess
import time
from urllib.parse import quote

import pytest

from auth import cloud
from auth.cloud import Caller
from inputs.remote_write import label, sample, series, snappy
from prometheus.messages import VERSION_1
from support import cloud_venv
from support.http import Client
from support.process import wait_until

SCRIPT = pathlib.Path(__file__).with_name("openstack_clients.py")
TIMEOUT_S = 120
GIGABYTE = 4.5
INSTANCE = "5b1f4c1e-3d5a-4d0e-9c4e-0f7c1f0c2b11"
OTHER = "c0ffee00-3d5a-4d0e-9c4e-0f7c1f0c2b11"
HOST = "node-1.example.com"
METRIC = "ceilometer_memory_usage"


def remote_write(server, token, *bodies):
    client = Caller(server, token)
    client.request("POST", "/api/v1/write", snappy(b"".join(bodies)), headers=VERSION_1).expect(204)


@pytest.fixture
def world(gnudi, keystone):
    """A server with an instance of each project and a host; `ask` runs one of the clients as a member of the project alpha."""
    everybody = cloud.people(keystone)
    server = gnudi(config=cloud.config(keystone, everybody))
    keystone.service("metric-storage", "gnudi", f"http://127.0.0.1:{server.port}")
    service = Caller(server, everybody.tokens["service"])
    admin = Caller(server, everybody.tokens["admin"])
    admin.post("/v1/resource_type", {"name": "instance", "attributes": {"flavor": {"type": "string", "required": False}}}).expect(201)
    # All series go on beyond now: the clients ask for what is new, and for rates until then, one after the other.
    now = int(time.time())
    for identity, project in [(INSTANCE, everybody.alpha), (OTHER, everybody.beta)]:
        metrics = {"memory.usage": {"archive_policy_name": "high", "unit": "GiB"}}
        resource = {"id": identity, "project_id": project.id, "flavor": "m1.small", "metrics": metrics}
        service.post("/v1/resource/instance", resource).expect(201)
        points = [{"timestamp": now - 300 + second, "value": GIGABYTE} for second in range(0, 1500, 10)]
        service.post(f"/v1/resource/instance/{identity}/metric/memory.usage/measures", points).expect(202)
    labels = [label("fqdn", HOST), label("instance", "10.0.0.1:9100"), label("job", "node")]
    idle = [sample(0.75 * second, (now - 300 + second) * 1000) for second in range(0, 1500, 15)]
    up = [sample(1.0, (now - 300 + second) * 1000) for second in range(0, 1500, 15)]
    remote_write(server, everybody.tokens["admin"],
                 series(label("__name__", "node_cpu_seconds_total"), label("cpu", "0"), *labels, label("mode", "idle"), *idle),
                 series(label("__name__", "up"), *labels, *up))
    service.get(f"/v1/resource/instance/{INSTANCE}/metric/memory.usage/measures?refresh=true").expect(200)
    written = quote('{__name__=~"node_cpu_seconds_total|up"}')
    series_of = lambda: admin.get(f"/api/v1/query?query={written}").expect(200).json()["data"]["result"]
    wait_until(lambda: len(series_of()) == 2, 60, "the samples of the host")
    member = keystone.user("prometheus-reader", roles={everybody.alpha: ["member", "reader"]})

    def ask(what, user=None, project=None, **job):
        asking, scope = user or member, project or everybody.alpha
        auth = {"url": keystone.url, "user": asking.name, "password": asking.password, "project": scope.name}
        job = {"ask": what, "auth": auth, "url": f"http://127.0.0.1:{server.port}", "metric": METRIC, "project_id": scope.id, **job}
        done = subprocess.run([cloud_venv.python(), SCRIPT], input=json.dumps(job), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ask.everybody, ask.keystone, ask.server = everybody, keystone, server
    return ask


def test_each_service_finds_what_it_needs(world):
    everybody = world.everybody
    found = world("observability")
    assert found["names"] == [METRIC, "memory.usage"]
    assert [(labels["resource"], labels["project"], value) for labels, value in found["shown"]] == [(INSTANCE, everybody.alpha.id, GIGABYTE)]
    assert found["asked"] == [[{"project": everybody.alpha.id}, GIGABYTE]]

    alarm = world("aodh", threshold=4)
    assert (alarm["state"], alarm["statistics"]) == ("alarm", [GIGABYTE])
    assert world("aodh", threshold=5)["state"] == "ok"

    admin = {"user": world.keystone.admin(), "project": world.keystone.admin_project()}
    watched = world("watcher", instance=INSTANCE, host=HOST, **admin)
    assert watched["availability"] == "available"
    assert {"memory.usage", "node_cpu_seconds_total", "up"} <= set(watched["names"])
    assert watched["memory"] == GIGABYTE
    assert watched["host_cpu"] == pytest.approx(25, abs=0.5)


def test_cloudkitty_rates_by_project(gnudi):
    server = gnudi()
    client = Client("127.0.0.1", server.port)
    client.post("/v1/resource_type", {"name": "instance", "attributes": {"flavor": {"type": "string", "required": False}}}).expect(201)
    now = int(time.time())
    metrics = {"memory.usage": {"archive_policy_name": "high"}}
    resource = {"id": INSTANCE, "project_id": "alpha", "flavor": "m1.small", "metrics": metrics}
    client.post("/v1/resource/instance", resource).expect(201)
    path = f"/v1/resource/instance/{INSTANCE}/metric/memory.usage/measures"
    client.post(path, [{"timestamp": now - 60, "value": 2.0}, {"timestamp": now - 30, "value": GIGABYTE}]).expect(202)
    client.get(f"{path}?refresh=true").expect(200)
    job = {"ask": "cloudkitty", "url": f"http://127.0.0.1:{server.port}", "basic": ["admin", "secret"], "metric": METRIC,
           "project_id": "alpha", "end": now}
    done = subprocess.run([cloud_venv.python(), SCRIPT], input=json.dumps(job), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    [[group, metadata, quantity]] = json.loads(done.stdout)
    assert (group["project"], group["resource"], metadata, quantity) == ("alpha", INSTANCE, {"flavor": "m1.small"}, GIGABYTE)

"""Posts fill the disk: they get 503, while reads and changes of the index go on. Deletions free space, and posts are accepted again,
without a restart.

The disk is a small file system in memory; mounting it needs root.
"""

import json
import random
import uuid

import pytest

from crash import load
from support.http import create_metric, figure
from support.process import wait_until

DISK_BYTES = 64 << 20
MEASURES = 2000
RESOURCES_MAX = 3000
TIMEOUT_S = 180
CONFIG = """
[storage]
recent_bytes_max = 2000000
dirty_bytes_max = 2000000
[metricd]
metric_cleanup_delay = 1
"""


def create_resource(client):
    """A resource with a metric; answers their ids."""
    id = str(uuid.uuid4())
    made = client.post("/v1/resource/generic", {"id": id, "metrics": {"m": {"archive_policy_name": load.POLICY}}})
    return id, made.expect(201).json()["metrics"]["m"]


def fill(client, rng, per_resource):
    """Posts to ever new resources until the server says that it can't; answers those that took measures, and the refusal."""
    resources = []
    for _ in range(RESOURCES_MAX):
        id, metric = create_resource(client)
        for part in range(per_resource):
            first = load.START_S + part * MEASURES
            body = json.dumps([{"timestamp": first + second, "value": rng.uniform(-1e6, 1e6)}
                               for second in range(MEASURES)]).encode()
            answer = client.post(f"/v1/metric/{metric}/measures", body)
            if answer.status != 202:
                return resources, answer
        resources.append((id, metric))
    raise AssertionError("the disk is full, and yet every post is acknowledged")


def measures_of(client, metric):
    page = client.get(f"/v1/metric/{metric}/measures?aggregation=count&granularity=60").expect(200).json()
    return sum(value for _, _, value in page)


@pytest.mark.long
def test_deletions_make_room(gnudi, small_disk):
    server = gnudi(config=CONFIG, data_dir=small_disk / "data", arguments=["--skip-archive-policies-creation"])
    client = server.client(timeout_s=60)
    load.make_policy(client)
    rng, per_resource = random.Random(4), 3
    assert figure(client, "gnudi_disk_reserve_held_bytes") == figure(client, "gnudi_disk_reserve_bytes") > 5e6
    for _ in range(2):
        resources, refusal = fill(client, rng, per_resource)
        assert len(resources) > 20, "the disk is full too early"
        assert refusal.status == 503, refusal
        assert "no space left" in json.dumps(refusal.json()), refusal
        kept, deleted = resources[:3], resources[3:]
        # Reads go on, and the index takes changes.
        assert client.get(f"/v1/metric/{kept[0][1]}/measures?aggregation=count").status == 200
        create_metric(client, load.POLICY)
        for id, _ in deleted:
            client.delete(f"/v1/resource/generic/{id}").expect(204)
        id, metric = create_resource(client)
        body = [{"timestamp": load.START_S, "value": 1.5}]
        wait_until(lambda: client.post(f"/v1/metric/{metric}/measures", body).status == 202, TIMEOUT_S,
                   "posts that are taken again")
        for _, old in kept:
            wait_until(lambda: measures_of(client, old) == per_resource * MEASURES, TIMEOUT_S, "all measures")
        for id, _ in kept:
            client.delete(f"/v1/resource/generic/{id}").expect(204)
        wait_until(lambda: figure(client, "gnudi_disk_free_bytes") > DISK_BYTES / 3, TIMEOUT_S, "the space of what is deleted")
        # Until then posts are still refused.
        wait_until(lambda: figure(client, "gnudi_disk_reserve_held_bytes") > 0, TIMEOUT_S, "the reserve")
    assert figure(client, "gnudi_disk_free_bytes") > 0
    assert server.process.running() and "panicked" not in server.log()
    # What is left is right after a restart, too.
    assert server.stop() == 0
    server.start()
    assert measures_of(server.client(), metric) >= 1

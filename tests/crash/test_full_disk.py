"""A full disk: measures get 503, nothing acknowledged is lost, and measures are accepted again once there is space.

The disk is a small file system in memory; mounting it needs root.
"""

import json
import random

import pytest

from crash import load
from support.http import create_metric
from support.process import wait_until

pytestmark = pytest.mark.slow

DISK_BYTES = 300 << 20
PUSH_MEASURES = 5000
LAZY = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
PUSHES_MAX = 3000


def fill_up(disk):
    """Takes all free space with one file, which is returned."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        block = b"x" * (1 << 20)
        while block:
            try:
                while file.write(block) == len(block):
                    pass
                block = block[: len(block) // 2]
            except OSError:
                block = block[: len(block) // 2]
    return filler


def ballast(rng):
    """A large body that fills the log: the same points each time, so that no series grows."""
    measures = [{"timestamp": load.START_S + second, "value": rng.uniform(-1e6, 1e6)}
                for second in range(PUSH_MEASURES)]
    return json.dumps(measures).encode()


def push_one(client, metric):
    """Pushes one measure that is remembered; answers the server's answer."""
    second = len(metric.values)
    metric.values.append(second * 1.5)
    answer = client.post(f"/v1/metric/{metric.id}/measures",
                         [{"timestamp": load.START_S + second, "value": second * 1.5}])
    if answer.status == 202:
        metric.acknowledged.add(second)
    return answer


def push_until_refused(client, metric, other, body):
    """Pushes until the server says that it can't; answers the refusal."""
    for _ in range(PUSHES_MAX):
        push_one(client, metric)
        answer = client.post(f"/v1/metric/{other}/measures", body)
        if answer.status != 202:
            return answer
    raise AssertionError("the disk is full, and yet every push is acknowledged")


# Waiting measures fill the log alone; processing them fills the aggregates too.
@pytest.mark.parametrize("config", [LAZY, ""], ids=["waiting", "processing"])
def test_a_full_disk_refuses_measures_and_loses_none(gnudi, small_disk, config):
    server = gnudi(config=config, data_dir=small_disk / "data", arguments=["--skip-archive-policies-creation"])
    client = server.client(timeout_s=60)
    load.make_policy(client)
    metric, other = load.Metric(create_metric(client, load.POLICY)), create_metric(client, load.POLICY)
    body = ballast(random.Random(3))
    for kill in (False, True):
        filler = fill_up(small_disk)
        refusal = push_until_refused(client, metric, other, body)
        assert refusal.status == 503, refusal
        assert refusal.json()["code"] == 503
        # Reading goes on; what waits may be impossible to process now.
        assert client.get(f"/v1/metric/{metric.id}").status == 200
        page = f"/v1/metric/{metric.id}/measures?aggregation=count"
        assert client.get(page).status == 200
        assert client.get(page + "&refresh=true").status in (200, 503)
        if kill:
            server.kill()
        filler.unlink()
        if kill:
            server.start()
            client = server.client(timeout_s=60)
        wait_until(lambda: push_one(client, metric).status == 202, 60, "writing again, now that there is space")
        load.check(client, metric)

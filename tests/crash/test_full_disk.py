"""A full disk: measures are answered 503, nothing acknowledged is lost, and writing goes on once there is space.

The disk is a small memory file system, which takes the rights to mount one.
"""

import random
import subprocess

import pytest

from crash import load
from support.http import create_metric
from support.process import wait_until

DISK_BYTES = 400 << 20
PUSH_MEASURES = 5000
PUSHES_MAX = 3000


@pytest.fixture
def disk(tmp_path):
    """The directory of a small file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "gnudi-test", path],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount a file system: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


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


def push_until_refused(client, metric, rng):
    """Pushes until the server says that it can't; answers the refusal."""
    for _ in range(PUSHES_MAX):
        first = len(metric.values)
        metric.values += [rng.uniform(-1e6, 1e6) for _ in range(PUSH_MEASURES)]
        seconds = range(first, first + PUSH_MEASURES)
        body = [{"timestamp": load.START_S + second, "value": metric.values[second]} for second in seconds]
        answer = client.post(f"/v1/metric/{metric.id}/measures", body)
        if answer.status != 202:
            return answer
        metric.acknowledged.update(seconds)
    raise AssertionError("the disk is full, and yet every push is acknowledged")


def push_one(client, metric):
    second = len(metric.values)
    metric.values.append(1.5)
    answer = client.post(f"/v1/metric/{metric.id}/measures",
                         [{"timestamp": load.START_S + second, "value": 1.5}])
    if answer.status == 202:
        metric.acknowledged.add(second)
    return answer.status == 202


def test_a_full_disk_refuses_measures_and_loses_none(gnudi, disk):
    rng = random.Random(3)
    server = gnudi(data_dir=disk / "data", arguments=["--skip-archive-policies-creation"])
    client = server.client(timeout_s=60)
    load.make_policy(client)
    metric = load.Metric(create_metric(client, load.POLICY))
    for kill in (False, True):
        filler = fill_up(disk)
        refusal = push_until_refused(client, metric, rng)
        assert refusal.status == 503, refusal
        assert refusal.json()["code"] == 503
        # Reading goes on.
        assert client.get(f"/v1/metric/{metric.id}").status == 200
        if kill:
            server.kill()
        filler.unlink()
        if kill:
            server.start()
            client = server.client(timeout_s=60)
        wait_until(lambda: push_one(client, metric), 15, "writing again, now that there is space")
        load.check(client, metric)

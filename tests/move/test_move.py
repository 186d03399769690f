"""`gnudi move`: aggregates are moved to another engine while a cloud gets measures. Every acknowledged measure is in them once, and every
aggregate is unchanged."""

import random
import subprocess
import time

import pytest

from shared import writers
from support import gnudi as program
from support.cloud import Cloud
from support.engines import store
from support.http import create_metric, create_policy, get_patiently
from support.process import wait_until

SOON_S = 60
COMMON = "[metricd]\nworkers = 1\nlease_seconds = 3\ncheckpoint_ms = 300\n"
MOVES = [("file", "ceph"), pytest.param(("redis", "s3"), marks=pytest.mark.long)]


@pytest.fixture
def place(request, postgres):
    """Makes a configuration's text, and that of the same cloud with its aggregates elsewhere."""
    def make(engine, other):
        number = time.monotonic_ns()
        database = postgres.create_database(f"move{number}")
        incoming = store(request, "redis", f"in{number}")
        text = f"{COMMON}[indexer]\nurl = {database}\n[incoming]\n{incoming}[storage]\n"
        return [text + store(request, name, f"{end}{number}") for name, end in ((engine, "a"), (other, "b"))]

    return make


def move_command(cloud, new_path, *arguments):
    command = [program.binary(), "move", "--config-file", cloud.config_path, "--to", new_path, *arguments]
    return list(map(str, command))


def move(cloud, new_path, *arguments, timeout_s=180):
    return subprocess.run(move_command(cloud, new_path, *arguments), capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.mark.parametrize("engines", MOVES, ids="-".join)
def test_aggregates_move_under_load(cloud, tmp_path, place, engines, seed):
    rng = random.Random(seed)
    old_text, new_text = place(*engines)
    new_path = tmp_path / "new.conf"
    new_path.write_text(new_text)
    old = cloud(old_text, apis=2, workers=2)
    writing = writers.start(old, rng, count=2)
    time.sleep(0.5)
    # Killed at random, and run again.
    for _ in range(2):
        killed = subprocess.Popen(move_command(old, new_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.1, 1))
        killed.kill()
        killed.wait()
    copied = move(old, new_path)
    assert copied.returncode == 0, copied.stdout + copied.stderr
    assert "run it again with --cut-over" in copied.stdout
    # Nobody uses it before it is complete.
    early = program.run("metricd", "--config-file", new_path, timeout_s=SOON_S)
    assert early.returncode == 1 and "gnudi move" in early.stderr, early.stderr
    killed = subprocess.Popen(move_command(old, new_path, "--cut-over"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.2, 1.5))
    killed.kill()
    killed.wait()
    moved = move(old, new_path, "--cut-over")
    assert moved.returncode == 0, moved.stdout + moved.stderr + old.logs()
    again = move(old, new_path, "--cut-over")
    assert again.returncode == 0 and "the move has ended" in again.stdout, again.stdout + again.stderr
    new = Cloud(tmp_path / "new", new_text, apis=2, workers=2)
    try:
        new.start()
        # API processes with the old file still take measures: they wait where the new workers find them.
        before = {writer: sum(len(metric.acknowledged) for metric in writer.metrics) for writer in writing}
        time.sleep(1)
        wait_until(lambda: all(sum(len(metric.acknowledged) for metric in writer.metrics) > count for writer, count in before.items()), SOON_S,
                   "measures that the old processes take")
        writers.stop(writing)
        acknowledged = writers.check(new, writing)
        assert acknowledged > 200, new.logs()
        print(f"{acknowledged} measures acknowledged, none lost\n{copied.stdout}{moved.stdout}")
        # Workers with the old file have left the sacks to the new ones, and none of them starts again.
        for worker in old.workers:
            wait_until(lambda worker=worker: "moved from here to another engine" in worker.log(), SOON_S, "the end of an old worker's work")
        late = program.run("metricd", "--config-file", old.config_path, timeout_s=SOON_S)
        assert late.returncode == 1 and "moved from" in late.stderr, late.stderr
    finally:
        new.stop()


def test_every_aggregate_is_what_it_was(cloud, tmp_path, place):
    """Also those of late points, of a metric that is deleted, and of metrics with other granularities than before."""
    old_text, new_text = place("redis", "file")
    new_path = tmp_path / "new.conf"
    new_path.write_text(new_text)
    old = cloud(old_text, apis=1, workers=1)
    client = old.client()
    create_policy(client, "kept", [("1s", 172_800), ("60s", None)], aggregation_methods=["count", "mean"], raw={"timespan": "1 day"})
    create_policy(client, "coarse", [("60s", None), ("3600s", None)], aggregation_methods=["count", "mean"])
    metrics = [create_metric(client, "kept") for _ in range(30)]
    start_s = 1_700_000_000

    def post(metric, seconds):
        body = [{"timestamp": start_s + second, "value": second % 17} for second in seconds]
        client.post(f"/v1/metric/{metric}/measures", body).expect(202)

    def read(of):
        paths = [f"/v1/metric/{metric}/measures?aggregation={method}" for metric in metrics for method in ("count", "mean")]
        return {path: of.get(path).expect(200).json() for path in paths}

    def refresh():
        for metric in metrics:
            get_patiently(client, f"/v1/metric/{metric}/measures?refresh=true&limit=1")

    for number, metric in enumerate(metrics):
        post(metric, range(0, 3000 + number, 2))
    refresh()
    copied = move(old, new_path)
    assert copied.returncode == 0, copied.stdout + copied.stderr
    # What was copied changes: late points between the others, a metric that is deleted, one that is new.
    for metric in metrics[:5]:
        post(metric, range(1, 500, 2))
    client.delete(f"/v1/metric/{metrics.pop()}").expect(204)
    metrics.append(create_metric(client, "kept"))
    post(metrics[-1], range(100))
    client.patch(f"/v1/metric/{metrics[6]}", {"archive_policy_name": "coarse"}).expect(200)
    refresh()
    # One has moved to another policy, and no pass has met it yet.
    old.workers[0].stop()
    unmet = metrics.pop(7)
    client.patch(f"/v1/metric/{unmet}", {"archive_policy_name": "coarse"}).expect(200)
    before = read(client)
    moved = move(old, new_path, "--cut-over")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    new = Cloud(tmp_path / "new", new_text, apis=1, workers=1)
    try:
        new.start()
        client = new.client()
        assert read(client) == before

        def hours():
            answer = client.get(f"/v1/metric/{unmet}/measures?aggregation=count&granularity=3600")
            return answer.status == 200 and sum(count for _, _, count in answer.json()) == len(range(0, 3007, 2))

        wait_until(hours, SOON_S, "what a metric had before it moved to another policy")
    finally:
        new.stop()


def test_what_cannot_be_moved_is_refused(cloud, tmp_path, place, request):
    old_text, new_text = place("redis", "file")
    old = cloud(old_text, apis=0, workers=1)
    new_path = tmp_path / "new.conf"

    def refused(text, *arguments):
        new_path.write_text(text)
        done = move(old, new_path, *arguments, timeout_s=SOON_S)
        assert done.returncode == 1 and "Traceback" not in done.stderr and "panicked" not in done.stderr, done.stderr
        return done.stderr

    assert "in use" in refused(old_text, "--cut-over"), "to where it is"
    incoming = new_text.index("[incoming]")
    kept = new_text[:incoming] + new_text[new_text.index("[storage]"):]
    assert "[incoming] driver" in refused(kept, "--cut-over"), "incoming measures would go, too"
    # Another cluster's place; nothing of it is changed.
    another_text, _ = place("file", "redis")
    foreign = cloud(another_text, apis=0, workers=0)
    foreign_storage = foreign.config[foreign.config.index("[storage]"):]
    stderr = refused(new_text[:new_text.index("[storage]")] + foreign_storage, "--cut-over")
    assert "another cluster" in stderr, stderr
    # An engine that does not answer.
    away = "[storage]\ndriver = redis\nredis_url = redis://127.0.0.1:1\nredis_prefix = away\n"
    stderr = refused(new_text[:new_text.index("[storage]")] + away)
    assert "127.0.0.1:1" in stderr and "[storage] driver" in stderr, stderr
    # All of it has left the cloud as it was.
    assert old.sacks() == 128

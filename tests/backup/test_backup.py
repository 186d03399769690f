"""`gnudi backup` of a store under load and `gnudi restore`: everything acknowledged before the backup began is in it exactly once."""

import copy
import itertools

import pytest

from backup.copies import CONFIG, TIMEOUT_S, back_up, backups
from crash import load
from support.gnudi import run
from support.http import create_metric
from support.process import wait_until

pytestmark = pytest.mark.slow

WRITERS = 3
BACKUPS = 4
REQUESTS_BETWEEN = 60
# Of the disk that is restored into.
DISK_BYTES = 256 << 20
# Seconds behind those of the load, each used once.
LATER_S = itertools.count(10_000_000)


def acknowledged(writers):
    return {metric.id: set(copy.copy(metric.acknowledged)) for writer in writers for metric in writer.metrics}


def go_on(writers):
    for writer in writers:
        target = writer.requests + REQUESTS_BETWEEN
        wait_until(lambda: writer.requests >= target, TIMEOUT_S, "requests")


def test_backups_under_load(gnudi, restored, tmp_path):
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    load.make_policy(server.client())
    writers = load.start_writers(server, range(WRITERS))
    place = tmp_path / "backups"
    promised = []
    for _ in range(BACKUPS):
        go_on(writers)
        promised.append(acknowledged(writers))
        back_up(server, place)
    for writer in writers:
        writer.stop.set()
    for writer in writers:
        writer.join(TIMEOUT_S)
        assert not writer.is_alive() and not writer.refused, writer.refused
    metrics = {metric.id: metric for writer in writers for metric in writer.metrics}
    made = backups(place)
    assert len(made) == BACKUPS
    for backup, wanted in zip(made, promised, strict=True):
        copied = restored(backup)
        client = copied.client()
        for id, seconds in wanted.items():
            load.check(client, load.Metric(id, metrics[id].values, seconds))
        check_that_it_goes_on(client, metrics)
        assert copied.stop() == 0
        # What was posted to the restored store is there after another start, too.
        copied.start()
        check_that_it_goes_on(copied.client(), metrics)
        log = copied.log()
        assert " ERROR " not in log and "damaged" not in log, log
    # None of it has changed the store.
    for metric in metrics.values():
        load.check(server.client(), metric)


def check_that_it_goes_on(client, metrics):
    """A restored store takes measures of old metrics, and counts each once."""
    for metric in metrics.values():
        before = load.read(client, metric, "count", 60)
        body = [{"timestamp": load.START_S + next(LATER_S), "value": 1} for _ in range(3)]
        client.post(f"/v1/metric/{metric.id}/measures", body).expect(202)
        after = load.read(client, metric, "count", 60)
        assert sum(after.values()) == sum(before.values()) + 3, metric.id


def test_runs_are_shared_between_backups(gnudi, tmp_path):
    """What has not changed since the last backup takes no room again."""
    server = gnudi(config=CONFIG)
    load.make_policy(server.client())
    writers = load.start_writers(server, range(WRITERS))
    runs = server.data_dir / "aggregates" / "runs"
    wait_until(lambda: list(runs.glob("*.run")), TIMEOUT_S, "a run")
    for writer in writers:
        writer.stop.set()
        writer.join(TIMEOUT_S)
    assert server.stop() == 0
    place = tmp_path / "backups"
    back_up(server, place)
    back_up(server, place)
    first, second = backups(place)
    names = sorted(path.name for path in (first / "aggregates" / "runs").iterdir())
    assert names and names == sorted(path.name for path in (second / "aggregates" / "runs").iterdir())
    for name in names:
        inodes = {(root / "aggregates" / "runs" / name).stat().st_ino for root in (first, second, server.data_dir)}
        assert len(inodes) == 1, name


def test_what_is_not_whole_is_no_backup(gnudi, tmp_path):
    server = gnudi()
    place = tmp_path / "backups"
    (place / "2020.partial").mkdir(parents=True)
    assert "files" in back_up(server, place)
    (backup,) = backups(place)
    # A file that is cut, one that is missing, and none at all.
    target = tmp_path / "target"
    index = backup / "indexer.sqlite"
    text = index.read_bytes()
    index.write_bytes(text[:100])
    done = run("restore", backup, "--data-dir", target)
    assert done.returncode == 1 and "indexer.sqlite" in done.stderr and "the backup is damaged" in done.stderr
    index.unlink()
    done = run("restore", place, "--data-dir", target)
    assert done.returncode == 1 and "indexer.sqlite" in done.stderr
    assert not target.exists()
    index.write_bytes(text)
    (backup / "backup.json").rename(backup / "x")
    done = run("restore", place, "--data-dir", target)
    assert done.returncode == 1 and "backup.json" in done.stderr


def test_nothing_is_overwritten(gnudi, tmp_path):
    server = gnudi()
    place = tmp_path / "backups"
    back_up(server, place)
    done = run("restore", place, "--data-dir", server.data_dir)
    assert done.returncode == 1 and "not empty" in done.stderr
    done = run("backup", place, "--data-dir", tmp_path / "nothing")
    assert done.returncode == 1 and "no data directory" in done.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_mount_point_is_restored_into(gnudi, small_disk, tmp_path):
    """Which no directory can be renamed to."""
    server = gnudi()
    client = server.client()
    load.make_policy(client)
    id = create_metric(client, load.POLICY)
    place = tmp_path / "backups"
    back_up(server, place)
    (small_disk / "lost+found").mkdir()
    done = run("restore", place, "--data-dir", small_disk, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    (backup,) = backups(place)
    restored = {path.name for path in small_disk.iterdir()}
    assert restored == {path.name for path in backup.iterdir()} - {"backup.json"} | {"lost+found"}
    gnudi(data_dir=small_disk).client().get(f"/v1/metric/{id}").expect(200)
    done = run("restore", place, "--data-dir", small_disk)
    assert done.returncode == 1 and "not empty" in done.stderr

"""A second backup into the same directory copies only new data. Each backup can be restored by itself. A damaged one is refused with the
file and the reason, and nothing is changed."""

import json
import os
import pathlib
import re
import shutil
import tempfile

import pytest

from backup.copies import TIMEOUT_S, back_up, backups
from crash import load
from support.gnudi import run
from support.http import create_metric
from support.process import wait_until

pytestmark = pytest.mark.slow

# A few posts make a run.
CONFIG = "[storage]\nrecent_bytes_max = 20000\ndirty_bytes_max = 20000\n"
PRINTED = re.compile(r"(\d+) files, (\d+) bytes copied, (\d+) bytes reused")
ROUNDS = 3


@pytest.fixture
def elsewhere(tmp_path):
    """A directory on another file system."""
    memory = pathlib.Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system at /dev/shm")
    path = pathlib.Path(tempfile.mkdtemp(prefix="gnudi-test-", dir=memory))
    yield path
    shutil.rmtree(path)


def copied_and_kept(printed):
    _, copied, kept = map(int, PRINTED.search(printed).groups())
    return copied, kept


def flushed(server):
    """Waits until there is a run."""
    runs = server.data_dir / "aggregates" / "runs"
    wait_until(lambda: list(runs.glob("*.run")), TIMEOUT_S, "a run")


def post(client, metric, first, count):
    body = [{"timestamp": load.START_S + second, "value": second * 1.5} for second in range(first, first + count)]
    client.post(f"/v1/metric/{metric.id}/measures", body).expect(202)
    metric.values += [second * 1.5 for second in range(first, first + count)]
    metric.acknowledged.update(range(first, first + count))


def grow(client, metrics, count=2000):
    for metric in metrics:
        post(client, metric, len(metric.values), count)
    for metric in metrics:
        client.get(f"/v1/metric/{metric.id}/measures?aggregation=count&refresh=true").expect(200)


def snapshot(metrics):
    return [load.Metric(metric.id, list(metric.values), set(metric.acknowledged)) for metric in metrics]


@pytest.mark.parametrize("where", ["same", "other"])
def test_only_what_is_new_is_copied(gnudi, restored, tmp_path, request, where):
    place = tmp_path / "backups" if where == "same" else request.getfixturevalue("elsewhere") / "backups"
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    load.make_policy(client)
    metrics = [load.Metric(create_metric(client, load.POLICY)) for _ in range(6)]
    promised = []
    for _ in range(ROUNDS):
        grow(client, metrics)
        flushed(server)
        promised.append(snapshot(metrics))
        back_up(server, place)
    # Nothing has come since: the runs are kept.
    assert server.stop() == 0
    back_up(server, place)
    copied, kept = copied_and_kept(back_up(server, place))
    made = backups(place)
    runs = [path for path in (made[-1] / "aggregates" / "runs").iterdir()]
    runs_bytes = sum(path.stat().st_size for path in runs)
    assert runs and kept >= runs_bytes, (copied, kept)
    for path in runs:
        assert path.stat().st_ino == (made[-2] / "aggregates" / "runs" / path.name).stat().st_ino, path
        assert (path.stat().st_dev == server.data_dir.stat().st_dev) == (where == "same")
    # Closed segments of a log are kept as well, and the manifest's checksums are those of the files.
    manifest = json.loads((made[-1] / "backup.json").read_text())
    finals = [name for name, entry in manifest["files"].items() if entry["is_final"]]
    assert {f"aggregates/runs/{path.name}" for path in runs} <= set(finals)
    for name in finals:
        assert (made[-1] / name).stat().st_ino == (made[-2] / name).stat().st_ino, name
    # Each stands for itself: the others may go.
    for backup, wanted in zip(made, promised):
        copied = restored(backup)
        for metric in wanted:
            load.check(copied.client(), metric)
        assert copied.stop() == 0
        shutil.rmtree(backup)
    copied = restored(place)
    for metric in metrics:
        load.check(copied.client(), metric)
    assert " ERROR " not in copied.log() and "damaged" not in copied.log(), copied.log()


def damage(path):
    """Changes a byte of a file that other names may share: in a copy that takes its place."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.unlink()
    path.write_bytes(content)


def test_what_is_damaged_is_refused_before_anything_is_changed(gnudi, tmp_path):
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    load.make_policy(client)
    grow(client, [load.Metric(create_metric(client, load.POLICY)) for _ in range(6)])
    flushed(server)
    # No merge may take away the run that is damaged below.
    assert server.stop() == 0
    place, target = tmp_path / "backups", tmp_path / "target"
    back_up(server, place)
    (backup,) = backups(place)
    files = [path for path in sorted(backup.rglob("*")) if path.is_file() and path.name != "backup.json"]
    files = [path for path in files if path.stat().st_size > 0]
    assert {path.suffix for path in files} >= {".run", ".log", ".sqlite"}
    target.mkdir()
    for path in files:
        content = path.read_bytes()
        damage(path)
        done = run("restore", place, "--data-dir", target, timeout_s=TIMEOUT_S)
        assert done.returncode == 1, path
        assert str(path) in done.stderr and "the backup is damaged" in done.stderr, done.stderr
        assert list(target.iterdir()) == [], "the target is as it was"
        assert not target.with_name("target.restoring").exists()
        path.write_bytes(content)
    done = run("restore", place, "--data-dir", target, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    # An earlier backup that is cut is told of, and nothing of it is used.
    run_file = next(path for path in files if path.suffix == ".run")
    run_file.unlink()
    run_file.write_bytes(b"cut")
    done = run("backup", place, "--data-dir", server.data_dir, timeout_s=TIMEOUT_S)
    assert done.returncode == 0 and "an earlier backup is damaged" in done.stderr and run_file.name in done.stderr
    done = run("restore", place, "--data-dir", tmp_path / "other", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr

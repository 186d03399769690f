"""`gnudi backup` and `gnudi restore` are killed at any of their syncs. Another run has the result of one that was not interrupted."""

import subprocess

import pytest

from backup.copies import CONFIG, TIMEOUT_S, back_up
from crash import load
from support.gnudi import binary, run
from support.http import create_metric
from support.strace import STRACE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(STRACE is None, reason="strace is not installed")]

# The names and syncs at which the command is killed; the last ones are beyond its end.
CALLS = [1, 2, 3, 5, 8, 11, 14, 17, 20, 24, 28, 34, 40]


def killed_at(number, *arguments):
    """Runs gnudi and kills it at its `number`-th call that makes a name or syncs; answers whether it was killed."""
    calls = "fsync,fdatasync,rename,link,mkdir,unlink"
    trace = [STRACE, "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={number}"]
    done = subprocess.run([*map(str, [*trace, binary(), *arguments])], capture_output=True, timeout=TIMEOUT_S, check=False)
    return done.returncode != 0


def test_interrupted_backups_and_restores_are_done_again(gnudi, restored, tmp_path):
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    load.make_policy(client)
    metrics = [load.Metric(create_metric(client, load.POLICY)) for _ in range(3)]
    place = tmp_path / "backups"
    killed = 0
    for number in CALLS:
        for metric in metrics:
            second = len(metric.values)
            metric.values.append(second * 1.5)
            body = [{"timestamp": load.START_S + second, "value": second * 1.5}]
            client.post(f"/v1/metric/{metric.id}/measures", body).expect(202)
            metric.acknowledged.add(second)
        killed += killed_at(number, "backup", place, "--data-dir", server.data_dir)
    assert killed > len(CALLS) / 2, f"{killed} were killed"
    back_up(server, place)
    assert not list(place.glob("*.partial")), "what was left behind is gone"
    target, killed = tmp_path / "target", 0
    for number in CALLS:
        was_killed = killed_at(number, "restore", place, "--data-dir", target)
        killed += was_killed
        if target.exists():
            break
    assert killed > 3, f"{killed} were killed"
    if not target.exists():
        done = run("restore", place, "--data-dir", target, timeout_s=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
    assert not target.with_name("target.restoring").exists()
    copied = restored(place)
    for metric in metrics:
        load.check(copied.client(), metric)

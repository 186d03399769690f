"""The index's file: a clean stop checkpoints its write-ahead log; if the disk fails meanwhile, no more changes are accepted. A store whose
index is missing is not opened."""

import os
import shutil

import pytest

from support.gnudi import Gnudi, run
from support.http import create_metric, create_policy
from support.strace import STRACE, kill, traced

pytestmark = pytest.mark.slow

# More than the changes before the first time that the log is folded.
METRICS_MAX = 2000


def test_a_clean_stop_leaves_no_log(gnudi):
    server = gnudi()
    client = server.client()
    create_policy(client, "stop", [("1s", None)])
    metric = create_metric(client, "stop")
    log = server.data_dir / "indexer.sqlite-wal"
    assert log.stat().st_size > 0
    assert server.stop() == 0
    assert not log.exists() or log.stat().st_size == 0
    assert " ERROR " not in server.log(), server.log()
    server.start()
    server.client().get(f"/v1/metric/{metric}").expect(200)


class FailingIndex(Gnudi):
    """A server whose disk cannot sync the index's file."""

    def command(self):
        path = self.data_dir / "indexer.sqlite"
        return traced(super().command(), self.directory / "strace", "fsync,fdatasync:error=EIO", path)

    def kill(self):
        kill(self.process)


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_no_change_is_taken_after_the_disk_has_failed_a_checkpoint(gnudi, tmp_path):
    first = gnudi()
    create_policy(first.client(), "disk", [("1s", None)])
    assert first.stop() == 0
    server = FailingIndex(tmp_path / "failing", data_dir=first.data_dir)
    server.start()
    try:
        client, created = server.client(), []
        while len(created) < METRICS_MAX:
            answer = client.post("/v1/metric", {"archive_policy_name": "disk"})
            if answer.status != 201:
                break
            created.append(answer.json()["id"])
        assert answer.status == 503, answer
        assert b"changes are refused until a restart" in answer.body
        # The disk would work again: nobody tries. Reads and measures go on.
        client.post("/v1/metric", {"archive_policy_name": "disk"}).expect(503)
        client.delete(f"/v1/metric/{created[0]}").expect(503)
        client.get(f"/v1/metric/{created[-1]}").expect(200)
        client.post(f"/v1/metric/{created[-1]}/measures", [{"timestamp": 1, "value": 1}]).expect(202)
        [reason] = client.get("/healthcheck").expect(503).json()["reasons"]
        assert reason.startswith("the index: a checkpoint of its write-ahead log failed"), reason
        assert server.log().count("ERROR the index: a checkpoint of its write-ahead log failed") == 1
    finally:
        server.kill()
    first.start()
    client = first.client()
    for metric in created:
        client.get(f"/v1/metric/{metric}").expect(200)
    create_metric(client, "disk")


def refused(server):
    """What the server says that does not start."""
    done = run("serve", "--listen", "127.0.0.1:0", "--data-dir", server.data_dir, "--without", "host")
    assert done.returncode == 1, (done.stdout, done.stderr)
    return done.stderr.splitlines()[-1]


def measured(server):
    """A metric with a measure that was processed."""
    client = server.client()
    create_policy(client, "lost", [("1s", None)])
    metric = create_metric(client, "lost")
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": 1, "value": 1}]).expect(202)
    assert len(client.get(f"/v1/metric/{metric}/measures?refresh=true").json()) == 1
    return metric


# Data of an older program does not say that there was an index. What a file lacks, the log of a killed process may have.
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("end,left", [("stopped", None), ("stopped", 0), ("stopped", 0.5), ("killed", None), ("killed", 0)])
def test_measures_without_their_index_are_refused(gnudi, end, left, is_marked):
    server = gnudi()
    metric = measured(server)
    server.stop() if end == "stopped" else server.kill()
    index = server.data_dir / "indexer.sqlite"
    shutil.copy(index, server.directory)
    logs = [path for path in server.data_dir.glob("indexer.sqlite-*")]
    for log in logs:
        shutil.copy(log, server.directory)
    if left is None:
        index.unlink()
    else:
        os.truncate(index, int(index.stat().st_size * left))
    if not is_marked:
        (server.data_dir / "index-id").unlink()
    said = refused(server)
    assert str(index) in said
    assert {None: "is missing", 0: "is empty", 0.5: "is cut short"}[left] in said
    assert "incoming and aggregates" in said and "Restore it from a backup" in said
    assert refused(server) == said
    # Nothing was changed by it.
    for path in [index, *logs]:
        shutil.copy(server.directory / path.name, path)
    server.start()
    client = server.client()
    assert len(client.get(f"/v1/metric/{metric}/measures?refresh=true").json()) == 1
    assert server.stop() == 0
    # Or one begins anew.
    index.unlink()
    for name in ("incoming", "aggregates"):
        (server.data_dir / name).rename(server.directory / name)
    server.start()
    server.client().get(f"/v1/metric/{metric}").expect(404)


def test_another_index_is_refused(gnudi):
    first, second = gnudi(), gnudi()
    measured(first)
    for server in (first, second):
        assert server.stop() == 0
    shutil.copy(second.data_dir / "indexer.sqlite", first.data_dir)
    said = refused(first)
    assert "is another index than the one that the measures beside it belong to" in said

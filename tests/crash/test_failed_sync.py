"""A disk that fails to sync: the incoming log accepts no more measures, reads go on, and the health check reports it. The next start
rewrites the data that the failed syncs may have lost (Linux still shows it to readers, and counts it as written)."""

import os
import re
import shutil
import subprocess

import pytest

from support.gnudi import START_TIMEOUT_S, Gnudi, binary
from support.http import Client
from support.process import Process, free_port, wait_until
from support.strace import DESCRIPTOR, STRACE, calls
from support.strace import kill as kill_traced

pytestmark = pytest.mark.slow

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    if (access(getenv("FAIL_SYNC"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}
"""


@pytest.fixture
def server(tmp_path):
    """A server whose syncs fail once the file `fail` is there, and that file."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.fail("there is no C compiler (cc)")
    source, library, fail = tmp_path / "shim.c", tmp_path / "shim.so", tmp_path / "fail"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    environment = {"LD_PRELOAD": os.fspath(library), "FAIL_SYNC": os.fspath(fail)}
    with Gnudi(tmp_path / "gnudi", env=environment) as server:
        yield server, fail


def test_the_health_check_tells_of_a_failed_sync(server):
    server, fail = server
    client = server.client()
    metric = client.post("/v1/metric", {"archive_policy_name": "low"}).expect(201).json()["id"]
    measures = f"/v1/metric/{metric}/measures"
    client.post(measures, [{"timestamp": 1000, "value": 1}]).expect(202)
    client.get(f"{measures}?refresh=true").expect(200)
    assert client.get("/healthcheck").expect(200).json()["reasons"] == []
    fail.touch()
    client.post(measures, [{"timestamp": 2000, "value": 1}]).expect(503)
    client.post(measures, [{"timestamp": 3000, "value": 1}]).expect(503)
    health = client.get("/healthcheck").expect(503).json()
    assert any("incoming log accepts no measures" in reason for reason in health["reasons"])
    client.get(measures).expect(200)
    fail.unlink()
    server.stop()
    server.start()
    assert server.client().get("/healthcheck").expect(200).json()["reasons"] == []


def traced_start(data_dir, tmp_path):
    """Starts the server on `data_dir`, waits until it answers, kills it, and answers its calls that write or sync: (name, path,
    offset, bytes), a sync without the last two."""
    port, output = free_port(), tmp_path / "strace"
    command = [binary(), "serve", "--data-dir", data_dir, "--listen", f"127.0.0.1:{port}", "--without", "host"]
    trace = ["-f", "-y", "-s", "32", "-e", "trace=pwrite64,pwritev,fdatasync,fsync", "-e", "signal=none", "-o", output]
    process = Process([STRACE, *trace, *command], tmp_path / "traced-log", cwd=tmp_path)
    try:
        wait_until(Client("127.0.0.1", port, timeout_s=5).answers, START_TIMEOUT_S, "an answer")
        kill_traced(process)
    finally:
        process.kill()
    found = []
    for name, arguments in calls(output):
        match = DESCRIPTOR.match(arguments)
        if match and name.startswith("pwrite"):
            offset = int(arguments.rsplit(", ", 1)[1])
            length = sum(int(n) for n in re.findall(r"iov_len=(\d+)", arguments)) or int(arguments.rsplit(", ", 2)[1])
            found.append((name, match[1], offset, length))
        elif match:
            found.append((name, match[1], None, None))
    return found


def written_before_sync(found, path):
    """The bytes of a file that are written before it is first synced: (start, end) of each call."""
    spans = []
    for name, file, offset, length in found:
        if file == os.fspath(path) and name.endswith("sync"):
            return spans
        if file == os.fspath(path):
            spans.append((offset, offset + length))
    raise AssertionError(f"{path} is never synced")


def covers(spans, start, end):
    for first, last in sorted(spans):
        if first <= start:
            start = max(start, last)
    return start >= end


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_the_next_start_writes_again_what_was_not_synced(server, tmp_path):
    server, fail = server
    client = server.client()
    metric = client.post("/v1/metric", {"archive_policy_name": "low"}).expect(201).json()["id"]
    fail.touch()
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": 1000, "value": 1}]).expect(503)
    server.kill()
    index_log = server.data_dir / "indexer.sqlite-wal"
    (log,) = (server.data_dir / "incoming").glob("*.log")
    # The measure stands right behind the header; a mark may be in between.
    header_bytes, bytes_min = 4096, 100
    index_log_bytes = index_log.stat().st_size
    assert index_log_bytes > 0
    found = traced_start(server.data_dir, tmp_path)
    assert covers(written_before_sync(found, index_log), 0, index_log_bytes)
    spans = written_before_sync(found, log)
    assert spans and max(end for _, end in spans) > header_bytes + bytes_min, spans

"""A disk that fails to sync the incoming log: nothing is taken any more, reads go on, and the health check says so."""

import os
import shutil
import subprocess

import pytest
from support.gnudi import Gnudi

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
    assert any("incoming log takes no measures" in reason for reason in health["reasons"])
    client.get(measures).expect(200)
    fail.unlink()
    server.stop()
    server.start()
    assert server.client().get("/healthcheck").expect(200).json()["reasons"] == []

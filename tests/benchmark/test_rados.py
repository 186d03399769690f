"""The binding of librados, and `gnudi-benchmark sack-split` on its own Ceph: everything that it reports as written is stored, and nothing
is left behind."""

import json
import shutil
import subprocess

import pytest

from support.gnudi import example, run_benchmark

pytestmark = pytest.mark.long


@pytest.fixture
def own_tmp(shared_dir):
    """An empty directory for what gnudi starts itself, with a name short enough for Ceph's sockets."""
    directory = shared_dir / "own"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


def left_behind(directory):
    """Files there, and processes that were started with something there."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [*directory.iterdir(), *(line for line in processes.splitlines() if str(directory) in line)]


def test_the_binding_does_what_it_says(ceph):
    """The example of the rados crate, which checks every operation."""
    program = example("gnudi-rados", "round_trip")
    ceph.create_pool("binding")
    done = subprocess.run([program, ceph.conf, "binding"], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ok\n", done.stderr
    assert done.returncode == 0
    assert ceph.rados("-p", "binding", "ls") == ""


def test_sacks_are_split_on_a_cluster_that_is_removed_afterwards(own_tmp):
    done = run_benchmark("sack-split", "--engine", "ceph", "--seconds", "1", "--after", "1", "-f", "json",
                         timeout_s=300, env={"TMPDIR": str(own_tmp)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert left_behind(own_tmp) == []
    assert found["measures posted"] > 0 and found["measures lost"] == "0"
    (table,) = found["tables"]
    ((name, before, since, settled, *rates),) = table["rows"]
    assert name == "gnudi, sacks doubled"
    assert float(before.removesuffix(" ms")) > 0 and float(since.removesuffix(" ms")) > 0
    latency, posts = found["plots"]
    for plot in (latency, posts):
        split, end = (mark["x"] for mark in plot["marks"])
        assert (split, f"{end:.2f} s") == (0, settled)
    assert all(float(rate) > 0 for rate in rates)


@pytest.mark.parametrize("arguments, status, reason", [
    (["--engine", "ceph", "--librados", "/nonexistent/librados.so.2"], 1, "librados2"),
    (["--engine", "mysql"], 2, "invalid value 'mysql'"),
    (["--seconds", "0"], 2, "0 is not in 1"),
])
def test_what_is_missing_or_wrong_is_told(arguments, status, reason):
    done = run_benchmark("sack-split", *arguments, timeout_s=60)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert reason in done.stderr and "panicked" not in done.stderr

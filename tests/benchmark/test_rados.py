"""`gnudi-benchmark rados` and `pg-split` on a real Ceph: what they say they wrote is there, and nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from support.gnudi import benchmark_binary, example, run_benchmark
from support.process import free_port, wait_until

pytestmark = pytest.mark.long

BLOCK_BYTES = 512
PREFIX = "gnudi_bench_"


@pytest.fixture
def own_tmp(shared_dir):
    """An empty directory for what gnudi starts itself, with a name short enough for Ceph's sockets."""
    directory = shared_dir / "own"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module", autouse=True)
def unreachable(module_path):
    """A run with a cluster where nobody listens, and its ceph.conf: it gives up after a while, so it starts before the others."""
    conf = module_path / "ceph.conf"
    conf.write_text(f"[global]\nmon host = 127.0.0.1:{free_port()}\nauth client required = none\n")
    command = [benchmark_binary(), "rados", "--ceph-conf", conf, "--pool", "p"]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process, conf
    process.kill()
    process.wait()


def on_pool(ceph, pool, *arguments):
    return ["rados", "--ceph-conf", ceph.conf, "--pool", pool, "-f", "json", *arguments]


def results(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rate(text):
    value, unit = text.split(" ")
    assert unit in ("write/s", "create/s"), text
    return float(value)


def check_refusal(status, output, errors, text):
    assert status == 1, errors
    assert text in errors, errors
    assert output == ""
    # librados may say something of its own before.
    assert len([line for line in errors.splitlines() if line.startswith("gnudi-benchmark: ")]) == 1, errors
    assert "panicked" not in errors


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


def test_both_kinds_are_written_and_compared(ceph):
    ceph.create_pool("kept")
    found = results(run_benchmark(*on_pool(ceph, "kept", "--seconds", "1", "-t", "8", "--keep"), timeout_s=60))
    objects = ceph.rados("-p", "kept", "ls").split()
    own = [name for name in objects if name.startswith(PREFIX)]
    prefixes = {name.split("_object")[0] for name in own}
    assert len(prefixes) == 2, "each load has a prefix of its own"
    assert len(own) == sum(found[f"{kind} gnudi writes"] for kind in ("write-object", "write-omap"))

    sizes = {}
    for prefix in prefixes:
        name = f"{prefix}_object0"
        size = int(ceph.rados("-p", "kept", "stat", name).split("size ")[1])
        keys = ceph.rados("-p", "kept", "listomapkeys", name).split()
        sizes[size] = keys
        for key in keys:
            assert f"value ({BLOCK_BYTES} bytes)" in ceph.rados("-p", "kept", "getomapval", name, key)
    assert sizes == {BLOCK_BYTES: [], 0: ["bench-omap-key-0"]}

    for kind in ("write-object", "write-omap"):
        for generator in ("gnudi", "rados bench"):
            # A load of a second ends within the next; what is on its way then is waited for.
            assert rate(found[f"{kind} {generator} speed"]) <= found[f"{kind} {generator} writes"] / 0.99
            latencies = [found[f"{kind} {generator} latency {name}"] for name in ("min", "avg", "max")]
            assert 0 < latencies[0] <= latencies[1] <= latencies[2]
        percentiles = [found[f"{kind} gnudi latency {name}"] for name in ("p50", "p95", "p99", "max")]
        assert percentiles == sorted(percentiles)
        ratio = rate(found[f"{kind} gnudi speed"]) / rate(found[f"{kind} rados bench speed"]) * 100
        assert float(found[f"{kind} speed, gnudi to rados bench"].removesuffix(" %")) == pytest.approx(ratio, rel=0.01)
    (table,) = found["tables"]
    assert [row[:2] for row in table["rows"][:4]] == [
        ["write-object", "gnudi"], ["write-object", "rados bench"],
        ["write-omap", "gnudi"], ["write-omap", "rados bench"],
    ]


def test_objects_are_removed_and_ctrl_c_keeps_the_results(ceph):
    ceph.create_pool("cut")
    command = [benchmark_binary(), *on_pool(ceph, "cut", "write-omap", "--seconds", "60", "-b", "64", "-t", "4")]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: PREFIX in ceph.rados("-p", "cut", "ls"), 20, "a first write")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    found = json.loads(output)
    assert found["partial"] == "stopped before its time"
    assert found["write-omap gnudi writes"] > 0
    assert ceph.rados("-p", "cut", "ls") == ""


def test_a_cluster_of_its_own_is_started_and_removed_also_without_the_peer(own_tmp, tmp_path):
    for program in ["ceph-mon", "monmaptool", "ceph-osd", "ceph-mgr", "sh"]:
        (tmp_path / program).symlink_to(shutil.which(program))
    done = run_benchmark("rados", "write-object", "--seconds", "1", "-f", "json", timeout_s=60,
               env={"TMPDIR": str(own_tmp), "PATH": str(tmp_path)})
    found = results(done)
    assert rate(found["write-object gnudi speed"]) > 0
    assert "write-object rados bench speed" not in found
    assert found["notes"] == ["rados bench was not measured: not installed: rados (Debian's packages: ceph-common)"]
    assert left_behind(own_tmp) == []


def test_a_placement_group_is_split_and_moved(own_tmp):
    # With a short log the new OSD gets its objects by backfill even after a second, as in longer runs; a client that asks
    # sooner for a new map of the cluster stalls shorter.
    ceph_options = [
        "osd min pg log entries=50", "osd max pg log entries=50", "osd recovery max active=50",
        "objecter timeout=2", "objecter tick interval=1",
    ]
    done = run_benchmark("pg-split", "--seconds", "1", "--between", "1", "--after", "1", "-f", "json",
               *(word for option in ceph_options for word in ("--ceph-option", option)),
               timeout_s=120, env={"TMPDIR": str(own_tmp)})
    found = results(done)
    assert left_behind(own_tmp) == []
    assert found["objects at the split (1 s)"] > 0
    (table,) = found["tables"]
    assert table["headings"] == ["setup", "1 s"]
    values = {row[0]: row[1] for row in table["rows"]}
    assert values["objects at the split"] == str(found["objects at the split (1 s)"])
    for row in ("longest stall after pg_num", "longest stall after pgp_num", "shuffle, until active+clean"):
        assert float(values[row].removesuffix(" s")) > 0, values

    latency, creates = found["plots"]
    marks = {mark["label"]: mark["x"] for mark in latency["marks"]}
    moments = [marks[label] for label in ("pg_num 2", "split", "pgp_num 2", "active+clean")]
    assert moments == sorted(moments)
    assert moments[0] == pytest.approx(1, abs=0.5)
    shuffle = float(values["shuffle, until active+clean"].removesuffix(" s"))
    assert moments[3] - moments[2] == pytest.approx(shuffle, abs=0.02)
    # The rate's area is the number of creates; up to the split it is what the table says.
    width = creates["lines"][0]["points"][1][0]
    before = sum(y * width for x, y in creates["lines"][0]["points"] if x + width <= moments[0])
    assert before == pytest.approx(found["objects at the split (1 s)"], rel=0.3)


def test_what_is_missing_is_told_in_a_line(ceph):
    cases = [
        (["rados", "--librados", "/nonexistent/librados.so.2"], {}, "librados2"),
        (["pg-split", "--librados", "/nonexistent/librados.so.2"], {}, "librados2"),
        (["rados"], {"PATH": "/nonexistent"}, "ceph-mon, ceph-base, ceph-osd, ceph-mgr"),
        (["pg-split"], {"PATH": "/nonexistent"}, "ceph-mon, ceph-base, ceph-osd, ceph-mgr"),
        (on_pool(ceph, "no-such-pool"), {}, "open the pool no-such-pool: No such file or directory"),
        (["rados", "--ceph-conf", "/nonexistent/ceph.conf", "--pool", "p"], {}, "/nonexistent/ceph.conf"),
    ]
    for arguments, env, text in cases:
        done = run_benchmark(*arguments, env=env, timeout_s=40)
        check_refusal(done.returncode, done.stdout, done.stderr, text)


def test_a_cluster_that_does_not_answer_is_told_in_a_line(unreachable):
    process, conf = unreachable
    output, errors = process.communicate(timeout=40)
    check_refusal(process.returncode, output, errors, f"connect to the cluster of {conf}: ")


def test_bad_options_are_refused(ceph):
    for arguments in [
        ["rados", "write-nothing"], ["rados", "-t", "0"], ["rados", "-b", "0"], ["rados", "--seconds", "0"],
        ["rados", "--pool", "p"], ["rados", "--ceph-conf", ceph.conf], ["pg-split", "--seconds", "0"],
        ["pg-split", "--seconds", "10,x"], ["pg-split", "--ceph-option", "osd heartbeat grace"],
    ]:
        done = run_benchmark(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert os.linesep in done.stderr and "panicked" not in done.stderr

"""`gnudi-benchmark processing`: the measures that it counts are stored, failures are reported, and an interrupted run keeps its results so far."""

import json
import signal
import subprocess
import time

import pytest

from support.gnudi import benchmark_binary, run_benchmark
from support.process import free_port

pytestmark = pytest.mark.slow

SMALL = ["--metrics", "40", "--points", "5", "--batches", "20", "--held", "50"]


def bench(*arguments, timeout_s=60):
    return run_benchmark(*arguments, "-f", "json", timeout_s=timeout_s)


def results(*arguments):
    """The figures of a command that succeeds."""
    done = bench(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(*arguments):
    """What a command says that fails."""
    done = bench(*arguments)
    assert done.returncode not in (0, 130), (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "", done.stdout
    return done.stderr


def test_all_work_is_processed():
    found = results("processing", "--peers", "gnudi", *SMALL)
    assert (found["worst measures"], found["fold measures"], found["stream measures"]) == (20, 200, 200)
    for part in ("worst", "fold", "stream"):
        assert float(found[f"{part} time"].split()[0]) > 0
        assert found[f"{part} speed"].endswith(" measure/s")
        assert int(found[f"{part} memory peak"].split()[0]) > 1_000_000
    assert len(found["tables"]) == 3
    assert all(len(table["rows"]) == 1 for table in found["tables"])
    assert len(found["plots"]) == 3
    for plot in found["plots"]:
        points = plot["lines"][0]["points"]
        times = [at for at, _ in points]
        assert times == sorted(times) and points[-1][1] == 0, "the last look finds nothing waiting"
    assert "partial" not in found


def test_a_running_server_is_measured(gnudi):
    server = gnudi()
    found = results("processing", "--endpoint", f"http://127.0.0.1:{server.port}", *SMALL)
    client = server.client()
    metrics = client.get("/v1/metric?limit=1000").expect(200).json()
    assert len(metrics) == 1 + 40 + 40
    by_policy = {"gnudi-bench-worst": [], "medium": []}
    for metric in metrics:
        by_policy[metric["archive_policy"]["name"]].append(metric["id"])
    (worst,) = by_policy["gnudi-bench-worst"]

    def counted(metric):
        path = f"/v1/metric/{metric}/measures?aggregation=count&granularity=60"
        return sum(value for _, _, value in client.get(path).expect(200).json())

    assert counted(worst) == 50 + 20
    assert {counted(metric) for metric in by_policy["medium"]} == {5}
    assert found["stream measures"] == 200
    methods = client.get("/v1/archive_policy/gnudi-bench-worst").expect(200).json()["aggregation_methods"]
    assert set(methods) == {"std", "count", "95pct", "min", "max", "sum", "median", "mean"}
    # The policy is there already: no reason to fail.
    results("processing", "--endpoint", f"http://127.0.0.1:{server.port}", "--only", "worst", *SMALL)


def test_a_missing_peer_is_told():
    more = ["--only", "fold", "--gnocchi-venv", "/nowhere", *SMALL]
    found = results("processing", "--peers", "gnocchi,gnudi", *more)
    assert found["gnudi fold measures"] == 200
    assert any(note.startswith("gnocchi: not measured") and "/nowhere" in note for note in found["notes"])
    assert "nothing was measured: gnocchi" in refusal("processing", "--peers", "gnocchi", *more)


def test_a_server_that_is_not_there_is_told():
    port = free_port()
    error = refusal("processing", "--endpoint", f"http://127.0.0.1:{port}", *SMALL)
    assert "nothing was measured" in error and "refused" in error.lower(), error


@pytest.mark.parametrize("arguments, reason", [
    (["--peers", "limit"], "limit tells of no backlog"),
    (["--peers", "victoria-metrics"], "tells of no backlog"),
    (["--peers", "nobody"], "invalid value 'nobody'"),
    (["--metrics", "0"], "0 is not in 1"),
    (["--metrics", "1000000", "--points", "10000"], "measures, at most"),
    (["--batches", "50000"], "50000 is not in 1"),
    (["--only", "all"], "invalid value 'all'"),
    (["--endpoint", "https://h"], "scheme must be http"),
])
def test_bad_options(arguments, reason):
    assert reason in refusal("processing", *arguments)


def test_ctrl_c_keeps_what_there_is():
    command = [benchmark_binary(), "processing", "--peers", "gnudi", "--only", "worst,stream", "-f", "json"]
    command += ["--metrics", "2000", "--points", "1500", "--batches", "20", "--held", "50"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while "3000000 single measures over 2000 metrics" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    found = json.loads(output)
    assert process.returncode == 130
    assert found["partial"] == "interrupted"
    assert found["worst measures"] == 20
    assert found.get("stream measures", 0) < 3_000_000

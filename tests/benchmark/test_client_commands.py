"""`gnudi benchmark metric ...` and `... measures ...`: keys, forms and requests are those of gnocchiclient's own benchmark.

The client's output comes from its own code, which gets made-up results here: its process pool does not run on this Python.
"""

import argparse
import csv
import io
import json
import re
import signal
import socket
import subprocess
import threading
import types
import uuid

import pytest
from cliff.formatters import table as cliff_table
from gnocchiclient import benchmark

from support.gnudi import binary, run
from support.http import create_metric
from support.http_stand_in import HttpStandIn
from support.process import free_port, wait_until

LATENCIES_S = [0.000095, 0.25, 0.5]


def clients_stats(verb):
    """What the client would print of three requests that took `LATENCIES_S`."""
    futures = [types.SimpleNamespace(result=lambda latency=latency: (None, latency)) for latency in LATENCIES_S]
    pool = types.SimpleNamespace(
        statistics=types.SimpleNamespace(executed=len(futures), failures=0),
        times=len(futures),
        sw=benchmark.StopWatch(),
        _max_workers=4,
        shutdown=lambda wait: None,
        _log_progress=lambda verb: None,
        _percentile=benchmark.BenchmarkPool._percentile,
    )
    return benchmark.BenchmarkPool.wait_job(pool, verb, futures)[2]


def form(value):
    """A value without its digits: `#.## create/s`."""
    return re.sub(r"\d+", "#", value) if isinstance(value, str) else type(value)


def forms(stats):
    return {name: form(value) for name, value in stats.items()}


def bench(*arguments, port=None, endpoint=None, env=None, timeout_s=60):
    """Runs a command to its end, without asking what the generator itself reaches."""
    endpoint = endpoint or f"http://127.0.0.1:{port}"
    return run("benchmark", *arguments, "--endpoint", endpoint, "--no-calibration", env=env, timeout_s=timeout_s)


def results(*arguments, **where):
    """The figures of a command that succeeds."""
    done = bench(*arguments, "-f", "json", **where)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(*arguments, **where):
    """What a command says that fails."""
    done = bench(*arguments, **where)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.startswith("gnudi: "), (done.stdout, done.stderr)
    return done.stderr


def metric_ids(server):
    return [metric["id"] for metric in server.client().get("/v1/metric?limit=1000").expect(200).json()]


# What is printed.


@pytest.mark.parametrize("arguments, verbs", [
    (("metric", "create", "-n", "30", "-w", "4"), ["create", "delete"]),
    (("metric", "create", "-n", "30", "-w", "4", "--keep"), ["create"]),
    (("metric", "show", "-n", "30", "-w", "4"), ["show"]),
    (("metric", "delete", "-n", "30", "-w", "4"), ["delete"]),
])
def test_keys_and_forms_are_the_clients(arguments, verbs):
    expected = {}
    for verb in verbs:
        expected.update(clients_stats(verb))
    found = results(*arguments, endpoint="limit")
    assert list(found)[:len(expected)] == list(expected)
    assert forms({name: found[name] for name in expected}) == forms(expected)
    assert found["client workers"] == 4
    for verb in verbs:
        assert (found[f"{verb} executed"], found[f"{verb} failures"]) == (30, 0)
        assert found[f"{verb} failures rate"] == "0.00 %"
        ordered = [found[f"{verb} latency {name}"] for name in ("min", "median", "95%'ile", "99%'ile", "99.9%'ile", "max")]
        assert ordered == sorted(ordered) and ordered[0] > 0


def test_measures_keys_are_the_clients():
    keys = [*clients_stats("push"), "measures per request", "measures push speed", "extra wait to process measures"]
    found = results("measures", "add", "-n", "95", "-b", "10", "--wait", "-w", "2", endpoint="limit")
    assert list(found)[:len(keys)] == keys
    assert (found["push executed"], found["measures per request"]) == (9, 10)
    speed, pushed = (float(found[name].split()[0]) for name in ("push speed", "measures push speed"))
    # Both have two decimals.
    assert pushed == pytest.approx(10 * speed, rel=0.001, abs=0.06)
    keys = [*clients_stats("show"), "measures per request"]
    found = results("measures", "show", "-n", "5", endpoint="limit")
    assert list(found)[:len(keys)] == keys


def test_the_speed_is_the_clients():
    found = results("metric", "show", "-n", "500", "-w", "3", endpoint="limit")
    executed = found["show executed"]
    mean_s, cumulated_s = found["show latency mean"], float(found["show runtime (cumulated)"].split()[0])
    assert executed * mean_s == pytest.approx(cumulated_s, abs=0.006)
    assert float(found["show speed"].split()[0]) == pytest.approx(3 / mean_s, rel=0.001)


def test_every_format():
    arguments = ("metric", "show", "-n", "10")
    shown = bench(*arguments, "-f", "table", endpoint="limit").stdout
    rows = [line.strip("|").split("|", 1) for line in shown.splitlines() if line.startswith("| ")][1:]
    names, values = zip(*((name.strip(), value.strip()) for name, value in rows))
    expected = io.StringIO()
    options = argparse.Namespace(max_width=0, fit_width=False)
    cliff_table.TableFormatter().emit_one(names, values, expected, options)
    # What the client has no place for follows behind.
    assert shown.startswith(expected.getvalue())

    shown = bench(*arguments, "-f", "json", endpoint="limit").stdout
    found = json.loads(shown)
    assert shown == json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    names = [name for name in found if name != "notes"]

    shown = bench(*arguments, "-f", "csv", endpoint="limit").stdout
    heading, *rows = csv.reader(io.StringIO(shown), quoting=csv.QUOTE_NONNUMERIC)
    assert heading == ["Field", "Value"] and [row[0] for row in rows] == names
    assert [type(row[1]) is str for row in rows] == [type(found[name]) is str for name in names]

    shown = bench(*arguments, "-f", "value", endpoint="limit").stdout
    assert len(shown.splitlines()) == len(names)
    assert [form(line) for line in shown.splitlines()][:5] == [form(str(found[name])) for name in names][:5]


def test_columns_are_chosen():
    done = bench("metric", "show", "-n", "10", "-f", "value", "-c", "show_executed", "-c", "Client Workers", "-w", "2",
                 endpoint="limit")
    assert done.stdout == "2\n10\n"
    assert "No recognized column names" in refusal("metric", "show", "-n", "10", "-c", "nothing", endpoint="limit")


def test_verbose_tells_lines():
    done = bench("metric", "show", "-n", "10", "--verbose", endpoint="limit")
    assert re.fullmatch(r"10/10, total: \d+\.\d\d seconds, rate: \d+\.\d\d show/second\n", done.stderr)


def test_the_generator_says_when_it_is_the_bottleneck():
    done = run("benchmark", "metric", "show", "-n", "20000", "--endpoint", "limit", "-f", "json", timeout_s=60)
    found = json.loads(done.stdout)
    assert found["show bottleneck"] == "generator"
    assert found["notes"][0].startswith("show: the load generator, not the server, is the bottleneck")
    assert re.fullmatch(r"\d+\.\d\d show/s", found["show generator limit"])
    assert re.fullmatch(r"\d+\.\d\d %", found["show generator cpu"])


# What is sent.


class Recorder(HttpStandIn):
    """Takes every request, keeps it, and answers as it was told."""

    def __init__(self):
        super().__init__()
        # A command that is interrupted closes its connections whatever they wait for.
        self.server.handle_error = lambda *_: None
        self.requests, self.answers = [], {}

    def respond(self, method, path, headers, body):
        self.requests.append((method, path, headers, body))
        status, text = self.answers.get((method, path), self.answers.get(method, (200, "{}")))
        return status, {}, text.encode()


@pytest.fixture
def recorder():
    with Recorder() as server:
        yield server


def clients_batches(metric, *arguments):
    """The batches that the client would send."""
    sent = []

    class Pool:
        def __init__(self, workers):
            pass

        def map_job(self, function, batches, **kwargs):
            sent.extend(batches)

        def wait_job(self, verb, futures):
            return None, 0, {"push speed": "1.00 push/s"}

    client = types.SimpleNamespace(metric=types.SimpleNamespace(add_measures=print))
    command = benchmark.CliBenchmarkMeasuresAdd(types.SimpleNamespace(client=client), None)
    options = command.get_parser("add").parse_args([metric, *arguments])
    original, benchmark.BenchmarkPool = benchmark.BenchmarkPool, Pool
    try:
        command.take_action(options)
    finally:
        benchmark.BenchmarkPool = original
    return sent


@pytest.mark.parametrize("arguments", [
    ("-n", "95", "-b", "10", "-s", "2015-01-01T00:00:00+00:00", "-e", "2015-01-02T00:00:00+00:00"),
    ("-n", "7", "-b", "10", "-s", "2015-01-01T00:00:00Z", "-e", "2015-01-01T00:00:07Z"),
    ("-n", "3", "-s", "20150101T000000Z", "-e", "2015-02-01T00:00:00Z"),
])
def test_batches_are_the_clients(recorder, arguments):
    metric = str(uuid.uuid4())
    expected = clients_batches(metric, *arguments)
    results("measures", "add", *arguments, "-w", "1", metric, port=recorder.port)
    sent = [(path, json.loads(body)) for method, path, _, body in recorder.requests if method == "POST"]
    assert [path for path, _ in sent] == [f"/v1/metric/{metric}/measures"] * len(expected)
    for (_, batch), clients in zip(sent, expected):
        assert [measure["timestamp"] for measure in batch] == [measure["timestamp"] for measure in clients]
        assert all(type(measure["value"]) is int and abs(measure["value"]) <= 2**32 for measure in batch)


def test_who_asks(recorder):
    environment = {"GNOCCHI_USER": "", "GNOCCHI_ENDPOINT": f"http://127.0.0.1:{recorder.port}/gnocchi/"}

    def identity(*arguments, **env):
        recorder.requests.clear()
        done = run("benchmark", "metric", "show", "-n", "1", "--no-calibration", *arguments, str(uuid.uuid4()),
                   env={**environment, **env})
        assert done.returncode == 0, done.stderr
        assert all(path.startswith("/gnocchi/v1/") for _, path, _, _ in recorder.requests)
        return {(headers["Authorization"], headers["X-Auth-Token"]) for _, _, headers, _ in recorder.requests}

    assert identity() == {("Basic YWRtaW46", None)}
    assert identity("--user", "a", "--password", "b") == {("Basic YTpi", None)}
    assert identity(GNOCCHI_USER="a", GNOCCHI_PASSWORD="b") == {("Basic YTpi", None)}
    assert identity(OS_TOKEN="abc") == {(None, "abc")}
    assert identity("--token", "def", OS_TOKEN="abc") == {(None, "def")}


# On servers.


def test_metrics_on_gnudi(gnudi):
    server = gnudi()
    found = results("metric", "create", "-n", "200", "-w", "8", "-a", "low", port=server.port)
    assert (found["create executed"], found["delete executed"]) == (200, 200)
    assert metric_ids(server) == []
    results("metric", "create", "-n", "20", "-k", "-a", "medium", port=server.port)
    kept = metric_ids(server)
    assert len(kept) == 20
    found = results("metric", "show", "-n", "3", *kept[:5], port=server.port)
    assert (found["show executed"], found["show failures"]) == (15, 0)
    found = results("metric", "delete", *kept, port=server.port)
    assert (found["delete executed"], found["delete failures"]) == (20, 0)
    assert metric_ids(server) == []
    # One that is gone among those that are there is a failure, told with its request.
    metric = create_metric(server.client(), "low")
    found = results("metric", "show", "-n", "10", "-w", "1", metric, kept[0], port=server.port)
    assert (found["show executed"], found["show failures"], found["show failures rate"]) == (20, 10, "50.00 %")
    assert found["show first failure"].startswith(f"GET /v1/metric/{kept[0]}: 404 ")
    results("metric", "delete", "-n", "20", port=server.port)
    assert metric_ids(server) == [metric]


def test_metrics_of_a_resource_on_gnudi(gnudi):
    server = gnudi()
    resource = str(uuid.uuid4())
    server.client().request("POST", "/v1/resource/generic", {"id": resource, "metrics": {
        "cpu load": {"archive_policy_name": "low"}}}).expect(201)
    found = results("metric", "show", "-n", "10", "-r", resource, "cpu load", port=server.port)
    assert found["show failures"] == 0
    for keep in (["--keep"], []):
        found = results("metric", "create", "-n", "30", "-r", resource, "-a", "low", *keep, port=server.port)
        assert (found["create executed"], found["create failures"]) == (30, 0)
    names = server.client().get(f"/v1/resource/generic/{resource}").expect(200).json()["metrics"]
    assert len(names) == 31 and "cpu load" in names
    results("measures", "add", "-n", "10", "-r", resource, "cpu load", port=server.port)


def test_measures_on_gnudi(gnudi):
    server = gnudi()
    metric = create_metric(server.client(), "low")
    period = ("-s", "2015-01-01", "-e", "2015-01-02")
    found = results("measures", "add", "-n", "1000", "-b", "100", *period, "--wait", metric, port=server.port)
    assert (found["push executed"], found["push failures"]) == (10, 0)
    assert found["extra wait to process measures"].endswith(" seconds")
    path = f"/v1/metric/{metric}/measures?aggregation=count&granularity=300"
    points = server.client().get(path).expect(200).json()
    # Every request sends the same hundred measures, as the client's do; of those with one time, the last counts.
    assert sum(value for _, _, value in points) == 100
    found = results("measures", "show", "-n", "20", "--aggregation", "mean", "-g", "300", metric, port=server.port)
    assert found["measures per request"] == len(points)
    found = results("measures", "show", "-n", "20", "--start", "2015-01-01T12:00:00", "-g", "300", metric, port=server.port)
    assert 0 < found["measures per request"] < len(points)
    # Without a metric, one is made and removed.
    results("measures", "add", "-n", "100", port=server.port)
    assert results("measures", "show", "-n", "3", port=server.port)["measures per request"] > 1000
    assert metric_ids(server) == [metric]


def test_on_real_gnocchi(gnocchi):
    server = gnocchi(metricd=True)
    policy = {"name": "low", "definition": [{"granularity": "5 min", "timespan": "30 days"}]}
    server.client().request("POST", "/v1/archive_policy", policy).expect(201)
    found = results("metric", "create", "-n", "20", "-w", "2", "-a", "low", port=server.port)
    assert (found["create failures"], found["delete failures"]) == (0, 0)
    metric = create_metric(server.client(), "low")
    found = results("measures", "add", "-n", "100", "-b", "10", "-w", "2", "--wait", metric, port=server.port)
    assert (found["push executed"], found["push failures"]) == (10, 0)
    found = results("measures", "show", "-n", "5", metric, port=server.port)
    assert found["show failures"] == 0 and found["measures per request"] > 0
    assert results("metric", "show", "-n", "10", metric, port=server.port)["show failures"] == 0


# What goes wrong.


def test_servers_that_cannot_be_asked(recorder):
    show = ("metric", "show", "-n", "10", str(uuid.uuid4()))
    missing = free_port()
    said = refusal(*show, port=missing)
    assert f"no connection to 127.0.0.1:{missing}" in said and "refused" in said
    assert f"no connection to 127.0.0.1:{missing}" in refusal(*show, endpoint=f"https://127.0.0.1:{missing}")
    assert "not a URL" in refusal(*show, endpoint="127.0.0.1:8041")
    for status, text in [(401, "who are you?"), (404, "nothing here"), (500, "out of order")]:
        recorder.answers["GET"] = (status, text)
        assert f"GET /v1/capabilities: {status} {text}" in refusal(*show, port=recorder.port)
    recorder.answers["GET"] = (403, json.dumps({"code": 403, "title": "Forbidden", "description": "Not for you"}))
    assert "GET /v1/capabilities: 403 Not for you\n" in refusal(*show, port=recorder.port)


def test_silent_servers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = refusal("metric", "show", "-n", "10", "--timeout", "1", port=listener.getsockname()[1])
    assert "no answer within 1 s" in said


def test_requests_that_all_fail(gnudi):
    server = gnudi()
    said = refusal("metric", "create", "-n", "1000000", "-a", "nothing", port=server.port)
    assert "POST /v1/metric: 400 Archive policy nothing does not exist" in said
    gone = str(uuid.uuid4())
    assert f"GET /v1/metric/{gone}: 404 " in refusal("metric", "show", "-n", "1000000", gone, port=server.port)
    assert f"/v1/metric/{gone}/measures: 404 " in refusal("measures", "add", "-n", "10", gone, port=server.port)
    assert f"/v1/metric/{gone}/measures: 404 " in refusal("measures", "show", "-n", "10", gone, port=server.port)
    metric = create_metric(server.client(), "low")
    said = refusal("measures", "show", "-n", "10", "--aggregation", "nothing", metric, port=server.port)
    assert f"GET /v1/metric/{metric}/measures?aggregation=nothing: " in said


def test_a_server_that_forbids_the_status(recorder):
    recorder.answers[("GET", "/v1/status?details=false")] = (403, "admins only")
    said = refusal("measures", "add", "-n", "10", "--wait", str(uuid.uuid4()), port=recorder.port)
    assert "GET /v1/status?details=false: 403 admins only" in said
    assert all(method == "GET" for method, _, _, _ in recorder.requests)


@pytest.mark.parametrize("arguments, words", [
    (("metric", "create", "-n", "0"), "0 must be greater than 0"),
    (("metric", "create", "-n", "-5"), "-5 must be greater than 0"),
    (("metric", "create", "-n", "many"), "many must be an integer"),
    (("metric", "create", "-n", "5", "-w", "0"), "0 must be greater than 0"),
    (("metric", "create"), "--count"),
    (("metric", "delete"), "--count"),
    (("measures", "add", "-n", "5", "-b", "0"), "0 must be greater than 0"),
])
def test_numbers_that_are_refused(arguments, words):
    done = bench(*arguments, endpoint="limit")
    assert done.returncode == 2 and words in done.stderr, done.stderr


@pytest.mark.parametrize("arguments, words", [
    (("metric", "show", "-n", "1", "cpu"), "resource_id is required to get a metric by name"),
    (("measures", "add", "-n", "1", "cpu"), "resource_id is required to get a metric by name"),
    (("measures", "add", "-n", "1", "-s", "2015-01-02", "-e", "2015-01-01"), "End timestamp must be after start timestamp"),
    (("measures", "add", "-n", "100", "-b", "100", "-s", "2015-01-01T00:00:00", "-e", "2015-01-01T00:01:00"),
     "The specified time range is not large enough for the number of points"),
    (("measures", "add", "-n", "1", "-s", "yesterday evening"), "'yesterday evening' is not a time"),
])
def test_arguments_that_are_refused(arguments, words):
    assert words in refusal(*arguments, endpoint="limit").replace('"', "'")


def interrupted(*arguments, until, port):
    """The figures of a command that gets SIGINT once `until` is true."""
    command = [str(binary()), "benchmark", *arguments, "--endpoint", f"http://127.0.0.1:{port}", "-f", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            wait_until(until, 60, "the load")
            child.send_signal(signal.SIGINT)
            out, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 130, errors
    return json.loads(out)


def test_ctrl_c_keeps_what_there_is(gnudi):
    server = gnudi()
    found = interrupted("metric", "create", "-n", "50000000", "-w", "2", until=lambda: len(metric_ids(server)) > 50,
                        port=server.port)
    assert 50 < found["create executed"] < 50000000
    assert found["partial"] == f"interrupted: {found['create executed']} of 50000000 create requests"
    assert "delete executed" not in found and metric_ids(server) == []


def test_ctrl_c_while_a_server_is_silent(recorder):
    hung = threading.Event()
    metric = str(uuid.uuid4())

    class Hanging(dict):
        def get(self, key, default=None):
            if key == ("GET", f"/v1/metric/{metric}") and len(recorder.requests) > 5:
                hung.wait(30)
            return default

    recorder.answers = Hanging()
    try:
        found = interrupted("metric", "show", "-n", "1000", "-w", "2", metric,
                            until=lambda: len(recorder.requests) > 6, port=recorder.port)
    finally:
        hung.set()
    assert 0 < found["show executed"] < 10 and found["partial"].startswith("interrupted")

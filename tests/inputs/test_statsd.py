"""statsd by a real client (PyPI's `statsd`) over UDP: to `gnudi statsd` beside a server, and within `gnudi serve`."""

import contextlib
import math
import socket
import time

import pytest
import statsd
from gnocchi import statsd as gnocchis
from inputs.stored import SOON_S, metrics_of, points, values, wait_for_metrics, wait_for_values
from support import gnudi as program
from support.http import create_policy_with_rule
from support.http_stand_in import HttpStandIn
from support.process import Process, free_port, free_udp_port, wait_until

CONFIG = """\
[statsd]
port = {port}
resource_id = 07f26121-5777-48ba-8a0b-d70468133dd9
creator = statsd-user
flush_delay = 0.3
"""
RESOURCE = "07f26121-5777-48ba-8a0b-d70468133dd9"
# A datagram may get lost, and a flush may come between two of them: they are sent again after this time.
AGAIN_S = 5
LAST_WORDS_MAX = 3


@pytest.fixture
def ports():
    return free_udp_port()


@pytest.fixture
def server(gnudi):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client(), aggregation_methods=["mean", "max", "count", "sum"])
    return server


@pytest.fixture
def collector(server, ports, tmp_path):
    """`gnocchi-statsd` beside the server, as a link to the binary."""
    process = start_collector(tmp_path, server, ports)
    yield process
    if process.running():
        process.kill()


def start_collector(directory, server, port):
    config = directory / "statsd.conf"
    config.write_text(CONFIG.format(port=port))
    link = directory / "gnocchi-statsd"
    if not link.is_symlink():
        link.symlink_to(program.binary())
    log = directory / f"statsd-{len(list(directory.glob('statsd-*.log')))}.log"
    process = Process([link, "--config-file", config, "--endpoint", f"http://127.0.0.1:{server.port}"], log)
    # The log begins with the configuration's path, which has the name of the test.
    process.wait_ready(lambda: "receiving statsd's datagrams" in process.log(), SOON_S)
    return process


def send_until(send, arrived, log):
    """Calls `send` with a number, from 0, and again with the next one each `AGAIN_S`, until `arrived` answers something true for one of
    the numbers, which is returned. A failure shows the `log`."""
    numbers, again_at = [], time.monotonic()

    def found():
        nonlocal again_at
        if time.monotonic() >= again_at:
            numbers.append(len(numbers))
            send(numbers[-1])
            again_at = time.monotonic() + AGAIN_S
        return next((answer for answer in map(arrived, numbers) if answer), None)

    try:
        return wait_until(found, SOON_S, "what the datagrams say")
    except TimeoutError as error:
        raise AssertionError(f"{error}; sent {len(numbers)} times\n{log()[-4000:]}") from None


def send_all(port, prefix):
    client = statsd.StatsClient("127.0.0.1", port, prefix=prefix)
    client.incr("hits", 3)
    client.incr("hits")
    client.decr("hits", 2)
    for duration in (10, 20, 30):
        client.timing("latency", duration)
    client.gauge("level", 100)
    client.gauge("level", -7, delta=True)
    client.gauge("level", 2, delta=True)
    for user in ("ann", "bob", "ann"):
        client.set("users", user)
    with client.pipeline() as pipe:
        pipe.incr("in.one.datagram", 5)
        pipe.gauge("also/here", 1.5)


# By the metric's name and the method.
EXPECTED = {
    ("hits|c", "mean"): [2.0],
    ("latency|ms", "mean"): [20.0],
    ("latency|ms", "max"): [30.0],
    ("latency|ms", "count"): [3.0],
    ("level|g", "mean"): [95.0],
    ("users|s", "mean"): [2.0],
    ("in.one.datagram|c", "mean"): [5.0],
    ("also_here|g", "mean"): [1.5],
}


def test_a_real_client_reaches_the_store(server, collector, ports, tmp_path):
    client = server.client()

    def arrived(number):
        metrics = metrics_of(client, "generic", RESOURCE)
        names = {name: metrics.get(f"app{number}.{name}") for name, _ in EXPECTED}
        if None in names.values() or any(values(client, names[name], method) != expected for (name, method), expected in EXPECTED.items()):
            return None
        return names

    names = send_until(lambda number: send_all(ports, f"app{number}"), arrived, collector.log)
    assert client.get(f"/v1/metric/{names['hits|c']}").expect(200).json()["creator"] == "statsd-user"
    # What comes before the end is flushed at the end, unless that takes longer than a collector waits.
    for number in range(LAST_WORDS_MAX):
        if number > 0:
            collector = start_collector(tmp_path, server, ports)
        statsd.StatsClient("127.0.0.1", ports).incr(f"last.words{number}")
        assert collector.terminate() == 0
        if f"last.words{number}|c" in metrics_of(client, "generic", RESOURCE):
            break
    else:
        raise AssertionError(f"the last words are missing\n{collector.log()}")


def test_within_serve(gnudi, ports):
    config = CONFIG.format(port=ports).replace(f"resource_id = {RESOURCE}\n", "") + "archive_policy_name = high\n"
    server = gnudi(config=config, arguments=["--with", "statsd"])
    client = server.client("statsd-user")

    def arrived(number):
        metrics = metrics_of(client, "generic", "statsd")
        names = [metrics.get(f"app{number}.{name}") for name, _ in EXPECTED]
        # Another policy, with buckets of a second, a minute and an hour.
        return None not in names and {point[2] for point in points(client, metrics[f"app{number}.hits|c"])} == {2.0}

    send_until(lambda number: send_all(ports, f"app{number}"), arrived, server.log)
    for number in range(LAST_WORDS_MAX):
        statsd.StatsClient("127.0.0.1", ports).incr(f"last.words{number}")
        assert server.stop() == 0
        server.start()
        if f"last.words{number}|c" in metrics_of(server.client("statsd-user"), "generic", "statsd"):
            break
    else:
        raise AssertionError(f"the last words are missing\n{server.log()}")


def test_malformed_datagrams_cost_nothing_else(server, collector, ports):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for datagram in (b"", b"\n", b"\xff\xfe", b"x" * 9000, b"a:1", b"a|c", b"a:x|c", b"a:1|c|@-7", b"a:1|zz",
                         b"|c", b"a:nan|g", b"a:1|c|@0.5|#tag", b"a:b:c:d", b"bad\nok:1|c\nbad:2"):
            sender.sendto(datagram, ("127.0.0.1", ports))
    metrics = wait_for_metrics(server.client(), "generic", RESOURCE, ["ok|c"])
    assert set(metrics) == {"ok|c"}
    wait_until(lambda: "values were dropped" in collector.log(), SOON_S, "a line in the log")
    assert collector.running()


def read_by_gnocchi(datagrams):
    """{metric: value} of Gnocchi's own statsd for one flush, whose stores are left out."""
    stats = object.__new__(gnocchis.Stats)
    stats.gauges, stats.counters, stats.times = {}, {}, {}
    for datagram in datagrams:
        # asyncio logs what it raises.
        with contextlib.suppress(Exception):
            gnocchis.StatsdServer(stats).datagram_received(datagram, None)
    kinds = (stats.gauges, stats.counters, stats.times)
    return {name: measure.value for kind in kinds for name, measure in kind.items()}


def read_by_gnudi(server, port, datagrams):
    """The same of gnudi. The last datagram is the metric `last|g`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for datagram in (*datagrams, b"last:1|g"):
            sender.sendto(datagram, ("127.0.0.1", port))
    metrics = wait_for_metrics(server.client(), "generic", RESOURCE, ["last|g"])
    wait_for_values(server.client(), metrics["last|g"], [1.0])
    metrics = metrics_of(server.client(), "generic", RESOURCE)
    measured = lambda metric: wait_until(lambda: values(server.client(), metric), SOON_S, "a measure")[0]
    return {name: measured(metric) for name, metric in metrics.items() if name != "last|g"}


def test_lines_are_read_as_by_gnocchi(server, collector, ports):
    datagrams = (b"underscores:1_0|c", "script:\u0661\u0662|g".encode(), b"blanks: 7 |c|@ 0.5 ", b"above:3|c|@2.5", b" before:1|c",
                 b":1|c", b"exponent:1e3|ms", b"point:.5|g", b"signed:-2|c|@0.1", "n\u00e4me:1|c".encode(), b"double:1__0|c", b"hex:0x1|c",
                 b"zero:1|c|@0", b"kind:1|C", b"rate:1|c|", b"parts:1|c|@1|x", b"a|b:1|c", b"separator:\x1f1|c")
    read = read_by_gnudi(server, ports, datagrams)
    assert read == read_by_gnocchi(datagrams)
    assert (read["above|c"], read["|c"], read[" before|c"]) == (3 * (1 / 2.5), 1.0, 1.0)


def test_a_line_costs_no_other(server, collector, ports):
    datagrams = (b"a:1|c\nb:x|c\nc:1|c", b"d:1|c\nb:1|c|@x\ne:1|c", b"f:1|c\n\xff:1|c\ng:1|c", b"h:1|c\r\ni:1|c\r\n")
    assert set(read_by_gnocchi(datagrams)) == {"a|c", "d|c"}
    assert read_by_gnudi(server, ports, datagrams) == dict.fromkeys(("a|c", "c|c", "d|c", "e|c", "f|c", "g|c", "h|c", "i|c"), 1.0)


def test_what_is_no_number(server, collector, ports):
    datagrams = (b"a:1|c\na:nan|c\na:2|c", b"b:inf|g", b"c:1|c|@-2", b"d:1|c|@inf", b"e:1|c|x0.5")
    expected = read_by_gnocchi(datagrams)
    assert math.isnan(expected.pop("a|c"))
    assert expected == {"b|g": math.inf, "c|c": -0.5, "d|c": 0.0, "e|c": 2.0}
    assert read_by_gnudi(server, ports, datagrams) == {"a|c": 3.0}


def test_measures_wait_for_a_store_that_is_away(gnudi, collector, server, ports):
    statsd.StatsClient("127.0.0.1", ports).gauge("before", 1)
    wait_for_metrics(server.client(), "generic", RESOURCE, ["before|g"])
    port = server.port
    assert server.stop() == 0
    statsd.StatsClient("127.0.0.1", ports).gauge("meanwhile", 2)
    wait_until(lambda: "cannot be stored" in collector.log(), SOON_S, "a line in the log")
    server.port = port
    server.process = Process(server.command(), server.log_path)
    server.process.wait_ready(server.healthy, SOON_S)
    metrics = wait_for_metrics(server.client(), "generic", RESOURCE, ["meanwhile|g"])
    # The metric is there a moment before its measures.
    wait_for_values(server.client(), metrics["meanwhile|g"], [2.0])


class Anything(HttpStandIn):
    def respond(self, method, path, headers, body):
        return 200, {}, {}


@pytest.mark.parametrize("command", ["statsd", "amqpd"])
def test_a_server_that_is_away_is_told_at_once(tmp_path, ports, command):
    """Without any measures: once, and once that it is back."""
    port, config = free_port(), tmp_path / "gnocchi.conf"
    config.write_text(f"[statsd]\nport = {ports}\nflush_delay = 0.1\n[amqp1d]\nurl = 127.0.0.1:9/x\nflush_delay = 0.1\n")
    process = Process([program.binary(), command, "--config-file", config, "--endpoint", f"http://127.0.0.1:{port}"],
                      tmp_path / "log")
    try:
        wait_until(lambda: "measures cannot be stored" in process.log(), SOON_S, "a line in the log")
        time.sleep(0.5)
        assert process.log().count("measures cannot be stored") == 1, process.log()
        with Anything(port):
            wait_until(lambda: "the store responds again" in process.log(), SOON_S, "another line in the log")
    finally:
        process.kill()


def test_a_metric_without_a_policy_costs_no_other(gnudi, tmp_path, ports):
    server = gnudi(arguments=["--skip-archive-policies-creation", "--with", "statsd"],
                   config=CONFIG.format(port=ports))
    create_policy_with_rule(server.client(), pattern="good*")
    client = statsd.StatsClient("127.0.0.1", ports)
    with client.pipeline() as pipe:
        pipe.incr("good.one")
        pipe.incr("bad.one")
        pipe.incr("good.two")
    metrics = wait_for_metrics(server.client(), "generic", RESOURCE, ["good.one|c", "good.two|c"])
    assert len(metrics) == 2
    wait_until(lambda: "refuses a metric" in server.log(), SOON_S, "a line in the log")


def test_unusable_options_are_told(tmp_path):
    config = tmp_path / "gnocchi.conf"
    for text, place in (("flush_delay = 0", "flush_delay"), ("creator = a:b", "creator"), ("port = x", "port"),
                        ("host = 192.0.2.1", "192.0.2.1")):
        config.write_text(f"[statsd]\nport = {free_port()}\n{text}\n" if "port" not in text
                          else f"[statsd]\n{text}\n")
        done = program.run("statsd", "--config-file", config)
        assert done.returncode == 1 and place in done.stderr, done.stderr

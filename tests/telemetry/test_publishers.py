"""Publishers, compared with Ceilometer's: the same samples and events give the same bytes."""

import base64
import json
import random

import pytest

from support.certificates import Certificates
from telemetry import receivers, values

ROUNDS = 20
SECRET = "a secret"
HOST = "a-host"
# Names of resources that a path cannot hold as they are: the group that Ceilometer pushes to, and gnudi's.
NO_SEGMENTS = {
    "": ("/resource_id/", "/resource_id@base64/="),
    ".": ("/resource_id/", "/resource_id@base64/Lg=="),
    "..": ("/", "/resource_id@base64/Li4="),
    "a/b": ("/resource_id/a%2Fb", "/resource_id@base64/YS9i"),
}


#: Both publishers send a request again that is not answered in 5 s: on a busy machine the receiver would have it twice.
PATIENT = "timeout=120"


@pytest.fixture
def requests():
    with receivers.Requests() as server:
        yield server


def samples_line(url, samples):
    return {"publish": url, "samples": samples, "secret": SECRET, "host": HOST}


def events_line(url, events):
    return {"publish": url, "events": events, "secret": SECRET, "host": HOST}


def some(rng, make, most=6):
    return [make(rng) for _ in range(rng.randrange(1, most))]


def test_udp(ours, theirs, seed, rounds):
    rng = random.Random(seed)
    for host in ["127.0.0.1", "[::1]"]:
        with receivers.datagrams(host.strip("[]")) as (port, received):
            for _ in range(rounds):
                samples = some(rng, values.sample)
                line = samples_line(f"udp://{host}:{port}", samples)
                assert theirs.ask(line) is None
                expected = [received() for _ in samples]
                assert ours.ask(line) is None
                assert [received() for _ in samples] == expected


def test_tcp(ours, theirs, seed, rounds):
    rng = random.Random(seed)
    for _ in range(rounds):
        line = samples_line("", some(rng, values.sample))
        got = []
        for side in [theirs, ours]:
            with receivers.stream() as (port, received):
                line["publish"] = f"tcp://127.0.0.1:{port}"
                assert side.ask(line) is None
                got.append([received() for _ in line["samples"]])
        assert got[1] == got[0]


@pytest.mark.parametrize("options", ["", "?json", "?json&max_bytes=3000&backup_count=3", "?max_bytes=2000&backup_count=2"])
def test_file(ours, theirs, seed, rounds, tmp_path, options):
    rng = random.Random(seed)
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    for _ in range(rounds):
        samples, events = some(rng, values.sample), some(rng, values.event)
        for side, folder in zip([theirs, ours], folders):
            assert side.ask(samples_line(f"file://{folder}/samples{options}", samples)) is None
            assert side.ask(events_line(f"file://{folder}/events{options}", events)) is None
    contents = [{path.name: path.read_text() for path in folder.iterdir()} for folder in folders]
    assert sorted(contents[0]) == sorted(contents[1])
    assert len(contents[0]) > 2 or "max_bytes" not in options
    for name, text in contents[0].items():
        assert contents[1][name].splitlines() == text.splitlines()


@pytest.mark.parametrize("options", [f"?{PATIENT}", f"?batch=False&{PATIENT}", "?timeout=90&max_retries=3&verify_ssl=False&q=a+b&q=c&empty="])
def test_http(ours, theirs, seed, rounds, requests, options):
    rng = random.Random(seed)
    url = f"http://user:pass@127.0.0.1:{requests.port}/path{options}"
    for _ in range(rounds):
        for line in [samples_line(url, some(rng, values.sample)), events_line(url, some(rng, values.event))]:
            expected = sent_by_both(ours, theirs, requests, line)
            assert expected[0][2]["authorization"] == "Basic " + base64.b64encode(b"user:pass").decode()


def sent_by_both(ours, theirs, receiver, line):
    """The requests that a line makes Ceilometer send, which gnudi sends too."""
    assert theirs.ask(line) is None
    expected = receiver.take()
    assert ours.ask(line) is None
    assert [told(request) for request in receiver.take()] == [told(request) for request in expected]
    return expected


def told(request):
    """What counts of a request."""
    _, path, headers, body = request
    return path, headers["content-type"], headers.get("authorization"), body


def test_https_shows_a_certificate(ours, theirs, tmp_path):
    made = Certificates(tmp_path / "tls")
    with receivers.Requests(made.mutual()) as server:
        url = f"https://127.0.0.1:{server.port}/x?max_retries=0&{PATIENT}&verify_ssl={made.root}"
        samples = [values.sample(random.Random(2))]
        line = samples_line(f"{url}&clientcert={made.certificate}&clientkey={made.key}", samples)
        sent_by_both(ours, theirs, server, line)
        # Whom the server does not know is not let in, and is given up as the options say.
        assert ours.ask(samples_line(url, samples)) is None
        assert not server.take()
        assert "nowhere.pem" in ours.ask(samples_line(f"{url}&clientcert=/nowhere.pem", samples))["left_out"]


def test_http_takes_payloads_alone(ours, theirs, seed, requests):
    events = some(random.Random(seed), values.event, 30)
    events[0]["raw"] = {"payload": {"a": [1]}}
    line = events_line(f"http://127.0.0.1:{requests.port}/?raw_only=true&{PATIENT}", events)
    sent_by_both(ours, theirs, requests, line)


def test_http_waits_for_an_endpoint_in_trouble(ours, requests):
    line = samples_line(f"http://127.0.0.1:{requests.port}/?{PATIENT}", [values.sample(random.Random(1))])
    requests.statuses = [503, 500, 429]
    assert ours.ask(line) is None
    assert [status for status, *_ in requests.take()] == [503, 500, 429, 202]
    requests.statuses = [400]
    assert "refuses: 400" in ours.ask(line)
    requests.take()
    # Who names a number of tries wants no more.
    requests.statuses = [503] * 3
    line["publish"] += "&max_retries=1"
    assert ours.ask(line) is None
    assert [status for status, *_ in requests.take()] == [503, 503]


@pytest.mark.parametrize("url", [f"http://127.0.0.1:%s/?batch=False&{PATIENT}", f"prometheus://127.0.0.1:%s/metrics/job/j?{PATIENT}"])
def test_what_is_refused_keeps_nothing_else_back(ours, requests, url):
    # More than are pushed at a time.
    samples = [values.sample(random.Random(1), resource_id=f"r{number}") for number in range(40)]
    requests.statuses = [400]
    assert "refuses: 400" in ours.ask(samples_line(url % requests.port, samples))
    assert sorted(status for status, *_ in requests.take()) == [202] * 39 + [400]


@pytest.mark.parametrize("path", ["/metrics/job/ceilometer", "/metrics/job/ceilometer/region/one"])
def test_prometheus(ours, theirs, seed, rounds, requests, path):
    rng = random.Random(seed)
    for _ in range(rounds):
        # A series twice in a push is refused by the gateway; the names of NO_SEGMENTS have a test of their own.
        names = rng.sample(values.METERS, 3)
        name = values.text(rng, "ab c.é%")
        resources = [name if name not in NO_SEGMENTS else "r", values.identifier(rng)]
        samples = [
            values.sample(
                rng, name=name, resource_id=resource, volume=values.number(rng), user_id=None, project_id=values.identifier(rng)
            )
            for name in names for resource in resources
        ]
        line = samples_line(f"prometheus://127.0.0.1:{requests.port}{path}?{PATIENT}", samples)
        assert theirs.ask(line) is None
        expected = sorted((path, headers["content-type"], body) for _, path, headers, body in requests.take())
        assert ours.ask(line) is None
        assert sorted((path, headers["content-type"], body) for _, path, headers, body in requests.take()) == expected


def test_resources_whose_names_are_no_segments_of_a_path(ours, theirs, requests):
    """Ceilometer pushes them to other groups, whose series are then replaced; gnudi each to its own, as the gateway defines."""
    for name, (group_of_theirs, group_of_ours) in NO_SEGMENTS.items():
        sample = values.sample(random.Random(3), resource_id=name)
        line = samples_line(f"prometheus://127.0.0.1:{requests.port}/metrics/job/ceilometer", [sample])
        for side, group in [(theirs, group_of_theirs), (ours, group_of_ours)]:
            assert side.ask(line) is None
            [(_, path, _, _)] = requests.take()
            assert (name, path) == (name, f"/metrics/job/ceilometer{group}")


def test_opentelemetry(ours, theirs, seed, rounds, requests):
    """Theirs has the same points in a form of its own: a request for each sample, `counter` for `sum`, seconds for nanoseconds."""
    rng = random.Random(seed)
    url = f"opentelemetryhttp://127.0.0.1:{requests.port}/v1/metrics?{PATIENT}"
    for _ in range(rounds):
        samples = [values.sample(rng, volume=rng.uniform(-100, 100)) for _ in range(rng.randrange(1, 6))]
        line = samples_line(url, samples)
        assert theirs.ask(line) is None
        expected = [point for _, _, _, body in requests.take() for point in points(json.loads(body))]
        assert ours.ask(line) is None
        [(_, path, headers, body)] = requests.take()
        assert (path, headers["content-type"]) == ("/v1/metrics", "application/json")
        assert sorted(points(json.loads(body)), key=repr) == sorted(expected, key=repr)


def points(request):
    """Metric, whether it counts, time in seconds, value and attributes of each point, in either form."""
    is_ours = "resourceMetrics" in request
    [resource] = request["resourceMetrics" if is_ours else "resource_metrics"]
    [scope] = resource["scopeMetrics" if is_ours else "scope_metrics"]
    assert scope["scope"] == {"name": "ceilometer", "version": "v1"}
    for metric in scope["metrics"]:
        is_sum = "sum" in metric or "counter" in metric
        data = metric.get("sum") or metric.get("counter") or metric["gauge"]
        for point in data["dataPoints" if is_ours else "data_points"]:
            seconds = int(point["timeUnixNano"]) // 10**9 if is_ours else point["time_unix_nano"]
            value = point["asDouble" if is_ours else "as_double"]
            attributes = {each["key"]: each["value"]["stringValue" if is_ours else "string_value"] for each in point["attributes"]}
            attributes = {key: text for key, text in attributes.items() if text is not None}
            yield metric["name"], metric["description"], metric["unit"], is_sum, seconds, value, sorted(attributes.items())


@pytest.mark.parametrize("url, reason", [
    ("kafka://h", "RabbitMQ"),
    ("nonsense://user:secret@host", "no such kind of publisher"),
    ("file://", "names no file"),
    ("file:///nowhere/at/all", "/nowhere/at/all"),
    ("file:///tmp/x?max_bytes=a&backup_count=1", "max_bytes"),
    ("http://", "names no host"),
    ("http://host:port/", "port"),
    ("udp://", "names no host"),
    ("notifier://h/?driver=kafka", "rabbit"),
    ("notifier://?max_queue_length=x&policy=queue", "max_queue_length"),
])
def test_what_cannot_be_opened_is_left_out_and_told(ours, url, reason):
    left_out = ours.ask(samples_line(url, []))["left_out"]
    assert reason in left_out and "secret" not in left_out


@pytest.mark.parametrize("scheme", ["udp", "tcp", "prometheus", "opentelemetryhttp"])
def test_what_takes_no_events_says_so(ours, scheme):
    assert "publishes samples only" in ours.ask(events_line(f"{scheme}://127.0.0.1:1/x", []))["left_out"]

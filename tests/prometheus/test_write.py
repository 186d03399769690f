"""POST /api/v1/write: written samples are read back; rejected ones are reported and do not affect the others."""

import calendar
import time

import pytest

from inputs.remote_write import field, label, sample, series, snappy, varint
from inputs.stored import metrics_of
from inputs.test_prometheus import ask
from prometheus.messages import STALE, VERSION_1, VERSION_2, number, request_2
from support.gnudi import Gnudi
from support.process import Process, free_port, required, wait_until

WRITE = "/api/v1/write"
START = 1_700_000_000_000
UP = (label("__name__", "up"), label("job", "j"), label("instance", "i"))
WRITTEN = ["x-prometheus-remote-write-samples-written", "x-prometheus-remote-write-histograms-written",
           "x-prometheus-remote-write-exemplars-written"]


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path / "data") as server:
        yield server


def write(server, body, headers=VERSION_1, user="admin"):
    return server.client().as_user(user).post(WRITE, snappy(body), headers=headers)


def raw(server, resource, name):
    """[(ms, value)] of a metric's raw points."""
    metric = metrics_of(server.client(), "prometheus", resource)[name]
    path = f"/v1/metric/{metric}/measures?refresh=true&aggregation=raw"
    return [(time, value) for time, _, value in server.client().get(path).expect(200).json()]


def test_both_versions_are_read_back(server):
    body = series(*UP, sample(1.5, START), sample(2.5, START + 1)) + series(*UP, label("b", "x/y"), sample(-1.0, START))
    answer = write(server, body).expect(204)
    assert not set(WRITTEN) & set(answer.headers)
    labels = [("__name__", "up"), ("instance", "i"), ("job", "j")]
    version_2 = request_2((labels, [(3.5, START + 2)], b""), ([*labels, ("a", "é")], [(7.0, START)], b""))
    for _ in range(2):
        answer = write(server, version_2, VERSION_2).expect(204)
        assert [answer.headers[name] for name in WRITTEN] == ["2", "0", "0"]
    assert raw(server, "j@i", "up") == [("2023-11-14T22:13:20.000+00:00", 1.5), ("2023-11-14T22:13:20.001+00:00", 2.5),
                                        ("2023-11-14T22:13:20.002+00:00", 3.5)]
    assert [value for _, value in raw(server, "j@i", 'up{a="é"}')] == [7.0]
    assert [value for _, value in raw(server, "j@i", 'up{b="x\\x2fy"}')] == [-1.0]
    metric = metrics_of(server.client(), "prometheus", "j@i")["up"]
    shown = server.client().get(f"/v1/metric/{metric}").expect(200).json()
    assert shown["archive_policy"]["name"] == "raw"


def test_late_samples_repeated_series_and_markers(server):
    """Samples come in any order and in several parts; the end of a series is kept where the series is known."""
    labels = [label("__name__", "late"), label("job", "late")]
    write(server, series(*labels, sample(2.0, START + 2)) + series(*labels, sample(3.0, START + 3))).expect(204)
    write(server, series(*labels, sample(1.0, START + 1)) + series(*labels, sample(STALE, START + 4))
          + series(label("__name__", "never"), label("job", "late"), sample(STALE, START))).expect(204)
    values = [value for _, value in raw(server, "late@none", "late")]
    assert values[:3] == [1.0, 2.0, 3.0] and len(values) == 4 and values[3] != values[3]
    assert set(metrics_of(server.client(), "prometheus", "late@none")) == {"late"}


def test_gnocchis_route_keeps_the_end_of_a_series_after_a_restart(gnudi):
    server = gnudi()
    rule = {"name": "all", "metric_pattern": "*", "archive_policy_name": "raw"}
    server.client().post("/v1/archive_policy_rule", rule).expect(201)

    def send(value, time):
        body = series(label("__name__", "ended"), label("job", "ended"), sample(value, time))
        server.client().post("/v1/prometheus/write", snappy(body), headers=VERSION_1).expect(202)
    send(1.0, START)
    server.stop()
    server.start()
    send(STALE, START + 1)
    values = [value for _, value in raw(server, "ended@none", "ended")]
    assert values[0] == 1.0 and len(values) == 2


def test_a_job_called_none_is_another_than_no_job(server):
    write(server, series(label("__name__", "m"), sample(1.0, START))
          + series(label("__name__", "m"), label("job", "none"), sample(2.0, START))).expect(204)
    assert [value for _, value in raw(server, "none@none", "m")] == [1.0]
    assert [value for _, value in raw(server, "none@none", 'm{job="none"}')] == [2.0]


def test_what_is_said_of_a_metric_is_shown(server):
    said = field(3, number(1, 1) + field(2, b"told_total") + field(4, b"a \"text\"") + field(5, b"s"))
    write(server, said).expect(204)
    symbols = [("__name__", "spread_bucket"), ("le", "1"), ("job", "said")]
    # Of the symbols, in their order: the empty text, those of the labels, and one that is put behind them.
    help_text = field(5, number(1, 3) + number(3, 7))
    write(server, request_2((symbols, [(1.0, START)], help_text)) + field(4, b"of times"), VERSION_2).expect(204)
    metadata = lambda name: server.client().get(f"/api/v1/metadata?metric={name}").expect(200).json()["data"]
    assert metadata("told_total") == {"told_total": [{"type": "counter", "help": 'a "text"', "unit": "s"}]}
    assert metadata("spread") == {"spread": [{"type": "histogram", "help": "of times", "unit": ""}]}
    # It may change while the series is known.
    write(server, request_2((symbols, [(2.0, START + 1)], help_text)) + field(4, b"of all times"), VERSION_2).expect(204)
    assert metadata("spread") == {"spread": [{"type": "histogram", "help": "of all times", "unit": ""}]}
    # And back again.
    write(server, request_2((symbols, [(3.0, START + 2)], help_text)) + field(4, b"of times"), VERSION_2).expect(204)
    assert metadata("spread") == {"spread": [{"type": "histogram", "help": "of times", "unit": ""}]}
    assert "spread_bucket" not in server.client().get("/api/v1/metadata").expect(200).json()["data"]


def test_a_metric_that_was_deleted_is_made_again(server):
    body = series(label("__name__", "gone"), label("job", "gone"), sample(1.0, START))
    for _ in range(3):
        write(server, body).expect(204)
        metric = metrics_of(server.client(), "prometheus", "gone@none")["gone"]
        assert [value for _, value in raw(server, "gone@none", "gone")] == [1.0]
        server.client().delete(f"/v1/metric/{metric}").expect(204)


def test_a_metric_that_lost_its_place_is_made_again(server):
    """A metric that is detached from its resource, or renamed, is another series from then on, though it is known."""
    def write_one(value, time):
        write(server, series(label("__name__", "left"), label("job", "left"), sample(value, time))).expect(204)
        return metrics_of(server.client(), "prometheus", "left@none")["left"]

    def change(metrics, metric):
        server.client().patch("/v1/resource/prometheus/left@none", {"metrics": metrics}).expect(200)
        # The change has removed it from the cache.
        server.client().get(f"/v1/metric/{metric}").expect(200)

    first = write_one(1.0, START)
    change({}, first)
    second = write_one(2.0, START + 1)
    change({"renamed": second}, second)
    third = write_one(3.0, START + 2)
    assert len({first, second, third}) == 3
    for name, expected in [("left", [3.0]), ("renamed", [2.0])]:
        assert [value for _, value in raw(server, "left@none", name)] == expected


HISTOGRAM = [("__name__", "h"), ("job", "partial")]
GOOD = ([("__name__", "good"), ("job", "partial")], [(1.0, START)], b"")


@pytest.mark.parametrize("bad,text", [
    (([("job", "x")], [(1.0, START)], b""), "no label __name__"),
    (([("__name__", ""), ("job", "x")], [(1.0, START)], b""), "no label __name__"),
    (([], [(1.0, START)], b""), "no label __name__"),
    (([("__name__", "m"), ("", "x")], [(1.0, START)], b""), "a label without a name"),
    (([("__name__", "m"), ("a", "x"), ("a", "y")], [(1.0, START)], b""), 'two labels "a"'),
    (([("__name__", "m")], [(1.0, START)], field(1, b"\x7f")), "odd number of references"),
    (([("__name__", "m")], [(1.0, START)], field(1, b"\x7f\x7f")), "symbol 127"),
    (([("__name__", "m")], [(1.0, -1)], b""), "timestamp -1: m"),
    (([("__name__", "m")], [(1.0, 1 << 62)], b""), "timestamp 4611686018427387904: m"),
    ((HISTOGRAM, [], field(3, number(15, START))), "native histograms are not supported: h{job="),
    ((HISTOGRAM, [], b""), "TimeSeries must contain at least one sample or histogram: h{"),
    # The exemplar is kept.
    ((HISTOGRAM, [], field(4, b"")), "TimeSeries must contain at least one sample or histogram: h{"),
])
def test_what_is_refused_is_told_and_the_rest_is_stored(server, bad, text):
    before = metrics_of(server.client(), "prometheus", "none@none")
    answer = write(server, request_2(bad, GOOD), VERSION_2).expect(400)
    assert answer.headers["content-type"].startswith("text/plain") and text in answer.body.decode(), answer
    exemplars = "1" if bad[2] == field(4, b"") else "0"
    assert [answer.headers[name] for name in WRITTEN] == ["1", "0", exemplars]
    assert [value for _, value in raw(server, "partial@none", "good")] == [1.0]
    assert set(metrics_of(server.client(), "prometheus", "partial@none")) == {"good"}
    assert metrics_of(server.client(), "prometheus", "none@none") == before


def test_version_1_tells_what_it_refuses(server):
    body = series(*UP, sample(9.0, START + 9)) + series(*UP, field(4, b"")) + series(label("job", "x"), sample(1.0, START))
    answer = write(server, body).expect(400)
    assert "native histograms" in answer.body.decode() and "no label __name__" in answer.body.decode()
    assert raw(server, "j@i", "up")[-1][1] == 9.0
    many = b"".join(series(label("job", str(one)), sample(1.0, START)) for one in range(50))
    assert write(server, many).expect(400).body.decode().endswith("and 40 more\n")


def state(client):
    return [client.get(path).expect(200).json() for path in ("/v1/resource_type", "/v1/resource/generic", "/v1/metric")]


BODY = series(*UP, sample(1.0, START))


@pytest.mark.parametrize("body,status", [
    (b"", 400), (b"plain text", 400), (b"{}", 400), (BODY, 400), (snappy(BODY)[:-1], 400), (snappy(BODY) + b"x", 400),
    (b"\xff" * 11, 400), (varint(1 << 31), 413), (varint(65 << 20) + b"\0x", 413), (varint(8) + b"\x01\xff", 400),
    *[(snappy(message), 400) for message in [
        b"text", b"\x0a", b"\x0a\x05", b"\x0b", b"\x08\x01", b"\x07", b"\x2a\x01\x0b", b"\x22\x01\xff", b"\x2a\x03\x0a\x01\xff",
    ]],
])
@pytest.mark.parametrize("headers", [VERSION_1, VERSION_2], ids=["1", "2"])
def test_malformed_bodies_change_nothing(server, headers, body, status):
    client = server.client()
    before = state(client)
    answer = client.post(WRITE, body, headers=headers)
    # What one version does not know, it passes over.
    assert answer.status == status or answer.status == 204, answer
    assert answer.status != 204 or body in (snappy(b"\x2a\x01\x0b"), snappy(b"\x22\x01\xff"), snappy(b"\x2a\x03\x0a\x01\xff"),
                                            snappy(b"\x0a"), snappy(b"\x08\x01")), answer
    assert state(client) == before


@pytest.mark.parametrize("headers", [
    {"Content-Type": "application/json"}, {"Content-Type": "image/png"}, {**VERSION_1, "Content-Encoding": "gzip"},
    {**VERSION_1, "Content-Encoding": "deflate"}, {"Content-Type": "application/x-protobuf;proto=other"},
])
def test_other_content_is_415(server, headers):
    server.client().post(WRITE, snappy(BODY), headers=headers).expect(415)


def test_a_table_of_few_texts_does_not_cost_more_than_its_size(server):
    """A text of a megabyte to which a series refers a hundred times, and as many labels as there are bytes."""
    table = field(4, b"") + field(4, b"x" * (1 << 20))
    body = table + field(5, field(1, b"\x01" * 100) + sample(1.0, START))
    server.client().post(WRITE, snappy(body), headers=VERSION_2).expect(413)
    # Exemplars that all refer to the long text are left out, without a copy of it for each.
    texts = b"".join(field(4, text) for text in (b"", b"__name__", b"m", b"x" * (16 << 20)))
    body = texts + field(5, field(1, b"\x01\x02") + sample(1.0, START) + field(4, field(1, b"\x03\x03")) * 100_000)
    answer = write(server, body, VERSION_2).expect(204)
    assert [answer.headers[name] for name in WRITTEN] == ["1", "0", "0"]
    body = field(4, b"") + field(5, field(1, b"\x00" * 1_000_000) + sample(1.0, START))
    assert "more than 1000 labels" in write(server, body, VERSION_2).expect(400).body.decode()


def test_faults_cost_no_more_than_they_tell(server):
    """A series with a label of a megabyte, which no text repeats, and 100,000 samples that are all refused."""
    body = series(label("__name__", "m"), label("a", "x" * (1 << 20)), sample(1.0, -1) * 100_000)
    answer = write(server, body).expect(400)
    assert answer.body.endswith(b"and 99990 more\n") and len(answer.body) < 10_000


def test_the_policy_is_the_rules_where_the_option_is_empty(gnudi):
    server = gnudi(config="[api]\nprometheus_archive_policy =\n")
    write(server, BODY).expect(204)
    metric = metrics_of(server.client(), "prometheus", "j@i")["up"]
    assert server.client().get(f"/v1/metric/{metric}").expect(200).json()["archive_policy"]["name"] == "low"


def test_creators_have_their_own_series(server):
    """Who writes first makes the type, which takes an administrator; then everybody has series of their own."""
    write(server, BODY).expect(204)
    other = series(*UP, sample(42.0, START + 50))
    for _ in range(2):
        write(server, other, user="other").expect(204)
    assert 42.0 not in [value for _, value in raw(server, "j@i", "up")]
    metrics = server.client().as_user("other").get("/v1/metric").expect(200).json()
    assert {"up"} <= {metric["name"] for metric in metrics if metric["creator"] == "other"}


CONFIG = """\
global: {{scrape_interval: 500ms}}
scrape_configs: [{{job_name: own, static_configs: [{{targets: ["127.0.0.1:{own}"]}}]}}]
remote_write:
  - url: http://127.0.0.1:{gnudi}/api/v1/write
    basic_auth: {{username: admin, password: any}}
    queue_config: {{batch_send_deadline: 200ms}}
    metadata_config: {{send_interval: 1s}}
"""


def test_a_real_prometheus_writes_every_sample(server, tmp_path):
    program = required("prometheus")
    port, config = free_port(), tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(own=port, gnudi=server.port))
    process = Process([program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
                       f"--web.listen-address=127.0.0.1:{port}"], tmp_path / "prometheus.log")
    process.port = port
    resource, query = f"own@127.0.0.1:{port}", 'scrape_samples_scraped{job="own"}[1h]'
    try:
        wait_until(lambda: "scrape_samples_scraped" in metrics_of(server.client(), "prometheus", resource), 60, "metrics")
        wait_until(lambda: len(raw(server, resource, "scrape_samples_scraped")) >= 4, 60, "two seconds of samples")
        stored = {in_ms(at): value for at, value in raw(server, resource, "scrape_samples_scraped")}
        [(_, own)] = ask(process, query)
    finally:
        process.kill()
    assert stored == {round(at * 1000): float(value) for at, value in own[:len(stored)]}


def in_ms(text):
    whole, _, rest = text.removesuffix("+00:00").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int((rest or "0").ljust(3, "0")[:3])

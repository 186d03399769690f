"""Bodies and arguments that the routes of InfluxDB and Prometheus refuse: none gets 500, none changes anything."""

import gzip
import struct

import pytest
from inputs.remote_write import field, label, sample, series, snappy, varint
from support.http import create_policy_with_rule

T = "1510581804179554816"
GOOD = series(label("__name__", "up"), label("job", "j"), label("instance", "i"), sample(1.0, 1700000000000))
WRITE, QUERY, REMOTE = "/v1/influxdb/write?db=db", "/v1/influxdb/query", "/v1/prometheus/write"

CASES = [
    # Lines.
    *[(WRITE, lines.encode(), 400) for lines in [
        "m", "m,host=h", "m,host=h ", "m,host=h f", "m,host=h f=", "m,host=h =1", ",host=h f=1", "m,host= f=1",
        "m,=h f=1", "m,host=h f=x", "m,host=h f=1 x", "m,host=h f=1 -5", "m,host=h f=1 1.5",
        f"m,host=h f=1 {T} {T}", "m,host=h f=1 99999999999999999999", "m,host=h f=\"x", "m,host=h f=nan",
        "m,host=h f=1,", "m f=1", "m,other=h f=1", f"m,host=h f=1 {T}\nm,host=h f=", "m,host=h f=1\0 1",
        "m\0,host=h f=1", "m,host=h\0 f=1", "m,host=h f=1i5", "{}", "[1, 2]", "<xml/>",
    ]],
    (WRITE, b"m,host=\xff f=1", 400),
    (WRITE, bytes(range(256)), 400),
    (WRITE + "&precision=d", b"m,host=h f=1 5", 400),
    (WRITE + "&precision=h", f"m,host=h f=1 {T}".encode(), 400),
    (WRITE + "&precision=s&precision=s", b"m,host=h f=1 5", 400),
    (WRITE + "&db=other", b"m,host=h f=1 5", 400),
    ("/v1/influxdb/write?db=nothing", b"m,host=h f=1 5", 404),
    ("/v1/influxdb/write?db=", b"m,host=h f=1 5", 404),
    ("/v1/influxdb/write", b"m,host=h f=1 5", 404),
    # Queries.
    (QUERY + "?q=", b"", 501),
    (QUERY + "?q=select", b"", 501),
    (QUERY + "?q=create+database", b"", 501),
    (QUERY + "?q=create+database+%22%22", b"", 501),
    (QUERY + "?q=create+database+%22a%2Fb%22", b"", 400),
    (QUERY + "?q=create+database+%22" + "x" * 300 + "%22", b"", 400),
    (QUERY + "?q=create+database+a&q=create+database+b", b"", 400),
    # Remote writes: the compression.
    (REMOTE, b"", 400),
    (REMOTE, b"plain text", 400),
    (REMOTE, b"{}", 400),
    (REMOTE, GOOD, 400),
    (REMOTE, snappy(GOOD)[:-1], 400),
    (REMOTE, snappy(GOOD) + b"x", 400),
    (REMOTE, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 400),
    (REMOTE, varint(1 << 31), 413),
    (REMOTE, varint(65 << 20) + b"\0x", 413),
    (REMOTE, varint(60 << 20) + b"\0x", 400),
    (REMOTE, varint(8) + b"\x01\xff", 400),
    # Remote writes: the message.
    *[(REMOTE, snappy(message), 400) for message in [
        b"text", b"\x0a", b"\x0a\x05", b"\x0b", b"\x08\x01", b"\x07", b"\xff" * 11, b"\x0a\xff\xff\xff\xff\x0f",
        GOOD[:-1], GOOD + b"\x0a", GOOD + b"\x00\x00",
        series(label("job", "j"), sample(1.0, 1)),
        series(label("__name__", ""), sample(1.0, 1)),
        series(sample(1.0, 1)),
        series(label("__name__", b"\xff"), sample(1.0, 1)),
        series(label("__name__", "x"), field(2, b"\x09\0\0")),
        series(label("__name__", "x"), field(2, b"\x0a\x01x")),
        series(label("__name__", "x"), b"\x10\x01"),
        series(label("__name__", "x"), sample(1.0, -1)),
        series(label("__name__", "x"), sample(1.0, 1 << 62)),
        GOOD + series(label("__name__", "x"), sample(1.0, -1)),
    ]],
]


@pytest.fixture(scope="module")
def server(module_path):
    from support.gnudi import Gnudi
    with Gnudi(module_path, arguments=["--skip-archive-policies-creation"]) as server:
        create_policy_with_rule(server.client())
        server.client().post("/v1/influxdb/query?q=create+database+db").expect(204)
        yield server


def state(client):
    return [client.get(path).expect(200).json()
            for path in ("/v1/resource_type", "/v1/resource/generic", "/v1/metric", "/v1/status")]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_refused_and_nothing_changed(server, number):
    path, body, status = CASES[number]
    client = server.client()
    before = state(client)
    answer = client.post(path, body, headers={"Content-Type": "application/octet-stream"})
    assert answer.status == status, f"{path} {body[:80]!r}: {answer}"
    assert answer.json()["code"] == status
    assert state(client) == before


def test_nobody_and_those_who_may_not(server):
    client = server.client()
    before = state(client)
    anybody, joe = server.client(None), server.client("joe")
    assert anybody.post(WRITE, b"m,host=h f=1").status == 401
    assert anybody.post(REMOTE, snappy(GOOD)).status == 401
    # The type is for administrators to make.
    assert joe.post(REMOTE, snappy(GOOD)).status == 403
    assert joe.post(QUERY + "?q=create+database+x").status == 403
    assert state(client) == before
    version_2 = {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
    assert client.post(REMOTE, snappy(GOOD), headers=version_2).status == 415
    assert state(client) == before


@pytest.mark.parametrize(("encoding", "body", "status"), [
    ("gzip", b"m,host=h f=1", 400),
    ("gzip", b"", 400),
    ("gzip", gzip.compress(b"m,host=h f=1")[:-1], 400),
    ("gzip", gzip.compress(b"m,host=h f="), 400),
    ("gzip", gzip.compress(bytes(70 << 20)), 413),
    ("deflate", b"m,host=h f=1", 415),
    ("gzip, gzip", b"m,host=h f=1", 415),
])
def test_compressed_bodies_that_are_refused(server, encoding, body, status):
    client = server.client()
    before = state(client)
    answer = client.post(WRITE, body, headers={"Content-Encoding": encoding})
    assert (answer.status, answer.json()["code"]) == (status, status), answer
    assert state(client) == before


def test_what_is_only_odd_is_taken(server):
    client = server.client()
    for lines in (b"", b"\n\n", b"# comment\n", b"\r\n \r\n", b"m,host=h f=\"text\" 5"):
        before = state(client)
        assert client.post(WRITE, lines).status == 204, lines
        assert state(client) == before
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    empty = [b"", series(), series(label("__name__", "x")), series(label("__name__", "x"), sample(stale, 5))]
    for message in empty[:1] + empty[2:]:
        before = state(client)[2:]
        assert client.post(REMOTE, snappy(message)).status == 202, message
        assert state(client)[2:] == before
    # Parts that later versions of the message have.
    later = field(3, b"\x08\x01") + series(label("__name__", "y"), sample(2.0, 5), field(3, b"ab"), b"\x28\x05\x35abcd")
    assert client.post(REMOTE, snappy(later + b"\x48\x05")).status == 202
    # Not metadata as an integer: Prometheus refuses it, too.
    assert client.post(REMOTE, snappy(later + b"\x18\x05")).status == 400
    assert set(client.get("/v1/resource/prometheus/none@none").expect(200).json()["metrics"]) == {"y"}

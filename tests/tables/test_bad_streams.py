"""Streams that are truncated, have false lengths, or are something else: 400 with a cause, or 413, and nothing is changed."""

import io
import random
import struct
import uuid

import pyarrow as pa
import pytest
from support.http import create_metric, create_policy
from tables.stream import post, stream

BY_ID, BY_NAME = "/v1/batch/metrics/measures", "/v1/batch/resources/metrics/measures"
T0 = 1_700_000_000
ROUNDS = 400
MIB = 1 << 20


@pytest.fixture
def server(gnudi):
    return gnudi()


@pytest.fixture
def client(server):
    client = server.client()
    create_policy(client, "fine", [("1s", 1000)], aggregation_methods=["count"])
    return client


@pytest.fixture
def metric(client):
    return create_metric(client, "fine")


def rows(metric, count=20, **columns):
    usual = {"metric_id": [metric] * count, "timestamp": pa.array([T0 + n for n in range(count)], pa.timestamp("s")),
             "value": [float(n) for n in range(count)]}
    return pa.table({**usual, **columns})


def refused(client, body, path=BY_ID):
    """The reason of a refusal, which has Gnocchi's form."""
    answer = post(client, path, body).expect(400)
    document = answer.json()
    assert (document["code"], document["title"]) == (400, "Bad Request")
    description = document["description"]
    assert description["cause"] == "Unable to decode body" and description["reason"], description
    return description["reason"]


def unchanged(client, metric):
    assert client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=count").expect(200).json() == []


def file(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def legacy(table):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_what_is_something_else_is_refused_by_name(client, metric):
    good = rows(metric)
    for body, reason in [
        (b"", "does not begin with a schema"),
        (b"{}", "ends in a message's length"),
        (b'{"a": [1, 2, 3]}', "No message begins at byte 0"),
        (file(good), "This is an Arrow file, not a stream"),
        (legacy(good), "No message begins at byte 0"),
        (stream(good) + b"x", "1 bytes follow the end of the stream"),
        (stream(good) * 2, "bytes follow the end of the stream"),
        (stream(good)[:-20], "The stream ends in a message's body"),
        (stream(good.drop_columns("value")), "There is no column 'value'"),
        (stream(good.append_column("unit", good["metric_id"])), "Unknown column 'unit'"),
        (stream(pa.table([good["value"], good["timestamp"], good["value"]], ["value", "timestamp", "value"])), "There are two columns 'value'"),
        (stream(rows(metric, timestamp=pa.array(range(20), pa.int64()))), "cast it to a timestamp"),
        (stream(rows(metric, timestamp=pa.array(range(20), pa.date64()))), "Column 'timestamp' is Date"),
        (stream(rows(metric, timestamp=pa.array([-1] * 20, pa.timestamp("ns")))), "before 1970 in row 0"),
        (stream(rows(metric, timestamp=pa.array([1 << 40] * 20, pa.timestamp("s")))), "after 2262 in row 0"),
        (stream(rows(metric, timestamp=pa.array([None] * 20, pa.timestamp("s")))), "'timestamp' is null in row 0"),
        (stream(rows(metric, value=pa.array([1.0] * 19 + [None]))), "'value' is null in row 19"),
        (stream(rows(metric, value=pa.array([2**60] * 20))), "an integer beyond 2^53 in row 0"),
        (stream(rows(metric, value=["1"] * 20)), "Column 'value' is Utf8"),
        (stream(rows(metric, value=pa.array([1] * 20, pa.decimal128(10, 2)))), "Column 'value' is Decimal"),
        (stream(rows(metric, value=[[1.0]] * 20)), "Column 'value' is List"),
        (stream(rows(metric, value=pa.array([1.0] * 20, pa.float16()))), "Column 'value' is FloatingPoint"),
        (stream(rows(metric, value=pa.array([1.0] * 20).dictionary_encode())), "Column 'value' has a dictionary"),
        (stream(rows(metric, metric_id=pa.array([b"x" * 15] * 20, pa.binary(15)))), "Column 'metric_id' is FixedSizeBinary"),
        (stream(rows(metric, metric_id=pa.array([None] * 20, pa.utf8()))), "'metric_id' is null in row 0"),
        (stream(rows(metric, metric_id=["no id"] * 20)), "Column 'metric_id' has 'no id': it is no UUID"),
        (stream(rows(metric, metric_id=pa.array(["a"] * 20).dictionary_encode())), "it is no UUID"),
        (stream(pa.table({"x": pa.array([], pa.int64())})), "Unknown column 'x'"),
        (stream(pa.table({"x" * 100_000: pa.array([], pa.int64())})), "Unknown column 'xxx"),
    ]:
        found = refused(client, body)
        assert reason in found and len(found) < 400, (reason, found)
    slashed = pa.table({"resource_id": ["a/b"], "metric": ["cpu"], "timestamp": pa.array([T0], pa.timestamp("s")), "value": [1.0]})
    assert "'/' is not supported in resource id" in refused(client, stream(slashed), BY_NAME)
    unchanged(client, metric)


def test_limits_are_those_of_json(client, metric):
    many = rows(metric, 500_001, metric_id=pa.array([metric] * 500_001).dictionary_encode())
    assert "There are more than 500000 measures" in post(client, BY_ID, stream(many)).expect(413).json()["description"]
    ids = rows(metric, 50_001, metric_id=[str(uuid.UUID(int=n)) for n in range(50_001)])
    assert "There are more than 50000 metrics" in post(client, BY_ID, stream(ids)).expect(413).json()["description"]
    unchanged(client, metric)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_bombs_take_no_memory(server, client, metric, compression):
    """A gigabyte of zeros in a few hundred kilobytes; and small ones that say that they are large."""
    before = server.process.memory_bytes("VmHWM")
    bomb = stream(rows(metric, 1, metric_id=pa.array(["0" * (1 << 30)])), compression)
    assert len(bomb) < 6 * MIB
    for _ in range(3):
        assert "once they are inflated" in post(client, BY_ID, bomb).expect(413).json()["description"]
    small = bytearray(stream(rows(metric), compression))
    # The lengths that stand before compressed buffers.
    places = [at for at in range(0, len(small) - 8) if struct.unpack_from("<q", small, at)[0] in (20 * 8, 21 * 4, 20 * 36)]
    assert places
    for place in places:
        for lie in [1 << 62, -(1 << 62), 60 * MIB, 1, 0, -2]:
            body = bytes(small[:place]) + struct.pack("<q", lie) + bytes(small[place + 8:])
            assert post(client, BY_ID, body).status in (400, 413)
    assert server.process.memory_bytes("VmHWM") - before < 100 * MIB
    unchanged(client, metric)


def test_a_text_that_many_rows_share_takes_no_memory(server, client):
    """Views of one text, each from another byte on: as names they would be gigabytes."""
    before, count, text = server.process.memory_bytes("VmHWM"), 3_000, b"a" * MIB
    views = b"".join(struct.pack("<i4sii", MIB - at, text[:4], 0, at) for at in range(count))
    names = pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(views), pa.py_buffer(text)])
    table = rows("", count).drop_columns("metric_id").append_column("resource_id", pa.array(["a"] * count)).append_column("metric", names)
    assert "A text of column 'metric' has more than 1156 bytes" in refused(client, stream(table), BY_NAME)
    assert server.process.memory_bytes("VmHWM") - before < 100 * MIB


def test_damage_is_refused_or_read(client, server, seed, rounds):
    """Random damage to streams of every layout: never 500, never a panic, and the server goes on."""
    draw = random.Random(seed)
    metrics = [create_metric(client, "fine") for _ in range(3)]
    ids = pa.array([metrics[n % 3] for n in range(20)])
    forms = [ids, ids.cast(pa.large_utf8()), ids.cast(pa.string_view()), ids.dictionary_encode(),
             pa.array([uuid.UUID(id).bytes for id in ids.to_pylist()], pa.binary(16))]
    samples = [stream(rows("", metric_id=form), compression, rows_max)
               for form in forms for compression in (None, "lz4", "zstd") for rows_max in (None, 7)]
    statuses = set()
    for _ in range(rounds):
        body = bytearray(draw.choice(samples))
        kind = draw.randrange(4)
        if kind == 0:
            body = body[:draw.randrange(len(body))]
        for _ in range(draw.randint(1, 5)):
            at = draw.randrange(max(len(body) - 8, 1))
            if kind == 1 and len(body) > 8:
                struct.pack_into("<q", body, at, draw.choice([-1, 1 << 62, -(1 << 63), len(body), 0, 1 << 31]))
            elif kind == 2 and len(body) > 8:
                struct.pack_into("<i", body, at & ~3, draw.choice([-1, 1 << 30, -(1 << 31), len(body), 0]))
            elif body:
                body[min(at, len(body) - 1)] = draw.randrange(256)
        statuses.add(post(client, BY_ID, bytes(body)).status)
    assert statuses <= {202, 400, 413} and 400 in statuses, statuses
    assert "panicked" not in server.log()
    client.get("/v1/metric").expect(200)

"""Measures in and out as Arrow IPC streams: the same points give the same answers as JSON, bit by bit."""

import datetime
import io
import math
import random
import struct
import uuid

import polars
import pyarrow as pa
import pytest
from support.http import create_metric, create_policy
from tables.stream import get, post, stream

BY_ID, BY_NAME = "/v1/batch/metrics/measures", "/v1/batch/resources/metrics/measures"
NS = 1_000_000_000
T0 = 1_700_000_000 * NS
ROUNDS = 10
FACTORS = {"s": NS, "ms": 1_000_000, "us": 1_000, "ns": 1}


@pytest.fixture(scope="module")
def client(server):
    client = server.client()
    create_policy(client, "fine", [("1s", 100_000)], back_window=100_000, aggregation_methods=["mean", "last", "count", "sum"])
    return client


def times(nanoseconds, unit="ns", zone="UTC"):
    return pa.array([time // FACTORS[unit] for time in nanoseconds], pa.timestamp(unit, tz=zone))


def rows(ids, nanoseconds, values, key="metric_id"):
    return pa.table({key: pa.array(ids), "timestamp": times(nanoseconds), "value": pa.array(values, pa.float64())})


def series(client, metric, aggregation="last"):
    """What JSON says of a metric: nanoseconds and values."""
    path = f"/v1/metric/{metric}/measures?aggregation={aggregation}&refresh=true"
    return client.get(path).expect(200).json()


def test_what_goes_in_comes_out(client):
    first, second = (create_metric(client, "fine") for _ in range(2))
    table = rows([first, second] * 3, [T0 + second * NS for second in [0, 0, 1, 1, 2, 2]], [1.5, 2.5, -0.0, 1e300, 5e-324, 3.0])
    assert post(client, BY_ID, stream(table)).expect(202).body == b""
    read = get(client, f"/v1/metric/{first}/measures?aggregation=last&refresh=true")
    assert read.schema == pa.schema([
        pa.field("timestamp", pa.timestamp("ns", tz="UTC"), nullable=False), pa.field("granularity", pa.float64()),
        pa.field("value", pa.float64(), nullable=False)])
    assert read["timestamp"].cast(pa.int64()).to_pylist() == [T0, T0 + NS, T0 + 2 * NS]
    assert read["granularity"].to_pylist() == [1.0] * 3
    assert [struct.pack("d", value) for value in read["value"].to_pylist()] == [struct.pack("d", v) for v in [1.5, -0.0, 5e-324]]
    assert [value for *_, value in series(client, second)] == [2.5, 1e300, 3.0]


def keys(ids):
    """Every form that ids may have."""
    texts = pa.array(ids)
    yield "utf8", texts
    yield "large_utf8", texts.cast(pa.large_utf8())
    yield "view", texts.cast(pa.string_view())
    yield "binary", pa.array([uuid.UUID(id).bytes for id in ids], pa.binary(16))
    yield "uuid", pa.array([uuid.UUID(id).bytes for id in ids], pa.uuid())
    yield "dictionary", texts.dictionary_encode()
    for index in [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.uint32(), pa.int64(), pa.uint64()]:
        yield f"dictionary by {index}", texts.cast(pa.dictionary(index, pa.utf8()))
    yield "dictionary of views", texts.cast(pa.string_view()).dictionary_encode()
    yield "urn", pa.array([f"urn:uuid:{id.upper()}" for id in ids])


def values(numbers):
    for kind in [pa.float64(), pa.float32(), *(pa.int8(), pa.int16(), pa.int32(), pa.int64())]:
        yield str(kind), pa.array(numbers, kind)
    for kind in [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]:
        yield str(kind), pa.array(numbers, kind)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows_max", [None, 7])
def test_every_type_means_the_same(client, compression, rows_max):
    numbers = [number % 7 for number in range(40)]
    nanoseconds = [T0 + number * NS for number in range(40)]
    expected = None

    def sent(name, ids, kind, zone="UTC", column=None):
        metrics = [create_metric(client, "fine") for _ in range(2)]
        form = dict(keys([metrics[number % 2] for number in numbers]))[ids]
        table = pa.table({"value": dict(values(numbers))[kind] if column is None else column, "metric_id": form,
                          "timestamp": times(nanoseconds, name, zone)})
        post(client, BY_ID, stream(table, compression, rows_max)).expect(202)
        return [series(client, metric) for metric in metrics]

    some = [create_metric(client, "fine")] * 40
    for ids, _ in keys(some):
        answer = sent("ns", ids, "double")
        expected = expected or answer
        assert answer == expected, ids
    for kind, _ in values(numbers):
        assert sent("us", "utf8", kind) == expected, kind
    for unit in FACTORS:
        for zone in ["UTC", None, "+02:00", "Europe/Berlin"]:
            assert sent(unit, "utf8", "double", zone) == expected, (unit, zone)


def test_polars_writes_views_and_categories(client):
    metric = create_metric(client, "fine")
    frame = polars.DataFrame({"metric_id": [metric] * 3, "timestamp": [T0, T0 + NS, T0 + 2 * NS], "value": [1.0, 2.0, 3.0]})
    frame = frame.with_columns(polars.col("timestamp").cast(polars.Datetime("ns")))
    categories = frame.with_columns(polars.col("metric_id").cast(polars.Categorical))
    for number, (written, compression) in enumerate([(frame, "uncompressed"), (frame, "lz4"), (frame, "zstd"), (categories, "lz4")]):
        written = written.with_columns(polars.col("value") + number)
        post(client, BY_ID, written.write_ipc_stream(None, compression=compression).getvalue()).expect(202)
        assert [value for *_, value in series(client, metric)] == [number + 1.0, number + 2.0, number + 3.0]


def test_dictionaries_that_change(client):
    """Batches whose dictionaries grow, and are replaced."""
    metrics = [create_metric(client, "fine") for _ in range(4)]
    for deltas in [True, False]:
        batches = [[0, 1], [0, 2, 1], [3, 0], [1]]
        known = [metrics[:2], metrics[:3], metrics, metrics[::-1]]
        sink = io.BytesIO()
        schema = pa.schema([("metric_id", pa.dictionary(pa.int32(), pa.utf8())), ("timestamp", pa.timestamp("ns")), ("value", pa.float64())])
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as writer:
            for number, (indices, texts) in enumerate(zip(batches, known)):
                column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(texts))
                at = pa.array([T0 + number * NS] * len(indices), pa.timestamp("ns"))
                writer.write_batch(pa.record_batch([column, at, pa.array([float(n) for n in indices])], schema=schema))
        post(client, BY_ID, sink.getvalue()).expect(202)
    seconds = [[int(time[17:19]) - 20 for time, *_ in series(client, metric)] for metric in metrics]
    # The last dictionary is the other way round.
    assert seconds == [[0, 1, 2], [0, 1], [1, 3], [2]]


def test_points_of_both_ways_are_the_same(client, seed, rounds):
    """Random rows, in random order and batches, as a stream; the same as lists of JSON."""
    draw = random.Random(seed)
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    for _ in range(rounds):
        count = draw.randint(1, 5)
        pairs = [(create_metric(client, "fine"), create_metric(client, "fine")) for _ in range(count)]
        chosen = [(draw.randrange(count), T0 + draw.randrange(200) * NS + draw.randrange(NS),
                   draw.choice(odd) if draw.random() < 0.1 else draw.uniform(-1e6, 1e6)) for _ in range(draw.randint(0, 300))]
        if draw.random() < 0.5:
            by_metric = draw.random() < 0.5
            chosen.sort(key=lambda row: row[:2] if by_metric else row[1:2])
        table = rows([pairs[index][0] for index, *_ in chosen], [time for _, time, _ in chosen], [value for *_, value in chosen])
        if not chosen:
            table = pa.schema([("metric_id", pa.utf8()), ("timestamp", pa.timestamp("ns")), ("value", pa.float64())]).empty_table()
        compression = draw.choice([None, "lz4", "zstd"])
        post(client, BY_ID, stream(table, compression, draw.choice([None, 1, 13]))).expect(202)
        document = {}
        for index, time, value in chosen:
            stamp = pa.scalar(time, pa.timestamp("ns")).cast(pa.utf8()).as_py().replace(" ", "T")
            document.setdefault(pairs[index][1], []).append({"timestamp": stamp, "value": value})
        client.post(BY_ID, document).expect(202)
        for mine, other in pairs:
            for aggregation in ["last", "sum", "count"]:
                wanted = client.get(f"/v1/metric/{other}/measures?aggregation={aggregation}&refresh=true").expect(200).body
                path = f"/v1/metric/{mine}/measures?aggregation={aggregation}&refresh=true"
                assert client.get(path).expect(200).body == wanted
                read = get(client, f"{path}&compression={compression or 'none'}")
                assert_equal(read, client.get(path).json())


def assert_equal(table, points):
    """A table says what a list of points says, which has whole seconds and one NaN."""
    told = [(time // NS, granularity, struct.pack("d", math.nan if math.isnan(value) else value)) for time, granularity, value in zip(
        table["timestamp"].cast(pa.int64()).to_pylist(), table["granularity"].to_pylist(), table["value"].to_pylist())]
    parsed = [(int(datetime.datetime.fromisoformat(time).timestamp()), granularity, struct.pack("d", value))
              for time, granularity, value in points]
    assert told == parsed


def test_by_resource_and_name(client):
    """Resources by UUID and by text; metrics that are missing are made, as their columns say."""
    resource, other = str(uuid.uuid4()), "host/1".replace("/", "-")
    for name in [resource, other]:
        client.post("/v1/resource/generic", {"id": name, "metrics": {"cpu": {"archive_policy_name": "fine"}}}).expect(201)
    table = pa.table({"resource_id": [resource, other, resource.upper(), other], "metric": ["cpu", "cpu", "cpu", "disk"],
                      "timestamp": times([T0, T0, T0 + NS, T0]), "value": [1.0, 2.0, 3.0, 4.0]})
    refused = post(client, BY_NAME, stream(table)).expect(400).json()["description"]
    document = {other: {"disk": [{"timestamp": 1, "value": 1}]}}
    assert refused == client.post(BY_NAME, document).expect(400).json()["description"]
    assert refused.startswith("Unknown metrics: ") and refused.endswith("/disk")
    assert client.get(f"/v1/resource/generic/{resource}/metric/cpu/measures?refresh=true").expect(200).json() == []
    policy = pa.table({**{name: table[name] for name in table.column_names},
                       "archive_policy_name": pa.array([None, None, None, "fine"]).dictionary_encode(),
                       "unit": pa.array([None, None, None, "B"])})
    post(client, BY_NAME + "?create_metrics=true", stream(policy)).expect(202)
    read = get(client, f"/v1/resource/generic/{resource}/metric/cpu/measures?aggregation=last&refresh=true")
    assert read["value"].to_pylist() == [1.0, 3.0]
    made = client.get(f"/v1/resource/generic/{other}/metric/disk").expect(200).json()
    assert (made["unit"], made["archive_policy"]["name"]) == ("B", "fine")
    path = f"/v1/resource/generic/{other}/metric/disk/measures?aggregation=last&refresh=true"
    assert get(client, path)["value"].to_pylist() == [4.0]
    gone = pa.table({**{name: table[name] for name in table.column_names}, "resource_id": [str(uuid.UUID(int=7))] * 4})
    document = {str(uuid.UUID(int=7)): {name: [{"timestamp": 1, "value": 1}] for name in ["cpu", "disk"]}}
    wanted = client.post(BY_NAME + "?create_metrics=true", document).expect(400).json()
    assert post(client, BY_NAME + "?create_metrics=true", stream(gone)).expect(400).json() == wanted


def test_unknown_metrics_are_told_as_with_json(client):
    known, *unknown = create_metric(client, "fine"), str(uuid.uuid4()), str(uuid.uuid4())
    answer = post(client, BY_ID, stream(rows([unknown[0], known, unknown[1]], [T0] * 3, [1.0] * 3))).expect(400)
    wanted = client.post(BY_ID, {id: [{"timestamp": 1, "value": 1}] for id in [*unknown, known]}).expect(400)
    assert answer.json() == wanted.json()
    assert series(client, known) == []


def test_who_may_not_post_changes_nothing(server, client):
    mine, other = server.client(user="alice:one"), server.client(user="bob:two")
    owned = create_metric(mine, "fine")
    theirs = create_metric(other, "fine")
    table = rows([owned, theirs], [T0] * 2, [1.0] * 2)
    document = {id: [{"timestamp": 1, "value": 1}] for id in [owned, theirs]}
    assert post(mine, BY_ID, stream(table)).status == mine.post(BY_ID, document).status == 403
    assert mine.get(f"/v1/metric/{owned}/measures?refresh=true").json() == []


def test_long_answers_come_in_batches(client):
    """More than one record batch, of one series and of several granularities."""
    create_policy(client, "two", [("1s", 200_000), ("1 hour", 1000)], aggregation_methods=["mean"])
    metric = create_metric(client, "two")
    count = 150_000
    for start in range(0, count, 50_000):
        numbers = range(start, start + 50_000)
        table = rows(pa.array([metric] * 50_000).dictionary_encode(), [T0 + n * NS for n in numbers], [n * 0.5 for n in numbers])
        post(client, BY_ID, stream(table)).expect(202)
    for compression in ["none", "lz4", "zstd"]:
        path = f"/v1/metric/{metric}/measures?refresh=true&compression={compression}"
        read = get(client, path)
        assert_equal(read, client.get(path).expect(200).json())
        assert read.num_rows > count and read["value"].num_chunks > 3
    both = client.get(path, headers={"Accept": "application/vnd.apache.arrow.stream, application/json;q=0.5"}).expect(200)
    assert both.headers["content-type"] == "application/vnd.apache.arrow.stream"
    calendar = get(client, f"/v1/metric/{metric}/measures?granularity=1s&resample=W")
    assert calendar["granularity"].null_count == calendar.num_rows > 0
    one = get(client, f"/v1/metric/{metric}/measures?granularity=1s")
    every = client.get(f"/v1/metric/{metric}/measures?granularity=1s").expect(200).json()
    assert one.column_names == ["timestamp", "value"]
    assert_equal(one.add_column(1, "granularity", pa.array([1.0] * one.num_rows)), every)


def test_empty_answers_have_their_columns(client):
    metric = create_metric(client, "fine")
    read = get(client, f"/v1/metric/{metric}/measures")
    assert (read.num_rows, read.column_names) == (0, ["timestamp", "granularity", "value"])

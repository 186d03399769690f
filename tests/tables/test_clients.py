"""The client libraries for tables: each reads and writes the same data, by the lines of docs/api.md."""

import io

import duckdb
import pandas
import polars
import pyarrow
import pytest
from support.http import create_metric, create_policy
from tables.stream import MEDIA_TYPE, TAKES, post

T0 = 1_700_000_000


@pytest.fixture
def client(gnudi):
    client = gnudi().client()
    create_policy(client, "fine", [("1s", 1000)], aggregation_methods=["mean"])
    return client


@pytest.fixture
def metrics(client):
    """Two metrics with ten points each."""
    metrics = [create_metric(client, "fine", name=name) for name in ["cpu", "disk"]]
    document = {id: [{"timestamp": T0 + n, "value": n * (place + 0.5)} for n in range(10)] for place, id in enumerate(metrics)}
    client.post("/v1/batch/metrics/measures", document).expect(202)
    for metric in metrics:
        client.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200)
    return metrics


def bodies(client, metrics):
    """A body of each kind: measures, a long and a wide table, lists; plain and compressed."""
    operations = {"operations": ["metric", *([id, "mean"] for id in metrics)]}
    for compression in ["none", "lz4", "zstd"]:
        get = lambda path: client.get(f"{path}compression={compression}", headers=TAKES).expect(200).body
        aggregates = lambda form: client.post(
            f"/v1/aggregates?form={form}&compression={compression}", operations, headers=TAKES).expect(200).body
        yield (get(f"/v1/metric/{metrics[1]}/measures?"), aggregates("long"), aggregates("wide"), get("/v1/metric?"),
               get("/v1/resource/generic?"))


def test_pandas(client, metrics):
    for measures, long, wide, listed, resources in bodies(client, metrics):
        frame = pyarrow.ipc.open_stream(measures).read_pandas()
        assert frame["value"].sum() == 67.5 and str(frame["timestamp"].dtype) == "datetime64[ns, UTC]"
        assert frame.set_index("timestamp")["value"].resample("5s").mean().tolist() == [3.0, 10.5]
        sums = pyarrow.ipc.open_stream(long).read_pandas().groupby("metric_id", observed=True)["value"].sum()
        assert sums[metrics[0]] == 22.5
        assert pyarrow.ipc.open_stream(wide).read_pandas()[f"{metrics[0]}/mean"].max() == 4.5
        assert sorted(pyarrow.ipc.open_stream(listed).read_pandas()["name"]) == ["cpu", "disk"]
        assert pyarrow.ipc.open_stream(resources).read_pandas().empty
    frame = pandas.DataFrame({"metric_id": metrics, "timestamp": pandas.to_datetime([T0 + 100] * 2, unit="s", utc=True), "value": [7.0, 8.0]})
    sink = io.BytesIO()
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    check_written(client, metrics, sink.getvalue())


def test_polars(client, metrics):
    for measures, long, wide, listed, resources in bodies(client, metrics):
        frame = polars.read_ipc_stream(measures)
        assert frame["value"].sum() == 67.5 and frame.schema["timestamp"] == polars.Datetime("ns", "UTC")
        sums = dict(polars.read_ipc_stream(long).group_by("metric_id").agg(polars.col("value").sum()).iter_rows())
        assert sums == {metrics[0]: 22.5, metrics[1]: 67.5}
        assert polars.read_ipc_stream(wide)[f"{metrics[0]}/mean"].max() == 4.5
        assert sorted(polars.read_ipc_stream(listed)["name"]) == ["cpu", "disk"]
        assert polars.read_ipc_stream(resources).height == 0
    frame = polars.DataFrame({"metric_id": metrics, "timestamp": [T0 + 100] * 2, "value": [7.0, 8.0]})
    frame = frame.with_columns(polars.from_epoch("timestamp", time_unit="s"))
    check_written(client, metrics, frame.write_ipc_stream(None).getvalue())


def test_duckdb(client, metrics):
    for measures, long, wide, listed, resources in bodies(client, metrics):
        points = pyarrow.ipc.open_stream(measures).read_all()
        assert duckdb.sql("select sum(value), min(timestamp)::timestamp::text from points").fetchall() == [(67.5, "2023-11-14 22:13:20")]
        keyed = pyarrow.ipc.open_stream(long).read_all()
        sums = duckdb.sql("select metric_id, sum(value) from keyed group by all").fetchall()
        assert dict(sums) == {metrics[0]: 22.5, metrics[1]: 67.5}
        across = pyarrow.ipc.open_stream(wide).read_all()
        assert duckdb.sql(f"select max(\"{metrics[0]}/mean\") from across").fetchall() == [(4.5,)]
        names = pyarrow.ipc.open_stream(listed).read_all()
        assert duckdb.sql("select name from names order by name").fetchall() == [("cpu",), ("disk",)]
        empty = pyarrow.ipc.open_stream(resources).read_all()
        assert duckdb.sql("select count(*), any_value(metrics) from empty").fetchall() == [(0, None)]
    first, second = metrics
    made = duckdb.sql(f"""select metric_id, to_timestamp({T0 + 100}) as timestamp, value
                          from (values ('{first}', 7.0::double), ('{second}', 8.0::double)) as t(metric_id, value)""").to_arrow_table()
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    check_written(client, metrics, sink.getvalue())


def check_written(client, metrics, body):
    post(client, "/v1/batch/metrics/measures", body).expect(202)
    for metric, value in zip(metrics, [7.0, 8.0]):
        points = client.get(f"/v1/metric/{metric}/measures?refresh=true&start={T0 + 100}").expect(200).json()
        assert points == [["2023-11-14T22:15:00+00:00", 1.0, value]]


def test_json_stays_what_it_was(client, metrics):
    """Who asks for nothing, for JSON or for anything gets JSON; who asks for something else is refused."""
    path = f"/v1/metric/{metrics[0]}/measures"
    for accept in ["application/json", "*/*", None, f"application/json, {MEDIA_TYPE}", "application/*"]:
        assert client.get(path, headers={"Accept": accept}).expect(200).headers["content-type"] == "application/json"
    client.get(path, headers={"Accept": "application/vnd.apache.arrow.file"}).expect(406)
    for other in ["/v1/archive_policy", "/v1/status", f"/v1/metric/{metrics[0]}"]:
        client.get(other, headers=TAKES).expect(406)
    client.request("POST", path, b"x", headers={"Content-Type": MEDIA_TYPE}).expect(415)
    client.request("POST", "/v1/batch/metrics/measures", b"x", headers={"Content-Type": "application/vnd.apache.arrow.file"}).expect(415)

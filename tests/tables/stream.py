"""Arrow IPC streams, written and read by pyarrow."""

import io

import pyarrow

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
TAKES = {"Accept": MEDIA_TYPE}


def stream(table, compression=None, rows_max=None):
    """A table as the bytes of a stream."""
    sink = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_max)
    return sink.getvalue()


def table(body):
    """The table that the bytes of a stream are, every buffer of it validated."""
    read = pyarrow.ipc.open_stream(body).read_all()
    read.validate(full=True)
    return read


def post(client, path, body):
    return client.request("POST", path, body, headers={"Content-Type": MEDIA_TYPE})


def get(client, path):
    """The table that a path answers."""
    answer = client.get(path, headers=TAKES).expect(200)
    assert answer.headers["content-type"] == MEDIA_TYPE
    return table(answer.body)

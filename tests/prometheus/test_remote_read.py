"""A real Prometheus without data reads gnudi's series by remote read: its answers equal those of a Prometheus with the same data."""

import pytest

from inputs.remote_write import field, snappy, varint
from prometheus.oracle import Oracle, ask, differences, http
from prometheus.series import START

CONFIG = """\
global: {{}}
remote_read:
- url: http://127.0.0.1:{port}/api/v1/read
  basic_auth: {{username: admin, password: any}}
  read_recent: true
"""


@pytest.fixture(scope="module")
def reader(module_path, server):
    oracle = Oracle(module_path, CONFIG.format(port=server.port))
    try:
        yield oracle
    finally:
        oracle.stop()


@pytest.mark.parametrize("query", [
    '{__name__=~".+"}', 'count by (__name__) ({__name__=~".+"})', 'sum(rate({__name__=~".+_total"}[5m]))', '{__name__="nothing"}',
])
def test_prometheus_reads_what_was_written_to_gnudi(reader, prometheus, query):
    parameters = {"query": query, "start": START, "end": START + 2 * 3600, "step": 60}
    (status, found), (_, expected) = (ask(one.port, "/api/v1/query_range", parameters) for one in (reader, prometheus))
    assert status == 200, found
    assert not differences(expected, found)


def answer(server, *matchers):
    """Status and body of a remote read; a matcher is (kind, name, value), of kind 0 for `=` and 2 for `=~`."""
    parts = [field(3, b"\x08" + varint(kind) + field(2, name) + field(3, value)) for kind, name, value in matchers]
    span = b"\x08" + varint(START * 1000) + b"\x10" + varint((START + 600) * 1000)
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Read-Version": "0.1.0"}
    return http(server.port, "POST", "/api/v1/read", snappy(field(1, span + b"".join(parts))), headers)


def test_matchers_may_match_every_series(server, prometheus):
    everything, nothing = (answer(server, matcher) for matcher in [(2, b"__name__", b".+"), (0, b"__name__", b"nothing")])
    assert everything[0] == nothing[0] == 200 and len(everything[1]) > len(nothing[1])
    for matchers, expected in [([(2, b"job", b".*")], everything), ([(0, b"missing", b"")], everything), ([], nothing)]:
        assert answer(server, *matchers) == expected, matchers
        status, body = answer(prometheus, *matchers)
        assert (status, len(body) > 100) == (200, expected is everything), matchers

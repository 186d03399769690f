"""A real Prometheus without data reads gnudi's series by remote read: its answers equal those of a Prometheus with the same data."""

import pytest

from prometheus.oracle import Oracle, ask, differences
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

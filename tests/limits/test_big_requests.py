"""Requests whose cost could grow faster than their size: other clients do not wait for them."""

import gzip
import urllib.parse

import pytest

from inputs.remote_write import label, sample, series, snappy
from limits.neighbours import longest_wait_s, soonest_s
from support.http import create_policy_with_rule

# Of processor time: a bound far above what work in proportion to the input takes, and far below what the square of it takes.
COST_S = 10
NEIGHBOUR_S = 2
TIMEOUT_S = 120
LINES = {"Content-Type": "text/plain"}
REMOTE_WRITE = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}


@pytest.fixture
def server(gnudi):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client())
    server.client().post("/v1/influxdb/query?q=CREATE+DATABASE+%22db%22").expect(204)
    return server


def write(server, lines, timeout_s=TIMEOUT_S, **headers):
    return server.client(timeout_s=timeout_s).post("/v1/influxdb/write?db=db", lines, headers={**LINES, **headers})


def fields(count, start=0):
    return b"m,host=h " + b",".join(b"f%d=1" % number for number in range(start, start + count)) + b" 1600000000000000000"


def many_fields():
    return "/v1/influxdb/write?db=db", fields(300_000), LINES


def many_tags():
    tags = b",".join(b"t%d=1" % number for number in range(9_000))
    line = b"m,host=h," + tags + b" f=1 1600000000000000000"
    assert len(line) > 65_535
    return "/v1/influxdb/write?db=db", line, LINES


def long_names():
    """Each field repeats the tags in its metric's name."""
    line = b"m,host=h,t=" + b"x" * 60_000 + b" " + b",".join(b"f%d=1" % number for number in range(10_000))
    return "/v1/influxdb/write?db=db", line, LINES


def many_labels():
    labels = [label("__name__", "m"), *(label(f"l{number}", "1") for number in range(250_000))]
    return "/v1/prometheus/write", snappy(series(*labels, sample(1.0, 1_600_000_000_000))), REMOTE_WRITE


@pytest.mark.parametrize("request_of,status", [(many_fields, 413), (many_tags, 413), (long_names, 413), (many_labels, 202)])
def test_a_request_costs_no_more_than_its_size(server, request_of, status):
    path, body, headers = request_of()
    before = server.process.processor_seconds()
    answer = server.client(timeout_s=TIMEOUT_S).post(path, body, headers=headers)
    assert server.process.processor_seconds() - before < COST_S, request_of.__name__
    assert answer.status == status, answer


def test_neighbours_do_not_wait_for_large_requests(server):
    """Inflated, each of these bodies is 56 MiB of lines."""
    line = b"".join(b"m,host=h%d f=%d %d\n" % (number % 50, number, 1_600_000_000_000_000_000 + number) for number in range(100_000))
    body = gzip.compress((b"# " + b"x" * 1000 + b"\n") * 55_000 + line[: 1 << 20].rpartition(b"\n")[0], 1)
    write(server, gzip.compress(fields(10)), **{"Content-Encoding": "gzip"}).expect(204)
    send = lambda: write(server, body, **{"Content-Encoding": "gzip"}).status
    assert soonest_s(lambda: longest_wait_s(server, send, 12, "/healthcheck", 204), NEIGHBOUR_S) < NEIGHBOUR_S


# Almost as many states as the limit allows; and values that can be listed, as dashboards send them.
LARGE = [r"[\pL\pN]{40}"] * 7
LONG = ["|".join(f"host{number}" for number in range(4_000))]


@pytest.mark.parametrize("path,argument,expressions", [("query", "query", LARGE), ("format_query", "query", LARGE), ("series", "match[]", LONG)])
def test_neighbours_do_not_wait_for_regular_expressions(server, path, argument, expressions):
    """These take a tenth of a second to compile."""
    selector = "{" + ",".join(f"x=~`{expression}`" for expression in expressions) + ',y="1"}'
    form = urllib.parse.urlencode({argument: selector}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    send = lambda: server.client(timeout_s=TIMEOUT_S).post(f"/api/v1/{path}", form, headers=headers).status
    assert soonest_s(lambda: longest_wait_s(server, send, 40, "/healthcheck", 200), NEIGHBOUR_S) < NEIGHBOUR_S

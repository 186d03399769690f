"""Every call of Grafana's Prometheus data source, as docs/prometheus.md lists them, by GET and POST."""

import pathlib
import re

import pytest

from prometheus.oracle import http

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "prometheus.md"
ROW = re.compile(r"\| ([^|]+) \| `(GET|POST) ([^`?]+)(?:\?([^`]*))?`(?: `([^`]*)`)? \|")
GET_ONLY = ["/label/", "/status/", "/metadata", "/rules", "/alerts"]


def calls():
    section = PAGE.read_text().split("## Requests of Grafana")[1].split("\n## ")[0]
    rows = ROW.findall(section)
    assert len(rows) == section.count("\n| ") - 2
    return [(what, path, in_address or in_form) for what, _, path, in_address, in_form in rows]


@pytest.mark.parametrize("what, path, arguments", calls())
def test_grafanas_calls_are_answered(server, what, path, arguments):
    arguments = arguments.replace("+", "%2B").replace("[]", "%5B%5D")
    answers = [http(server.port, "GET", f"{path}?{arguments}")]
    if not any(part in path for part in GET_ONLY):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answers.append(http(server.port, "POST", path, arguments.encode(), form))
    for status, body in answers:
        assert status == 200 and body.startswith(b'{"status":"success","data":'), (status, body[:200])
    if what == "which server":
        assert b"features" not in answers[0][1]
    if what == "health check":
        assert b'{"resultType":"scalar","result":[4,"2"]}' in answers[0][1]

"""The whole language on a fixed set of series: each query, at one time and over a range, has the same answer as from a real Prometheus 3,
including the texts of warnings and errors."""

import pytest

from prometheus.conftest import filled_oracle, filled_server
from prometheus.demo import demo, queries
from prometheus.oracle import BUILT, ask, differences
from prometheus.series import START

pytestmark = pytest.mark.slow

# Go computes powers and functions like `sin` and `ln` in its own way; their last digits differ.
TOLERANCE = 1e-13
INSTANT = ("/api/v1/query", {"time": START + 4200})
RANGE = ("/api/v1/query_range", {"start": START + 1500, "end": START + 6000, "step": 90})


@pytest.fixture(scope="module")
def pair(module_path):
    if not BUILT.exists():
        pytest.skip("missing: make target/tools/bin/prometheus")
    written = demo()
    with filled_oracle(module_path / "oracle", written) as oracle, filled_server(module_path / "gnudi", written) as server:
        yield oracle, server


def compared(answers):
    """How two answers differ. What is wrong with a regular expression, Go says in its own words."""
    expected, found = answers
    is_regex = "regexp" in expected.get("error", "")
    return differences(expected, found, not is_regex, TOLERANCE)


def test_each_query_has_prometheus_answer(pair):
    asked, different = 0, []
    for query in queries():
        for path, parameters in [INSTANT, RANGE]:
            answers = [ask(one.port, path, {**parameters, "query": query}, "POST")[1] for one in pair]
            asked += 1
            if texts := compared(answers):
                different.append(f"{path} {query}\n    " + "\n    ".join(texts[:3]))
    print(f"{len(queries())} queries, {asked} answers, {len(different)} differ")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("path", ["/api/v1/format_query", "/api/v1/parse_query"])
def test_each_query_has_prometheus_form(pair, path):
    different = []
    # gnudi prints names beyond ASCII and with dots in quotes, which every server of Prometheus' reads.
    # A document that has NaN is more than Prometheus can print.
    for query in [query for query in queries() if "service.name" not in query and "fill (NaN)" not in query]:
        expected, found = (ask(one.port, path, {"query": query}, "POST")[1] for one in pair)
        if expected != found and "regexp" not in expected.get("error", ""):
            different.append(f"{query}\n    {expected}\n    {found}")
    assert not different, "\n".join(different)


def test_samples_are_counted_as_prometheus_does(pair):
    """Not those of subqueries, whose samples count once here, nor of `info` and `smoothed`, where Prometheus counts nothing. How many series it touches,
    and how many samples are held at a time, is each server's own."""
    different = []
    asked = [query for query in queries() if not any(text in query for text in [":", "info(", "smoothed"])]
    for query in asked:
        for path, parameters in [INSTANT, RANGE]:
            answers = [ask(one.port, path, {**parameters, "query": query, "stats": "true"}, "POST")[1] for one in pair]
            if answers[0]["status"] != "success":
                continue
            expected, found = (answer["data"]["stats"]["samples"] for answer in answers)
            assert expected.keys() == found.keys()
            if any(expected[kind] != found[kind] for kind in ["totalQueryableSamples", "samplesRead"]):
                different.append(f"{path} {query}\n    {expected}\n    {found}")
    assert not different, "\n".join(different)

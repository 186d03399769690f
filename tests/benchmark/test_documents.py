"""`gnudi-benchmark report --documents`: the blocks of documents get a run's figures; if one document cannot be filled, none is changed."""

import json

import pytest

from benchmark.results import experiment, measured, sample
from support.gnudi import run_benchmark

END = "<!-- end of report -->"


def block(name):
    return f"<!-- report: {name} -->\nold\n{END}\n"


def results(**more):
    found = sample("gnudi", "gnocchi")
    found["measurements"] = [{**measured("create", "gnudi", 20_000), "unit": "metrics"}]
    table = {"title": "metrics", "headings": ["metrics", "rate"], "rows": [["7", "9/s"]]}
    found["experiments"] = [experiment("growth", "growth", "growth --only metrics", tables=[table])]
    return found | more


def update(directory, found, *places):
    path = directory / "results.json"
    path.write_text(json.dumps(found))
    return run_benchmark("report", "--from", path, "--page", directory / "report.html", "--documents", ",".join(map(str, places)))


def test_blocks_are_replaced_and_the_rest_stays(tmp_path):
    documents, readme = tmp_path / "docs", tmp_path / "README"
    documents.mkdir()
    capacity, other = documents / "capacity.md", documents / "other.md"
    capacity.write_text(f"# Head\n\n{block('rows')}between\n\n{block('experiment growth')}end\n")
    other.write_text("no figures\n")
    readme.write_text(block("standing gnocchi"))
    found = results()
    found["measurements"].append({**measured("create", "gnocchi", 200), "unit": "metrics"})
    done = update(tmp_path, found, documents, readme)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("document: ")] == [f"document: {capacity}", f"document: {readme}"]
    assert "gnudi is ahead of gnocchi in 1 of 1 rows, by 100 times." in readme.read_text()
    text = capacity.read_text()
    assert text.startswith("# Head\n\n<!-- report: rows -->\n\n```text\ncreate metric")
    assert f"```\n\n{END}\nbetween\n\n<!-- report: experiment growth -->" in text
    assert text.endswith(f"| 7 | 9/s |\n\n{END}\nend\n")
    assert update(tmp_path, found, documents, readme).returncode == 0
    assert capacity.read_text() == text and other.read_text() == "no figures\n"


@pytest.mark.parametrize("bad, reason", [
    (block("colour"), "line 3: block `colour`: unknown"),
    ("<!-- report: rows -->\n", "line 3: a block without"),
    ("<!-- report: rows", "line 3: `<!-- report: ` without"),
    (block("experiment engines"), "not measured"),
    (block("experiment x"), "unknown experiment"),
    (block("standings"), "not measured"),
    (block("standing x"), "unknown server"),
])
def test_a_document_is_refused_whole(tmp_path, bad, reason):
    documents = tmp_path / "docs"
    documents.mkdir()
    good = documents / "a.md"
    good.write_text(block("rows"))
    (documents / "b.md").write_text(f"\n\n{bad}")
    done = update(tmp_path, results(), documents)
    assert done.returncode == 1 and "b.md" in done.stderr and reason in done.stderr, done.stderr
    assert good.read_text() == block("rows")


def test_a_folder_without_blocks_and_a_partial_run_are_refused(tmp_path):
    documents = tmp_path / "docs"
    documents.mkdir()
    done = update(tmp_path, results(), documents)
    assert done.returncode == 1 and "no block" in done.stderr, done.stderr
    (documents / "a.md").write_text(block("rows"))
    done = update(tmp_path, results(partial="interrupted"), documents)
    assert done.returncode == 1 and "partial" in done.stderr, done.stderr
    assert (documents / "a.md").read_text() == block("rows")

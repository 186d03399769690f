"""`gnudi-benchmark report`: a self-contained page and the raw results, both kept if the run is interrupted. `versus`: two servers in
turn."""

import html.parser
import json
import re
import signal

import pytest

from support.gnudi import benchmark_binary, run_benchmark
from support.process import Process, wait_until

pytestmark = pytest.mark.slow

SHORT = ["--seconds", "1", "--peers", "limit,gnudi"]
VOID = {"meta", "br", "hr", "link", "img"}


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order; keeps the text, and what a browser would load."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.loads = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"
        self.text = " ".join(self.texts)

    def handle_starttag(self, tag, attributes):
        self.loads += [value for name, value in attributes
                       if name in ("src", "srcset", "href", "data", "action") and not value.startswith("#")]
        if tag in ("link", "iframe", "object", "embed", "img"):
            self.loads.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        if tag not in VOID:
            self.handle_starttag(tag, attributes)
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            assert not re.search(r"url\(|@import", data)
        elif self.open and self.open[-1] == "script":
            assert not re.search(r"fetch|import|XMLHttpRequest|WebSocket|https?://(?!www\.w3\.org/2000/svg\")", data)
        elif data.strip():
            self.texts.append(data.strip())


def report(directory, *arguments, timeout_s=60):
    """Runs the report: the completed process, the results and the page."""
    done = run_benchmark("report", "--output", directory / "out/results.json",
               "--page", directory / "out/report.html", *arguments, timeout_s=timeout_s)
    results = json.loads((directory / "out/results.json").read_text())
    return done, results, Page((directory / "out/report.html").read_text())


def test_page_and_results(tmp_path):
    done, results, page = report(tmp_path, "--only", "push-10,push-100", *SHORT)
    assert done.returncode == 0, done.stderr
    assert page.loads == []
    assert results["partial"] is None and results["failures"] == [] and results["experiments"] == []
    measured = {(found["row"], found["peer"]) for found in results["measurements"]}
    assert measured == {(row, peer) for row in ("push-10", "push-100") for peer in ("limit", "gnudi")}
    assert all(found["calls"] > 0 and found["failures"] == 0 for found in results["measurements"])
    assert "--only push-10,push-100" in results["command"]
    assert results["commit"] and {"gnudi", "Gnocchi", "PostgreSQL"} <= {known["name"] for known in results["versions"]}
    for text in ("push, 10 measures a call, 8 connections", "fdatasync", results["machine"]["kernel"], "R5: Ceph",
                 "Aim: half of what the load generator reaches", "Pushes, 8 connections", results["command"]):
        assert text in page.text, text
    # The page is a function of the results.
    first = (tmp_path / "out/report.html").read_text()
    again = tmp_path / "again.html"
    assert run_benchmark("report", "--from", tmp_path / "out/results.json", "--page", again).returncode == 0
    assert again.read_text() == first


def test_results_that_are_none(tmp_path):
    (tmp_path / "results.json").write_text('{"measurements": 1}')
    done = run_benchmark("report", "--from", tmp_path / "results.json", "--page", tmp_path / "page.html")
    assert done.returncode == 1 and "not the results of a report" in done.stderr, done.stderr
    assert not (tmp_path / "page.html").exists()
    done = run_benchmark("report", "--from", tmp_path / "absent.json")
    assert done.returncode == 1 and "absent.json" in done.stderr, done.stderr


def test_a_missing_peer_is_listed(tmp_path):
    done, results, page = report(tmp_path, "--only", "push-100", "--seconds", "1", "--peers", "gnudi,victoria-metrics,gnocchi",
                                 "--victoria-metrics", tmp_path / "absent", "--gnocchi-venv", tmp_path / "absent")
    assert done.returncode == 0, done.stderr
    assert "missing: victoria-metrics: " in done.stdout and "missing: gnocchi: " in done.stdout, done.stdout
    assert [(found["peer"], found["variant"]) for found in results["measurements"]] == [("gnudi", None), ("gnudi", "raw")]
    assert [bool(server["missing"]) for server in results["servers"]] == [False, True, True]
    assert "Missing: gnocchi" in page.text and "Missing: victoria-metrics" in page.text


def test_an_interrupted_run_keeps_what_it_has(tmp_path):
    log = tmp_path / "log"
    command = [benchmark_binary(), "report", "--only", "push-1,push-10,push-100", "--seconds", "30", "--peers", "limit",
               "--output", tmp_path / "results.json", "--page", tmp_path / "report.html"]
    process = Process(command, log)
    wait_until(lambda: "limit: push, 1 measure" in log.read_text(), 60, "the first row")
    process.child.send_signal(signal.SIGINT)
    assert process.child.wait(60) == 130
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["partial"] == "the run was interrupted"
    assert {"cut short"} <= {note for found in results["measurements"] for note in found["notes"]}
    page = Page((tmp_path / "report.html").read_text())
    assert page.text.index("Partial:") < page.text.index("The run"), "it is said at the top"
    assert "partial: the run was interrupted" in log.read_text()


def test_a_load_that_is_cut_short_counts_what_it_did(tmp_path):
    log = tmp_path / "log"
    process = Process([benchmark_binary(), "report", "--only", "stream-single", "--peers", "limit", "--output",
                       tmp_path / "results.json", "--page", tmp_path / "report.html"], log)
    wait_until(lambda: "a call each" in log.read_text(), 60, "the row")
    process.child.send_signal(signal.SIGINT)
    assert process.child.wait(60) == 130
    for found in json.loads((tmp_path / "results.json").read_text())["measurements"]:
        assert found["done"] == pytest.approx(found["calls"]), "a measure a call"


def versus(*arguments, timeout_s=60):
    return run_benchmark("versus", "--format", "json", *arguments, timeout_s=timeout_s)


def test_versus_two_servers(gnudi):
    urls = [f"http://127.0.0.1:{gnudi().port}" for _ in range(2)]
    done = versus(*urls, "--rounds", "3", "--", "metric", "create", "-n", "100", "-w", "4")
    assert done.returncode == 0, done.stderr
    # The order alternates.
    order = [line.rsplit(" ", 1)[1] for line in done.stderr.splitlines() if line.startswith("round ")]
    assert order == [urls[0], urls[1], urls[1], urls[0], urls[0], urls[1]], done.stderr
    for name in ("create speed, A", "create speed, B", "create speed, A to B"):
        assert name in done.stdout, done.stdout


@pytest.mark.parametrize("arguments, words", [
    (["nobody", "gnudi", "--", "metric", "create"], "neither a URL"),
    (["gnudi", "gnudi", "--", "metric", "make"], "unrecognized subcommand"),
    (["gnudi", "gnudi", "--", "metric", "create", "--endpoint", "http://127.0.0.1"], "leave it out"),
    (["influxdb", "gnudi", "--", "metric", "create", "-n", "1"], "does not speak Gnocchi's API"),
    (["http://127.0.0.1:9", "gnudi", "--", "metric", "create", "-n", "1"], "127.0.0.1:9"),
    (["http://127.0.0.1:9", "gnudi", "--", "growth"], "starts its own servers"),
])
def test_versus_of_what_cannot_be_compared(arguments, words):
    done = versus(*arguments)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert done.stdout == ""

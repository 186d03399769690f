"""The page of `gnudi-benchmark report`: its contents for given results. (test_plots.py tests what its script draws.)"""

import json
import re
import xml.etree.ElementTree as ElementTree

from benchmark.results import experiment, measured, page, plot, sample

NASTY = '</p><script src="http://example.org">&'
RATES = {"limit": 9e4, "gnudi": 2e4, "gnocchi": 100, "victoria-metrics": 4e4}
SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)


def full():
    results = sample(*RATES)
    rows = ("push-1", "push-5000", "push-1-c64")
    results["measurements"] = [measured(row, peer, rate) for row in rows for peer, rate in RATES.items()]
    results["experiments"] = [experiment(
        "R3", "objects and omaps", "engines --only ceph", notes=["noted"],
        figures=[{"name": "writes", "value": 7, "unit": "", "better": None}],
        tables=[{"title": "kinds", "headings": ["kind", "rate", "word"],
                 "rows": [["gnudi", "11.7k/s", "7 batches of 1"], ["gnocchi", "-", "9 batches of 1"]]}],
        plots=[plot("over time", [("omap", [[0, 1], [1, 2]])])])]
    return results


def made(results, directory):
    """The page without its script, which is well-formed XML."""
    text = page(results, directory).read_text()
    ElementTree.fromstring(text.removeprefix("<!doctype html>"))
    assert len(SCRIPT.findall(text)) == 1
    return SCRIPT.sub("", text)


def between(text, start, end):
    """The text between two anchors."""
    start = text.index(f'id="{start}"')
    found = text.find(f'id="{end}"', start)
    return text[start:found] if found >= 0 else text[start:]


def attributes(text, name):
    elements = ElementTree.fromstring(text.removeprefix("<!doctype html>")).iter()
    return [json.loads(element.get(name)) for element in elements if element.get(name)]


def test_everything_that_was_found_stands_in_its_section(tmp_path):
    text = made(full(), tmp_path)
    assert "victoria-metrics wins in 3: push, 1 measure a call, 8 connections (40.0k/s against" in between(text, "words", "run")
    # Published, Gnocchi, gnudi, and both ratios.
    published = between(text, "R1", "R2")
    assert "<td>624/s</td><td>100/s</td><td>20.0k/s</td><td>200x</td><td>32.1x</td>" in published
    assert "<td>1.30k/s</td><td>-</td><td>-</td>" in published
    for part in ("gnudi-benchmark engines --only ceph", "<td>7</td>", "<td>11.7k/s</td>", "data-plot", "noted"):
        assert part in between(text, "R3", "R4"), part
    for start, end in (("R4", "R5"), ("R5", "prometheus"), ("prometheus", "further")):
        assert "Not measured in this run." in between(text, start, end)
    assert "measures a second by measures a call" in between(text, "side", "R1")
    assert not re.search("Partial:|Missing|Failed:", text)


def test_figures_stand_right_and_bars_have_a_share(tmp_path):
    text = made(full(), tmp_path)
    assert '<tr class="ours"><td class="text">gnudi</td><td>11.7k/s</td><td class="text">7 batches of 1</td></tr>' in text
    assert '<tr><td class="text">gnocchi</td><td>-</td><td class="text">9 batches of 1</td></tr>' in text
    assert '<td class="bar"><span style="width:50.00%;background:var(--line-0)">' in text
    assert '<td class="text">limit</td><td>90.0k/s</td><td class="bar"></td>' in text, "the no-op server has none"


def test_the_script_gets_what_the_plots_show(tmp_path):
    text = made(full(), tmp_path)
    pushes, over_time = attributes(text, "data-plot")
    assert pushes["lines"][1] == {"name": "gnudi", "points": [[1, 2e4], [5000, 2e4]]}
    assert over_time["lines"] == [{"name": "omap", "points": [[0, 1], [1, 2]]}]
    (standings,) = attributes(text[:text.index('<h2 id="words"')] + "</body></html>", "data-standings")
    assert ["push-1", "push, 1 measure a call, 8 connections"] in standings["rows"] and len(standings["rows"]) == 3
    # The peers of the run, but not the no-op server.
    assert {server["name"]: server["ratios"] for server in standings["servers"]} == {
        "gnudi": [1, 1, 1], "gnocchi": [0.005] * 3, "victoria-metrics": [2, 2, 2]}


def test_what_is_missing_stands_at_the_top(tmp_path):
    results = full()
    results["partial"] = "the run was interrupted"
    results["servers"][2]["missing"] = "uwsgi is missing"
    results["failures"] = [{"work": "read", "server": "gnudi", "reason": "3 calls failed"}]
    results["experiments"][0] |= {"findings": None, "missing": "no librados"}
    text = made(results, tmp_path)
    for part in ("<strong>Partial:</strong> the run was interrupted", "<strong>Missing: gnocchi</strong> uwsgi is missing",
                 "<strong>Failed: gnudi, read</strong> 3 calls failed", "<strong>Missing: objects and omaps</strong> no librados"):
        assert part in text[:text.index('id="words"')], part


def test_nothing_comes_from_outside_and_nothing_gets_out_of_its_place(tmp_path):
    results = full()
    results |= {"command": NASTY, "commit": NASTY, "partial": NASTY}
    results["servers"][1] |= {"missing": NASTY, "durability": NASTY}
    results["versions"][0]["version"] = results["machine"]["processor"] = NASTY
    results["measurements"][0] |= {"notes": [NASTY], "variant": NASTY}
    found = results["experiments"][0]
    found |= {"title": NASTY, "command": NASTY}
    findings = found["findings"]
    findings |= {"title": NASTY, "partial": NASTY, "notes": [NASTY]}
    findings["figures"][0] |= {"name": NASTY, "value": NASTY}
    findings["tables"][0]["rows"][0][0] = NASTY
    findings["plots"] = [plot(NASTY, [(NASTY, [[0, 1]])], marks=[(0, NASTY)])]
    results["experiments"].append({**found, "table": NASTY})
    text = made(results, tmp_path)
    assert NASTY in [found["title"] for found in attributes(text, "data-plot")]
    for outside in ("<script", "<link", "<img", 'src="', "url(", "@import", 'href="http'):
        assert outside not in text, outside


def test_an_empty_run_has_a_page(tmp_path):
    assert "Nothing was measured." in made(sample(), tmp_path)

"""The plots of `gnudi-benchmark report`, as a real browser draws them from the numbers in the page."""

import html.parser
import re
import shutil
import subprocess

import pytest

from benchmark.results import experiment, measured, page, plot, sample

pytestmark = pytest.mark.slow

TIMEOUT_S = 180
NASTY = '</p><script src="http://example.org">&'
WIDE = [[index / 100, index % 97 * 1e5] for index in range(20_000)]
# Values, whether their axis is logarithmic, and its ticks.
TICKS = [
    ([10, 1_150_000], False, ["0", "200k", "400k", "600k", "800k", "1M", "1.2M"]),
    ([0.1, 0.7], False, ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]),
    ([-3, 4], False, ["-3", "-2", "-1", "0", "1", "2", "3", "4"]),
    ([0], False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ([1e9, 2.5e9], False, ["0", "500M", "1G", "1.5G", "2G", "2.5G"]),
    ([1, 1e6], True, ["1", "10", "100", "1k", "10k", "100k", "1M"]),
    ([16, 16_384], True, ["10", "100", "1k", "10k"]),
    ([200, 900], True, ["200", "300", "500", "1k"]),
    ([50], True, ["30", "50", "100"]),
]
# Lines that are hard to draw.
HARD = [[], [("empty", [])], [("one <point>", [[3, 4]])], [("same", [[1, 5], [2, 5]]), ("bad", [[None, 1], [1, None]])],
        [("many", WIDE), ("below zero", [[0, -3], [5, 3]])], [("tiny", [[1e-9, 1e-8]]), ("large", [[1e12, 7e9]])],
        [("nothing that a logarithm has", [[0, -1]])]]


def results():
    plots = [plot(f"ticks {number}", [("a", [[1, value] for value in values])], logarithmic)
             for number, (values, logarithmic, _) in enumerate(TICKS)]
    plots += [plot(f"hard {number} {logarithmic}", lines, logarithmic, [(2, "pg_num & 2")])
              for number, lines in enumerate(HARD) for logarithmic in (False, True)]
    plots += [plot("rising", [("a", [[0, 0], [10, 1_234_567]])]),
              plot("styles", [(name, [[0, 1]]) for name in ("first", "gnudi", "constructor", "gnocchi", "third")]),
              plot("marks", [("a", [[0, 0], [1000, 1]])], marks=[(500, "the group splits"), (999, "the group splits")]),
              plot(NASTY, [(NASTY, [[0, 1]])], marks=[(0, NASTY)])]
    rates = {"push-1": 5, "push-10": 2000, "push-500": 300}
    found = sample("limit", "gnudi", "gnocchi")
    found["measurements"] = [measured(row, "gnudi", 1000) for row in ("push-1", "push-10", "push-100", "push-500")]
    found["measurements"] += [measured(row, "gnocchi", rate) for row, rate in rates.items()]
    found["experiments"] = [experiment("growth", "", "growth", plots=plots)]
    return found


class Element:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.text, self.tooltip = tag, dict(attributes), "", ""

    def is_a(self, kind):
        return kind in self.attributes.get("class", "").split()


class Drawings(html.parser.HTMLParser):
    """The drawings of a page, by title: the elements of each, without those of its legend."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.of, self.scripts, self.path = {}, 0, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        if tag == "svg":
            self.of[dict(attributes)["aria-label"]], self.path = [], [Element(tag, attributes)]
        elif self.path:
            self.path.append(Element(tag, attributes))
            list(self.of.values())[-1].append(self.path[-1])

    def handle_endtag(self, _tag):
        if self.path:
            self.path.pop()

    def handle_data(self, data):
        if self.path and self.path[-1].tag == "title":
            self.path[-2].tooltip = data
        elif self.path:
            self.path[-1].text = data


@pytest.fixture(scope="module")
def drawings(module_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "missing: chromium (Debian's name)"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={module_path / 'browser'}", "--dump-dom"]
    done = subprocess.run([*command, f"file://{page(results(), module_path)}"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return Drawings(done.stdout)


def texts(drawings, title, kind, anchor=None):
    return [found.text for found in drawings.of[title] if found.tag == "text" and found.is_a(kind)
            and anchor in (None, found.attributes["text-anchor"])]


def lines(drawings, title, count):
    """The places of the last lines of a drawing: those before are of its legend."""
    found = [found for found in drawings.of[title] if found.is_a("line")][-count:]
    return [[[float(number) for number in part.split()] for part in re.split("[ML]", line.attributes["d"])[1:]] for line in found]


@pytest.mark.parametrize("number", range(len(TICKS)))
def test_ticks_are_round(drawings, number):
    assert texts(drawings, f"ticks {number}", "tick", "end") == TICKS[number][2]
    (places,) = lines(drawings, f"ticks {number}", 1)
    assert len(places) == len(TICKS[number][0]) and all(34 <= y <= 34 + 260 for _, y in places), "within the axis"


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("number", range(len(HARD)))
def test_hard_lines_are_drawn(drawings, number, logarithmic):
    drawing = drawings.of[f"hard {number} {logarithmic}"]
    values = [value for found in drawing for value in found.attributes.values()]
    assert not any(re.search("NaN|Infinity|undefined|null", value) for value in values), values
    points = [point for _, points in HARD[number] for point in points if None not in point]
    shown = any(min(point) > 0 or not logarithmic for point in points)
    assert ("nothing was measured" in [found.text for found in drawing]) == (not shown)


def test_higher_values_stand_higher_and_later_ones_further_right(drawings):
    ((first, last),) = lines(drawings, "rising", 1)
    assert first[0] < last[0] == 736 and first[1] > last[1]
    assert "a: 1.235M at 10 seconds" in [found.tooltip for found in drawings.of["rising"]]


def test_a_server_has_one_style_everywhere(drawings):
    def styles(title):
        return {found.tooltip: found.attributes["style"] for found in drawings.of[title] if found.is_a("line")}

    found = styles("styles")
    assert len(set(found.values())) == 5, found
    standings = next(styles(title) for title in drawings.of if title.startswith("All rows"))
    assert {name: found[name] for name in ("gnudi", "gnocchi")} == standings


def test_labels_of_marks_stand_in_rows_of_their_own_within_the_plot(drawings):
    labels = [found.attributes for found in drawings.of["marks"] if found.text == "the group splits"]
    assert [(label["y"], label["text-anchor"]) for label in labels] == [("42.0", "start"), ("62.0", "end")]


def test_all_rows_in_one_drawing(drawings):
    title = next(title for title in drawings.of if title.startswith("All rows"))
    assert texts(drawings, title, "tick", "end") == ["push-1", "push-10", "push-100", "push-500"]
    # The better figure stands further right; a row without a figure breaks the line.
    (line,) = [found for found in drawings.of[title] if found.is_a("line") and found.tooltip == "gnocchi"][1:]
    assert re.sub("[^ML]", "", line.attributes["d"]) == "MLM"
    (places,) = lines(drawings, title, 1)
    assert places[0][0] < places[2][0] < places[1][0] and places[0][1] < places[1][1] < places[2][1]
    assert "gnocchi: 0.005x, push, 1 measure a call, 8 connections" in [found.tooltip for found in drawings.of[title]]


def test_texts_are_no_markup(drawings):
    assert drawings.scripts == 1, "the page's own"
    assert NASTY in texts(drawings, NASTY, "label") and NASTY in [found.tooltip for found in drawings.of[NASTY]]

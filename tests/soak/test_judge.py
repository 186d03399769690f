"""Which series the soak calls flat, on series with a known answer."""

import random
import xml.etree.ElementTree as ElementTree

import pytest

from soak import chart
from soak.judge import DISK, MEMORY, MIB, PARTS, Quantity, finding, floors, judge, over_lives, slope
from soak.run import Report

RSS = Quantity("rss", "resident memory", "MiB", 16, 1 / MIB)
SECONDS = 1800
EVERY_S = 2


def noise(seed, size):
    rng = random.Random(seed)
    return lambda: rng.uniform(-size, size)


def series(value):
    """`value(second)` over half an hour, in MiB."""
    times = list(range(0, SECONDS, EVERY_S))
    return times, [value(time) for time in times]


def judged(value):
    return finding(RSS, "life 1", *series(value))


@pytest.mark.parametrize("seed", range(5))
def test_a_flat_series_with_noise_is_flat(seed):
    wobble = noise(seed, 12)
    found = judged(lambda time: 80 + wobble())
    assert found.passed() and abs(found.growth) < 4


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_leak_grows(seed):
    """20 MiB in half an hour, under noise of the same size."""
    wobble = noise(seed, 10)
    found = judged(lambda time: 80 + 20 * time / SECONDS + wobble())
    assert not found.passed() and 15 < found.growth < 25
    assert "GROWS" in str(found)


@pytest.mark.parametrize("period_s", [20, 60, 110, 170])
def test_a_sawtooth_is_flat(period_s):
    """A buffer that fills and is emptied; 40 MiB, often."""
    assert judged(lambda time: 80 + 40 * (time % period_s) / period_s).passed()


def test_a_sawtooth_on_a_slope_grows():
    assert not judged(lambda time: 80 + 40 * (time % 60) / 60 + 30 * time / SECONDS).passed()


def test_a_staircase_grows():
    """Each flame graph leaves something."""
    assert not judged(lambda time: 80 + 5 * (time // 300)).passed()


def test_peaks_are_no_trend():
    assert judged(lambda time: 80 + (300 if time % 400 < 30 else 0)).passed()
    assert judged(lambda time: 80 + (300 if time > SECONDS - 100 else 0)).passed()


def test_what_shrinks_is_flat():
    assert judged(lambda time: 200 - 100 * time / SECONDS).passed()


def test_floors_and_slope():
    points = floors(list(range(120)), [float(time) for time in range(120)], 12)
    assert len(points) == 12 and points[0][1] == 2
    assert slope(points) == pytest.approx(1, rel=0.02)
    assert len(floors([5.0], [1.0])) == 1


def sample(time, life, **more):
    return {"time": time, "life": life, "rss": 80 * MIB, "anon": 60 * MIB, "handles": 50, "threads": 12, "disk": 200 * MIB,
            "requests": time * 80, **more}


LIVES_S = [900, 200, 200, 200, 200, 200]


def run_of(**quantities):
    """Samples of a whole run: each quantity is a function of (time, life, age in it)."""
    samples, time = [], 0
    for life, seconds in enumerate(LIVES_S, start=1):
        for age in range(0, seconds, EVERY_S):
            samples.append(sample(time + age, life, **{key: of(time + age, life, age) for key, of in quantities.items()}))
        time += seconds + 5
    return samples


def growing(samples):
    return {(found.quantity.key, found.over) for found in judge(samples) if not found.passed()}


def test_a_flat_run_passes():
    found = judge(run_of())
    assert {finding.quantity.key for finding in found} == {"rss", "anon", "handles", "threads", "disk"}
    assert all(finding.passed() for finding in found)


def test_the_warm_up_does_not_count():
    assert not growing(run_of(rss=lambda time, life, age: (80 if age > 50 else 30) * MIB))


def test_handles_that_are_not_closed_grow():
    assert ("handles", "life 1") in growing(run_of(handles=lambda time, life, age: 50 + age // 30))


def test_what_each_life_leaves_to_the_next_grows():
    found = growing(run_of(anon=lambda time, life, age: (60 + 8 * life) * MIB))
    assert found == {("anon", "5 lives at the same age")}


def test_a_first_life_on_an_empty_store_is_no_trend():
    assert over_lives(run_of(rss=lambda time, life, age: (80 if life > 1 else 30) * MIB), [1, 2, 3, 4, 5, 6], MEMORY[0]).passed()


def test_few_or_short_lives_are_not_compared():
    assert over_lives(run_of(), [1, 2, 3], MEMORY[0]) is None
    assert judge([sample(time, 1) for time in range(0, 30, EVERY_S)]) == []


def test_a_disk_that_is_not_freed_grows():
    assert growing(run_of(disk=lambda time, life, age: (200 + time / 8) * MIB)) == {("disk", "the whole run")}


def test_the_page_is_well_formed(tmp_path):
    report = Report(7, 30, run_of(), [(905.0, "SIGTERM"), (1110.0, "kill -9")], ["a fault with <brackets>"], 1000, 3)
    report.findings = judge(report.samples)
    report.write(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    root = ElementTree.fromstring(page.replace("<!DOCTYPE html>", "").replace('<meta charset="utf-8">', ""))
    assert len(list(root.iter("svg"))) == 4
    assert "&lt;brackets&gt;" in page and "prefers-color-scheme: dark" in page
    assert not report.passed()
    assert f"{DISK.growth_max:g} allowed" in str(report)
    assert "http" not in page.split("</style>")[1], "nothing comes from elsewhere"


@pytest.mark.parametrize("top,expected", [(0.1, 4), (3.5, 4), (4, 4), (5, 8), (33, 40), (170, 320)])
def test_axes_end_at_round_numbers(top, expected):
    assert chart.nice(top) == expected


def test_parts_are_enough_for_a_trend():
    assert PARTS >= 8

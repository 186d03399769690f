"""Pipeline files, compared with Ceilometer's own managers: the routes, and which files are refused."""

import json
import random

import pytest

from telemetry import values

ROUNDS = 150

NAMES = ["cpu", "cpu.util", "disk.read.bytes", "disk.write.bytes", "memory", "network.in", "a", "b", ""]
PATTERNS = ["*", "cpu", "cpu*", "disk.*", "*.bytes", "?", "[ab]", "[!a]", "network.??", "memory", "a", "b", "disk.*.bytes"]
SINKS = ["k", "l", "m"]


def test_wildcards_fit_as_fnmatch_has_them(ours, theirs, seed, rounds):
    rng = random.Random(seed)
    characters = "ab-]![*?^\\.é\n"
    pairs = [[values.text(rng, characters), values.text(rng, "ab-]!.^\\é\n")] for _ in range(rounds * 100)]
    fits, expected = ours.ask({"globs": pairs}), theirs.ask({"globs": pairs})
    wrong = [(pair, is_fit) for pair, is_fit, should in zip(pairs, fits, expected) if is_fit != should]
    assert not wrong, wrong[:10]
    assert any(expected) and not all(expected)


def selection(rng):
    kind = rng.randrange(5)
    patterns = rng.sample(PATTERNS, rng.randrange(1, 4))
    if kind == 0:
        return ["*"]
    if kind == 1:
        return patterns
    if kind == 2:
        return [f"!{pattern}" for pattern in patterns]
    if kind == 3:
        return ["*"] + [f"!{pattern}" for pattern in patterns]
    return [rng.choice(["", "!"]) + pattern for pattern in patterns]


def file(rng, key):
    """Mostly right, and wrong in one of the ways that both know."""
    sinks = [
        {"name": name, "publishers": rng.sample(["test://1", "test://2?x=y", "test", "other://h"], rng.randrange(1, 3))}
        for name in SINKS[: rng.randrange(1, 4)]
    ]
    sources = [
        {"name": f"s{at}", key: selection(rng), "sinks": rng.sample(SINKS[: len(sinks)], rng.randrange(1, len(sinks) + 1))}
        for at in range(rng.randrange(1, 4))
    ]
    made = {"sources": sources, "sinks": sinks}
    fault = rng.randrange(24)
    source, sink = rng.choice(sources), rng.choice(sinks)
    if fault == 0:
        del made[rng.choice(["sources", "sinks"])]
    elif fault == 1:
        del source[rng.choice(list(source))]
    elif fault == 2:
        del sink[rng.choice(list(sink))]
    elif fault == 3:
        sources.append(dict(source))
    elif fault == 4:
        sinks.append(dict(sink))
    elif fault == 5:
        source["sinks"] = [*source["sinks"], rng.choice(["nowhere", source["sinks"][0]])]
    elif fault == 6:
        source[rng.choice([key, "sinks"])] = []
    elif fault == 7:
        sink["publishers"] = rng.choice([[], None])
    elif fault == 8:
        source["interval"] = 600
    elif fault == 9:
        sink["transformers"] = None
    elif fault == 10:
        made = [made]
    elif fault == 11:
        source[key] = None
    return made


@pytest.mark.parametrize("key", ["meters", "events"])
def test_names_go_where_ceilometer_sends_them(ours, theirs, seed, rounds, tmp_path, key):
    rng = random.Random(seed)
    refused = 0
    for number in range(rounds):
        path = tmp_path / f"{number}.yaml"
        path.write_text(json.dumps(file(rng, key), indent=1))
        batches = [[rng.choice(NAMES) for _ in range(rng.randrange(1, 5))] for _ in range(6)]
        line = {"route": str(path), "events": key == "events", "batches": batches}
        got, expected = ours.ask(line), theirs.ask(line)
        if "error" in expected:
            assert "error" in got, (expected, path.read_text())
            assert got["error"].startswith(f"{path}:"), got
            refused += 1
        else:
            assert got == {"published": expected["published"]}, path.read_text()
    assert 0 < refused < rounds


def test_volumes_that_are_no_numbers_are_dropped(ours, theirs, tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "sources: [{name: s, meters: ['*'], sinks: [k]}]\nsinks: [{name: k, publishers: ['test://']}]\n"
    )
    volumes = [0, -1.5, True, "12", " 1e3 ", "nan", "1_0", None, "x", ""]
    batches = [[[f"m{at}", volume] for at, volume in enumerate(volumes)]]
    line = {"route": str(path), "events": False, "batches": batches}
    assert ours.ask(line) == theirs.ask(line)
    assert ours.ask(line)["published"] == {"test://": [["m0", "m1", "m2", "m3", "m4", "m5", "m6"]]}
    # Ceilometer fails over these, and takes the message again and again.
    line["batches"] = [[["good", 1], ["list", [1]], ["map", {"a": 1}]]]
    assert ours.ask(line)["published"] == {"test://": [["good"]]}


@pytest.mark.parametrize("text, parts", [
    ("a: [", ["line 1"]),
    ("- name: meter_pipeline\n  counters: ['*']\n", [":1: ", "2013", "`sources`"]),
    (
        "sources: []\nsinks:\n  - name: cpu_sink\n    transformers:\n      - name: rate_of_change\n    publishers: [notifier://]\n",
        [":5: sinks[0].transformers", "rate:mean"],
    ),
    ("sources:\n  - name: s\n    meters: cpu\n    sinks: [k]\nsinks: [{name: k, publishers: [x]}]\n", [":3: ", '["cpu"]']),
])
def test_what_is_refused_is_named_with_its_line(ours, tmp_path, text, parts):
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    error = ours.ask({"route": str(path), "events": False, "batches": []})["error"]
    for part in [str(path), *parts]:
        assert part in error, error

"""Meter and event definitions: the same samples and events as Ceilometer's own classes make.

The telemetry crate's example `definitions` answers for gnudi, `oracle/definitions.py` in the cloud's environment for
Ceilometer. No servers. `--rounds` and `--seed` as for the other random tests.
"""

import json
import random
import subprocess
import threading

import pytest

from support import cloud_venv
from support.gnudi import ROOT, example

ROUNDS = 800
SHOWN_CHARACTERS_MAX = 2000
ORACLE = ROOT / "tests" / "oracle" / "definitions.py"


class Peer:
    """A program that answers lines of JSON."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, tasks):
        def write():
            for task in tasks:
                self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        lines = [self.process.stdout.readline() for _ in tasks]
        writer.join()
        for task, line in zip(tasks, lines):
            assert line, f"no answer to {json.dumps(task)}"
        return [json.loads(line) for line in lines]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def peer(command):
    started = Peer(command)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def ours():
    yield from peer([example("gnudi-telemetry", "definitions")])


@pytest.fixture(scope="module")
def ceilometer():
    yield from peer([cloud_venv.python(), "-W", "ignore", ORACLE])


def compared(task, ours, theirs):
    """Both answers in a form in which equal ones are equal texts; what an error says is each one's own business."""
    def plain(answer):
        return {key: "..." if key.endswith(("error", "refused")) else value for key, value in answer.items()}
    return repr(plain(ours)), repr(plain(theirs)), task


def assert_same(ours, ceilometer, tasks, normalise=lambda task, answer: answer):
    answers = ours.ask(tasks), ceilometer.ask(tasks)
    different = []
    for task, mine, theirs in zip(tasks, *answers):
        left, right, _ = compared(task, normalise(task, mine), normalise(task, theirs))
        if left != right:
            different.append("\n".join(json.dumps(part)[:SHOWN_CHARACTERS_MAX] for part in (task, mine, theirs)))
    assert not different, f"{len(different)} of {len(tasks)} differ: task, gnudi, Ceilometer\n" + "\n".join(different[:3])
    return answers[0]


# Paths.

NAMES = ["a", "b", "c", "'x y'", '"a"', "*", "@", "a,b", "name"]
OPERATORS = [".", ".", ".", "..", "|", " where ", " + ", " - ", " * ", "&"]
BRACKETS = ["[0]", "[*]", "[1:]", "[:-1]", "[-1]", "[2]", "[a]", "['b',c]", "[/a]", "[\\a]", "[/a,\\b]", "[/@]", "[:]", "[1:2]"]
NAMED = ["len", "sorted", "this", "parent", "split(., 0, -1)", "split(., 1, 1)", "sub(/[a-c]/, X)", "sub(/(.)(.)/, \\\\2\\\\1)",
         "split(b, 0, 0)", "sub(/.*/, )"]
CONSTANTS = ["1", "0", "-1", "2.5", "true", "false", "a", "'b.c'", "'1'"]
COMPARISONS = ["=", "==", "!=", "<", "<=", ">", ">=", "~"]


def random_path(rng, depth=0):
    kind = rng.randrange(16)
    if depth > 3 or kind < 4:
        return rng.choice(NAMES)
    if kind == 4:
        return "$"
    if kind < 9:
        return random_path(rng, depth + 1) + rng.choice(OPERATORS) + random_path(rng, depth + 1)
    if kind < 12:
        return random_path(rng, depth + 1) + rng.choice(BRACKETS)
    if kind == 12:
        return "(" + random_path(rng, depth + 1) + ")"
    if kind == 13:
        return f"{random_path(rng, depth + 1)}.`{rng.choice(NAMED)}`"
    if kind == 14:
        return random_path(rng, depth + 1) + "[?" + " & ".join(random_condition(rng, depth) for _ in range(rng.choice([1, 1, 2]))) + "]"
    number = rng.choice(["1", "2", "1.5", "-1"])
    return rng.choice([f"{random_path(rng, depth + 1)} * {number}", f"{number} + {random_path(rng, depth + 1)}"])


def random_condition(rng, depth):
    target = random_path(rng, depth + 2)
    condition = target if rng.random() < 0.2 else f"{target} {rng.choice(COMPARISONS)} {rng.choice(CONSTANTS)}"
    return f"({condition})" if rng.random() < 0.3 else condition


def damaged(rng, path):
    """Some paths that nobody should write: both sides must refuse the same ones."""
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(path) + 1)
        path = path[:at] + rng.choice(list(".[]()$*|&?@+-,/\\'`:=<~ 1a") + ["", "true", "where", "..", "1.5"]) + path[at + rng.randrange(2):]
    return path


def random_value(rng, depth=0):
    kind = rng.randrange(12 if depth < 4 else 7)
    if kind < 7:
        return rng.choice([None, True, False, 0, 1, 2, -3, 0.5, 2.0, 1e22, "", "a", "b.c", "1", " 7 ", "abcab", "é", 2**63, "1_0"])
    if kind < 9:
        same = random_value(rng, depth + 1)
        return [random_value(rng, depth + 1) if rng.random() < 0.6 else same for _ in range(rng.randrange(5))]
    names = rng.sample(["a", "b", "c", "x y", "name", "*", "z"], rng.randrange(6))
    return {name: random_value(rng, depth + 1) for name in names}


def test_random_paths_find_the_same(ours, ceilometer, seed, rounds):
    rng = random.Random(seed)
    tasks = []
    for _ in range(rounds):
        path = damaged(rng, random_path(rng)) if rng.random() < 0.3 else random_path(rng)
        document = random_value(rng)
        if not isinstance(document, dict):
            document = {"a": document, "b": random_value(rng)}
        tasks.append({"do": "path", "path": path, "document": document})

    def normalise(task, answer):
        # DIFFERS: an expression that is none is refused at once, and not only where a text comes to be matched. Python's errors of
        # expressions are called `error`.
        refused = answer.get("refused", "")
        return {"values": []} if "Parsing error" in refused or refused.startswith("error(") else answer
    answers = assert_same(ours, ceilometer, tasks, normalise)
    found = sum(bool(answer.get("values")) for answer in answers)
    refused = sum("refused" in answer for answer in answers)
    assert found > rounds // 20 and refused > rounds // 50, "the paths are too strange, or too well-behaved, to compare anything"


# Fields and plug-ins.

def random_plugin(rng):
    name = rng.choice(["split", "bitfield", "timedelta", "map", "nope"])
    parameters = {
        "split": lambda: {"separator": rng.choice([".", "b", ", ", None]), "segment": rng.choice([0, 1, -1]), "max_split": rng.choice([None, 1, 0])},
        "bitfield": lambda: {"initial_bitfield": rng.randrange(4), "flags": [
            {"path": rng.choice(["a", "b.[0]", "a.b"]), "bit": rng.choice([0, 3, "4"])} | rng.choice([{}, {"value": rng.choice([1, "a", True])}])
            for _ in range(2)]},
        "map": lambda: {"values": rng.choice([{"a": 1, "B.c": 2}, {"abcab": "x"}, {"SS": 1, "Ü": 2}, {}]), "case_sensitive": rng.random() < 0.5, "default": rng.choice([None, -1])},
    }.get(name, dict)()
    return rng.choice([name, {"name": name}, {"name": name, "parameters": parameters}, {"name": name, "parameters": parameters}])


def random_field(rng):
    path = lambda: rng.choice(["a", "b", "$.a", "a.b", "a[*]", "b[*]", "*", "b[0]", random_path(rng, 3)])
    fields = rng.choice([path(), [path()], [path(), path()], [path(), path(), path()], 7, [], True])
    if rng.random() < 0.4:
        return fields
    field = {"fields": fields, "plugin": random_plugin(rng)}
    return {key: value for key, value in field.items() if rng.random() < 0.95}


def test_random_fields_have_the_same_values(ours, ceilometer, seed, rounds):
    rng = random.Random(seed)
    times = ["2026-01-02T03:04:05", "2026-01-02 03:05:05.5", "20260102", "2026-01-02T03:04:05+02:00", "x"]
    tasks = []
    for _ in range(rounds):
        document = {"a": random_value(rng, 2), "b": random_value(rng, 2)}
        if rng.random() < 0.3:
            document = {"a": rng.choice(times), "b": rng.choice(times)}
        tasks.append({"do": "field", "field": random_field(rng), "all": rng.random() < 0.4, "document": document})
    assert_same(ours, ceilometer, tasks)


# Samples and events.

def in_common(task, answer):
    """What both agree on: ids of samples are each one's own, parts that are no texts become texts here."""
    answer = dict(answer)
    samples = answer.get("samples") or []
    for sample in samples:
        for key in ["name", "unit", "user_id", "user_name", "project_id", "project_name", "resource_id"]:
            if sample[key] is not None:
                sample[key] = str(sample[key])
        # DIFFERS: what is nothing there is an empty text here.
        sample["resource_id"] = sample["resource_id"] or ""
        sample["unit"] = sample["unit"] or ""
    if any(sample["name"] is None for sample in samples):
        # DIFFERS: a sample without a name is an error here, and makes the pipeline fail there.
        answer = {key: value for key, value in answer.items() if key != "samples"} | {"sample_error": "no name"}
    answer["samples"] = [dict(sorted(sample.items())) for sample in samples] if "samples" in answer else None
    if answer.get("event"):
        answer["event"]["traits"].sort()
    return dict(sorted(answer.items()))


def test_shipped_definitions_make_the_same_samples_and_events(ours, ceilometer, seed, rounds):
    messages = ceilometer.ask([{"do": "generate", "seed": seed, "count": rounds}])[0]
    tasks = [{"do": "notification", **message} for message in messages]
    answers = assert_same(ours, ceilometer, tasks, in_common)
    assert sum(len(answer.get("samples") or []) for answer in answers) > rounds // 2
    names = {sample["name"] for answer in answers for sample in answer.get("samples") or []}
    assert len(names) > 34, names
    assert sum(bool(answer.get("event")) for answer in answers) > rounds // 2


def test_sensors_and_requests_make_the_same_samples(ours, ceilometer):
    sensors = {
        "Temperature": {"a": {"Sensor ID": "Inlet Temp (0x5)", "Sensor Reading": "21 (+/- 1) degrees C", "States Asserted": "x"},
                        "b": {"Sensor ID": "Off (0x6)", "Sensor Reading": "Disabled"}, "c": {"Sensor Reading": "1 degrees C"}, "d": {}},
        "Voltage": {"a": {"Sensor ID": "Volt É", "Sensor Reading": "230.5 (+/- 0) Volts"}, "b": {"Sensor ID": "b"}},
        "Current": {"a": {"Sensor ID": "Pwr Consumption (0x76)", "Sensor Reading": "154 (+/- 0) Watts"},
                    "b": {"Sensor ID": "Current 1", "Sensor Reading": "0.7 (+/- 0) Amps", "node": "other"}},
        "Fan": {"a": {"Sensor ID": "Fan 1", "Sensor Reading": "4200 (+/- 50) RPM"}, "b": {"Sensor ID": "Fan 2", "Sensor Reading": "fast"},
                "c": {"Sensor ID": "Fan 3", "Sensor Reading": "fast RPM"}},
        "Power": {"a": {"Sensor ID": "Power", "Sensor Reading": "1 (+/- 0) Watts"}},
    }
    ironic = {"node_uuid": "n", "timestamp": "2026-01-01T00:00:00.5", "event_type": "hardware.ipmi.metrics.update", "payload": sensors}
    owned = {**ironic, "user_id": "u", "project_id": "p"}
    without_node = {key: value for key, value in ironic.items() if key != "node_uuid"}
    request = {"request": {"HTTP_X_USER_ID": "u", "HTTP_X_PROJECT_ID": "p", "HTTP_X_SERVICE_NAME": "s", "PATH_INFO": "/"}}
    messages = [("hardware.ipmi.metrics", payload) for payload in [ironic, owned, without_node, {**ironic, "payload": {}}]]
    messages += [("http.request", request), ("http.response", {**request, "response": {"status": 200}}), ("http.request.x", request)]
    messages += [("http.request", {"request": {}}), ("http.request", {}), ("x.http.request", request), ("x.hardware.ipmi.metrics", ironic)]
    tasks = [{"do": "notification", "priority": "info", "message": {
        "ctxt": {}, "publisher_id": "p.q", "event_type": event_type, "payload": payload,
        "metadata": {"message_id": "m", "timestamp": "2026-01-02 03:04:05.6"}}} for event_type, payload in messages]
    answers = assert_same(ours, ceilometer, tasks, in_common)
    assert [len(answer.get("samples") or []) for answer in answers] == [4, 4, 0, 0, 1, 1, 1, 1, 0, 0, 0]


# Files of one's own.

METERS = """
metric:
  - {name: one, type: gauge, unit: B, event_type: 'a.*', volume: $.payload.v, resource_id: $.payload.r}
  - name: one
    event_type: [a.b, 'c.(d|e)$']
    type: delta
    unit: 'payload.unit'
    volume: {fields: payload.v, plugin: {name: split, parameters: {segment: 1}}}
    resource_id: payload.r
    user_metadata: payload.metadata
    metadata: {x: 'payload.list[?@.k > 1].v', n: payload.v, c: 7, joined: 'payload.r + "-" + payload.v'}
    timestamp: payload.time
  - name: payload.list[*].k
    event_type: a.
    type: payload.list[*].type
    unit: payload.list[*].unit
    volume: payload.list[*].v
    resource_id: payload.list[*].r
    user_id: payload.u
    lookup: [name, type, volume]
  - name: $.payload.list[*].k
    type: gauge
    event_type: c
    unit: payload.list[*].unit
    volume: payload.v
    resource_id: payload.r
    lookup: name
  - {name: constant, type: cumulative, unit: s, event_type: c.e, volume: 3, resource_id: '$.payload.list.`len`'}
  - {name: broken type, type: nope, unit: s, event_type: c, volume: 3, resource_id: x}
  - {name: no volume, type: gauge, unit: s, event_type: c, resource_id: x}
  - {name: bad path, type: gauge, unit: '%', event_type: c, volume: x, resource_id: x}
  - {name: bad plugin, type: gauge, unit: s, event_type: c, volume: {fields: x, plugin: nope}, resource_id: x}
  - {name: no fields, type: gauge, unit: s, event_type: c, volume: {plugin: split}, resource_id: x}
"""
MORE_METERS = """
metric:
  - {name: constant, type: gauge, unit: z, event_type: .*, volume: 9, resource_id: payload.r}
  - &last {name: late, type: gauge, unit: z, event_type: c.e, volume: 9, resource_id: payload.r}
  - {<<: *last, name: later, metadata: {}}
"""
EVENTS = """
- event_type: ['*', '!c.*']
  traits: &common
    number: {fields: payload.v, type: int}
    float: {fields: [payload.u, payload.v], type: float}
    untyped: {fields: payload.u, type: none}
    when: {fields: payload.time, type: datetime}
- event_type: a.[b-c]
  traits:
    <<: *common
    number: {fields: payload.v, type: Text}
    user_id: payload.u
    flags:
      fields: [payload.r, payload.v]
      type: int
      plugin: {name: bitfield, parameters: {flags: [{path: payload.r, bit: 1}, {path: payload.v, bit: 0, value: '1'}]}}
    mapped: {fields: payload.u, plugin: {name: map, parameters: {values: {a: b, ü: c, 1: n, 2.5: f, '5': t, yes: o}, default: d}}}
    list: payload.list
- event_type: '!*.*'
  traits: {all: 'payload.*', kind: {fields: payload.list, type: tExt}}
"""


def random_message(rng):
    text = lambda: rng.choice(["a", "ü", "1", "2.5", " 3 ", "x.y", "", None, 5, 1.5, True, {"b": 1, "a": [None]}, ["q"]])
    item = lambda: {key: value for key, value in {
        "k": rng.choice(["m", "n", 2, 0, None]), "v": rng.choice([1, 2.5, "3", None]), "unit": "u", "r": text(),
        "type": rng.choice(["gauge", "gauge", "delta", "nope"])}.items() if rng.random() < 0.93}
    payload = {
        "v": text(), "r": text(), "u": text(), "unit": text(), "list": [item() for _ in range(rng.randrange(4))],
        "time": rng.choice(["2026-01-02T03:04:05+02:00", "20260102", "", None, "2026-02-30", 5]),
        "metadata": rng.choice([None, {}, {"metering.a.b": "w" * 300, "metering.x": 1, "y": 2}, {"y": 1}, "text", []]),
    }
    payload = {key: value for key, value in payload.items() if rng.random() < 0.9}
    if rng.random() < 0.1:
        payload = rng.choice([None, [], "x", {"list": 5}, {"list": {"k": 1}}])
    return {
        "ctxt": {"user_id": "u", "project_id": "p", "ctxt": {"user": "within", "tenant_id": 5}} if rng.random() < 0.5 else {},
        "publisher_id": "p.q", "event_type": rng.choice(["a.b", "a.c", "a.", "c.d", "c.e", "c.ex", "c", "x.a.b", ""]),
        "payload": payload,
        "metadata": {"message_id": "m", "timestamp": rng.choice(["2026-01-02 03:04:05.6", "2026-01-02 03:04:05", "x"] + ["2026-01-02"] * 5)},
    }


def test_own_files_make_the_same_samples_and_events(ours, ceilometer, seed, rounds, tmp_path):
    folders = [tmp_path / "second", tmp_path / "first", tmp_path / "missing"]
    for folder, name, text in [(0, "z.yaml", METERS), (1, "a.yaml", MORE_METERS), (1, "ignored.yml", "metric: 5"), (1, ".b.yaml", "[")]:
        folders[folder].mkdir(exist_ok=True)
        (folders[folder] / name).write_text(text)
    file = tmp_path / "event_definitions.yaml"
    file.write_text(EVENTS)
    rng = random.Random(seed)
    for drop, raw in [(False, []), (True, ["INFO"])]:
        setup = [{"do": "meters", "folders": [str(folder) for folder in folders]},
                 {"do": "events", "file": str(file), "drop": drop, "raw": raw}]
        tasks = [{"do": "notification", "priority": rng.choice(["info", "error"]), "message": random_message(rng)}
                 for _ in range(rounds // 2)]
        answers = assert_same(ours, ceilometer, setup + tasks, in_common)
        assert answers[0] == {"meters": 6}
        made = [answer for answer in answers if answer.get("samples") and answer.get("event")]
        assert len(made) > len(tasks) // 20
    again = [{"do": "meters", "folders": None}, {"do": "events", "file": None, "drop": False, "raw": []}]
    ours.ask(again), ceilometer.ask(again)

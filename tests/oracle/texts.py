#!/usr/bin/env python3
"""Compares how gnudi reads and prints texts with the libraries that define Gnocchi's API, on random input.

Needs the Python packages gnocchi==4.7.1 and numpy, and the example of the API crate:

    cargo build -p gnudi-api --example answers
    python tests/oracle/texts.py [--cases 20000] [--seed 1] [--program target/debug/examples/answers]

Compared are floats as Python prints them, JSON documents as ujson reads them, spans of time, measures in both forms of a request, and
operations of /v1/aggregates as lists and texts. Known differences: where Gnocchi fails (500), gnudi refuses; times beyond 64-bit
nanoseconds become other times in Gnocchi, and are refused here; a lone surrogate and a bare `-` are no JSON here; Gnocchi accepts a
resampling by `var` and fails later.
"""

import argparse
import datetime
import json
import math
import random
import re
import struct
import subprocess
import sys
import uuid
import warnings

import iso8601
import numpy
import ujson
import voluptuous
from gnocchi import utils
from gnocchi.rest import api
from gnocchi.rest.aggregates import api as aggregates

warnings.simplefilter("ignore")
NOW = 1_795_264_496_789_012_345
NAT = -(2**63)
DEPTH_MAX = 64


class Gnudi:
    """The example program, asked a batch of lines at a time."""

    def __init__(self, program):
        self.program = program

    def ask(self, lines):
        data = b"\n".join(lines) + b"\n"
        done = subprocess.run([self.program], input=data, stdout=subprocess.PIPE, check=True)
        answers = done.stdout.decode().split("\n")[:-1]
        assert len(answers) == len(lines), f"{len(answers)} answers to {len(lines)} lines"
        return answers


def frozen_now():
    return datetime.datetime.fromtimestamp(NOW // 10**9, tz=iso8601.iso8601.UTC).replace(
        microsecond=NOW // 1000 % 10**6)


def bits(value):
    return "nan" if math.isnan(value) else struct.pack(">d", value).hex()


# What Gnocchi says.


def their_float(value):
    return json.dumps(value)


def their_json(text):
    try:
        return json.dumps(ujson.loads(text))
    except (ValueError, UnicodeError) as error:
        return f"error {error}"


def their_span(value):
    try:
        return str(int(utils.to_timespan(value).astype("int64")))
    except ValueError as error:
        return f"error {error}"


class Aborted(Exception):
    """What Gnocchi answers at once."""


def abort(_status, detail):
    raise Aborted(detail["detail"])


def their_operations(text):
    schema = voluptuous.Schema({"operations": aggregates.OperationsSchema}, required=True)
    try:
        return str(schema({"operations": ujson.loads(text)})["operations"])
    except (voluptuous.Invalid, Aborted) as error:
        return f"error {error}"
    except Exception:
        return None


def measures_of(decoded):
    return [[int(m.timestamp.astype("int64")), bits(m.value)] for m in api.MeasuresListSchema(decoded)]


def read(body, schema):
    """What the schema makes of a body, or None and the text of Gnocchi's refusal; None for both where Gnocchi fails."""
    try:
        decoded = ujson.loads(body)
    except ValueError as error:
        return None, f"error {error}"
    try:
        return schema(decoded), None
    except voluptuous.Invalid as error:
        return None, f"error {error}"
    except Exception:
        return None, None


def their_measures(body):
    """The answer, or None where Gnocchi fails or keeps what is no time."""
    measures, refusal = read(body, voluptuous.Schema(measures_of, required=True))
    if measures is None:
        return refusal
    return None if any(time == NAT for time, _ in measures) else json.dumps(measures)


def their_batch(body):
    lists, refusal = read(body, voluptuous.Schema({utils.UUID: measures_of}))
    if lists is None:
        return refusal
    if any(time == NAT for measures in lists.values() for time, _ in measures):
        return None
    return json.dumps({str(metric): measures for metric, measures in lists.items()})


# What is asked.


def random_float(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0]
    if kind == 1:
        return rng.randrange(-10**6, 10**6) / 10 ** rng.randrange(8)
    if kind == 2:
        return float(rng.randrange(-10**18, 10**18)) * 10.0 ** rng.randrange(-30, 6)
    if kind == 3:
        return rng.choice([0.0, -0.0, 1e-4, 9.999e-5, 1e16, 9999999999999998.0, math.inf, -math.inf, math.nan, 5e-324,
                           1e15, 1e22, 1e23, 0.1 + 0.2])
    if kind == 4:
        return rng.random()
    return math.ldexp(rng.choice([1, 3, 2**53 - 1]), rng.randrange(-1074, 960))


ISO = ["2015-01-01T12:30:15", "2015-01-01 12:30:15", "2015-01-01", "2015-01", "2015", "2015-01-01T12", "2015-01-01T12:30",
       "2016-02-29", "2015-02-29", "1970-01-01", "1969-12-31T23:59:59", "2262-04-11T23:47:16", "2261-12-31T23:59:59",
       "2000-12-31T23:59:59", "+2015-01-01", "  2015-01-01", "1970-01-01T00:00:00", "2100-02-29", "2000-02-29"]
FRACTION = ["", "", "", ".5", ".123456", ".123456789", ".1234567891", ".999999999999999999", ".9999999999999999999", ".", ",5"]
ZONE = ["", "", "", "Z", "z", "+00:00", "-00:00", "+01:00", "-0130", "+01", "+1", "+24:00", "+23:59", " ", "  ", "\t", "+00:60", "+00:",
        "Z ", "ZZ", "+0100x", " +01:00"]
WORDS = ["10 minutes", "-10 minutes", "+5 minutes", "- 1 hour", "1:30", "-1:30", ":30", "1:30:00", "2w 3d", "1.5 h", "1h30m",
         "5 parsecs", "1 min, 5 sec", "1/2 s", "4.1m", "1.5.1 m", ".5 s", "5. s", "1d1:00:00", "1-01:00:00", "1w, 1d 1:00:00",
         "1 MINUTE", "5mi", "00:60", "0:5", "100:00", "1:00:00.5", "--5s", "5 s ,", "5 m ,", "5 m / 3 s", "5 m,, 3s", "1 s 1 w", "now",
         "today", "Now", "NaT", "", " ", "x", "tomorrow", "30 days", "-100000 weeks", "1 year", "1w2d3h4m5s", "1.01m 1.0s"]
NUMBERS = ["1", "0", "-1", "1420128015", "1420128015.123456789", "1e3", "1E9", "-0", "-0.0", "0.1", "1.5", "9223372036.85", "1e10", "1e300",
           "123456789012345678901234567890", "4.35", "1.", "01", "NaN", "Infinity", "-Infinity", "1e400", "-1e-12"]
OTHER = ["null", "true", "false", "[]", "{}", "[1]", '{"a": 1}']


def random_string(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(ISO) + rng.choice(FRACTION) + rng.choice(ZONE)
    if kind == 1:
        return rng.choice(WORDS)
    if kind == 2:
        return rng.choice(["", " ", "+", "-"]) + rng.choice(NUMBERS) + rng.choice(["", " ", "_0", "x"])
    text = list(rng.choice(ISO + WORDS + NUMBERS))
    for _ in range(rng.randrange(3)):
        text.insert(rng.randrange(len(text) + 1), rng.choice("0123456789-+:. TZabsm_,/"))
    for _ in range(rng.randrange(2)):
        if text:
            text.pop(rng.randrange(len(text)))
    return "".join(text)


def random_value_text(rng):
    """JSON text of a timestamp or a value."""
    kind = rng.randrange(8)
    if kind < 3:
        return json.dumps(random_string(rng), ensure_ascii=rng.random() < 0.5)
    if kind < 6:
        return rng.choice(NUMBERS)
    if kind == 6:
        return rng.choice(OTHER)
    return repr(random_float(rng)).replace("inf", "Infinity").replace("nan", "NaN")


def usual_timestamp(rng, form):
    if form == "iso":
        return '"%s%s"' % (datetime.datetime(rng.randrange(1970, 2262), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24),
                                             rng.randrange(60), rng.randrange(60)).isoformat(),
                           rng.choice(["", "", ".5", ".123456", "Z", "+00:00", ".25Z"]))
    return rng.choice([str(rng.randrange(2 * 10**9)), repr(rng.random() * 2e9), "%.3f" % (rng.random() * 2e9)])


def random_list(rng):
    """A list of measures: mostly usual, with something odd here and there."""
    odd = rng.choice([0, 0, 0.1, 0.5])
    form = rng.choice(["iso", "seconds"])
    comma, colon = rng.choice([(", ", ": "), (",", ":"), (" ,\n ", "\t:  ")])
    measures = []
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
        timestamp = random_value_text(rng) if rng.random() < odd else usual_timestamp(rng, form)
        value = random_value_text(rng) if rng.random() < odd else rng.choice(
            [str(rng.randrange(-1000, 1000)), "%.2f" % rng.uniform(-100, 100), repr(rng.random()), "1e%d" % rng.randrange(-9, 9)])
        fields = [f'"timestamp"{colon}{timestamp}', f'"value"{colon}{value}']
        if rng.random() < 0.2 or rng.random() < odd:
            fields.reverse()
        if rng.random() < odd / 5:
            fields.insert(rng.randrange(3), rng.choice(['"unit": "B"', '"value": 3', '"timestamp": 7', '"time\\u0073tamp": 5']))
        if rng.random() < odd / 5:
            fields.pop()
        measures.append("{" + comma.join(fields) + "}")
    text = "[" + comma.join(measures) + "]"
    if rng.random() < odd / 5:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["", ",", "]", "{", '"', "x", " ", "1"]) + text[at + rng.randrange(2):]
    return text


def random_batch(rng):
    keys = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(rng.choice([0, 1, 2, 3]))]
    if keys and rng.random() < 0.2:
        keys.append(rng.choice([keys[0], keys[0].upper(), keys[0].replace("-", ""), "{" + keys[0] + "}", "foo", ""]))
    return "{" + ", ".join(f'"{key}": {kept_list(rng)}' for key in keys) + "}"


def kept_list(rng):
    """A list without a time that only gnudi refuses, since that hides the faults behind it."""
    while True:
        text = random_list(rng)
        if their_measures(text) is not None:
            return text


def random_json(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 2:
        text = rng.choice(NUMBERS)
    elif kind == 2:
        text = rng.choice(OTHER)
    elif kind < 5:
        text = json.dumps(rng.choice(["", "a", "é€😀", "\n\t\\\"/", "\x7f", random_string(rng)]), ensure_ascii=rng.random() < 0.5)
    elif kind == 5:
        text = "[" + ",".join(random_json(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    else:
        entries = (f"{json.dumps(rng.choice('abc'))}:{random_json(rng, depth + 1)}" for _ in range(rng.randrange(4)))
        text = "{" + ", ".join(entries) + "}"
    if depth == 0 and rng.random() < 0.3:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["", ",", "]", "}", '"', "x", " ", "1", "\\", ":"]) + text[at + rng.randrange(2):]
    return text


NAMES = ["metric", "aggregate", "rolling", "resample", "clip", "clip_min", "+", "≤", "max", "abs", "rateofchange", "mean", "rate:sum",
         "var", "last", "cpu.*", "2", "-1_0", "1e3", "nan", "5 min", "x", "", "é"]


def random_operations(rng, depth=0):
    """A list of operations, mostly one that is right."""
    inner = [random_operations(rng, depth + 1) if depth < 3 else 2 for _ in range(3)]
    name = ["cpu", rng.choice(["mean", "95pct"])]
    if rng.random() < 0.03:
        name[rng.randrange(2)] = rng.choice([1, 2.5, None, True, [], {}, "x"])
    aggregation = rng.choice(["mean", "var", "rate:median", "last"] if rng.random() < 0.2 else ["mean", "sum", "rate:max"])
    made = rng.choice([
        ["metric", *name], ["metric", *name], ["metric", *([name] * rng.randint(1, 3))], ["aggregate", aggregation, inner[0]],
        ["rolling", aggregation, rng.choice([1, "2", 2.5, 0, "x", True]), inner[0]],
        ["resample", aggregation, rng.choice([60, "1 h", 0.5, None, "x"]), inner[0]],
        [rng.choice(["+", "mod", "≥", "clip_max", "max", "div"]), *inner[:2]], ["clip", *inner[:rng.randint(2, 3)]],
        [rng.choice(["neg", "ceil", "rateofchangesec", "rateofchange"]), inner[0]],
    ])
    if rng.random() < 0.12:
        at = rng.randrange(len(made) + 1)
        made = made[:at] + rng.choice([[], [rng.choice([*NAMES, 1, 2.5, None, True, [], {}, ["a"], ["a", "b"]])]]) + made[at + rng.randrange(2):]
    if depth and rng.random() < 0.2:
        made = rng.choice([1, -2.5, "3", "1_0", "nan", True, "x", None, 10**20, 1e300])
    return made


def spelled(rng, node):
    """A list as a text, with the blanks that may be."""
    if not isinstance(node, list):
        return str(node)
    blank = rng.choice([" ", " ", " ", "  ", "\n", "\t", "\r\n "])
    return "(" + rng.choice(["", "", blank]) + blank.join(spelled(rng, item) for item in node) + rng.choice(["", "", blank]) + ")"


def random_operations_text(rng):
    tree = random_operations(rng)
    if rng.random() < 0.5:
        return json.dumps(tree)
    text = spelled(rng, tree)
    for _ in range(rng.choice([0, 0, 0, 1, 2, 4])):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["(", ")", "'", '"', "\\", "\\x", "\\x4", "'a b'", '"a)"', "\n", "\t", " ", *NAMES]) + text[at + rng.randrange(2):]
    return json.dumps(text)


FAR_YEAR = re.compile(r'"\s*([+-]?\d+)')


def is_far(year):
    """Whether 64-bit nanoseconds do not hold the year, so that Gnocchi takes it for another one."""
    return not 1677 < int(year) < 2263 or year == "-0"


def is_known(kind, text, theirs, ours):
    """Differences that are meant."""
    if theirs is None:
        return ours.startswith("error ")
    if kind == "operations":
        # Where a text ends too early, pyparsing may say so at the blanks before its end.
        return (ours.startswith("error ") and "resample" in text and "var" in text
                or ours.startswith("error Expected ')'") and theirs.startswith("error Expected ')'"))
    if kind == "json" and ("Expected object or value" in ours or "surrogate" in ours):
        return "-" in text or "\\ud" in text.lower()
    if not ours.startswith("error "):
        return False
    if not theirs.startswith("error "):
        return "must be after Epoch" in ours and any(map(is_far, FAR_YEAR.findall(text)))
    # The same refusal for another of several faults: a body's bytes, a year that Gnocchi takes for another one, an object
    # in the place of a key.
    return ("UTF-8" in ours or "-" in text and "Expected object" in ours or "must be after Epoch" in ours
            or "Key name" in ours and "No ':'" in theirs)


def cases(rng, count):
    for _ in range(count * 5):
        value = random_float(rng)
        yield "float", struct.pack(">d", value).hex(), their_float(value)
    for _ in range(count):
        text = random_json(rng)
        yield "json", text, their_json(text)
    for _ in range(count):
        value = rng.choice([random_string(rng), random_string(rng), random_float(rng), rng.randrange(-5, 10**6)])
        text = json.dumps(value)
        yield "span", text, guarded(their_span, value)
    for _ in range(count):
        text = random_list(rng)
        yield "measures", text, their_measures(text)
    for _ in range(count):
        text = random_batch(rng)
        yield "batch", text, their_batch(text)
    for _ in range(count):
        text = random_operations_text(rng)
        yield "operations", text, their_operations(text)


def guarded(call, value):
    try:
        return call(value)
    except Exception:
        return None


def line_of(kind, text):
    argument = f"{NOW} {text}" if kind in ("measures", "batch") else text
    return f"{kind} {argument}".replace("\n", " ").encode("utf-8", "surrogatepass")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--program", default="target/debug/examples/answers")
    arguments = parser.parse_args()
    utils.utcnow = frozen_now
    api.abort = abort
    rng = random.Random(arguments.seed)
    asked = [case for case in cases(rng, arguments.cases) if "now" not in case[1].lower() and "today" not in case[1].lower()]
    answers = Gnudi(arguments.program).ask([line_of(kind, text) for kind, text, _ in asked])
    counts, shown = {}, 0
    for (kind, text, theirs), ours in zip(asked, answers):
        same = theirs == ours or is_known(kind, text, theirs, ours)
        count = counts.setdefault(kind, [0, 0, 0])
        count[0] += 1
        count[1] += not ours.startswith("error ")
        if not same:
            count[2] += 1
            if shown < 20:
                shown += 1
                print(f"{kind} {text}\n  gnudi:   {ours[:300]}\n  gnocchi: {str(theirs)[:300]}")
    print(f"seed {arguments.seed}")
    for kind, (total, accepted, different) in counts.items():
        print(f"{kind:10} {total:8} cases, {accepted:8} accepted, {different:5} different")
    sys.exit(any(different for _, _, different in counts.values()))


if __name__ == "__main__":
    main()

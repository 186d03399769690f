#!/usr/bin/env python3
"""Records how a real Gnocchi parses lines of InfluxDB's protocol, for crates/api/tests/lines.rs.

    cd tests && ../.venv/bin/python -m oracle.record_lines > ../crates/api/tests/data/lines.jsonl

Lines are random, made of the characters with a meaning. Recorded are the lines that Gnocchi's grammar matches as a whole, and those that
it does not match at all. (Gnocchi also accepts a line of which it matches only the beginning, and drops the rest.)
"""

import json
import random

import numpy
import pyparsing
from gnocchi.rest import influxdb

SEED, LINES = 20261121, 600
LETTERS = ["a", "b", "é", "/", "_", ".", "1"]
ODD = ["\\ ", "\\,", "\\=", "\\", "\\\\", "\\n", '"', " ", ",", "="]
NUMBERS = ["1", "-1", "+2", "1.5", "-0.25", "3e4", "1.5E-7", "7i", "12345678901234567890i", "123456789.987654321", "1e400",
           '"text"', '"a \\" b, c=d"', '""', "1.", "007"]


def name(rng):
    if rng.random() < 0.1:
        return '"' + "".join(rng.choice([*LETTERS, " ", ",", "=", '\\"', "\\\\", "\\t"]) for _ in range(3)) + '"'
    parts = [rng.choice(LETTERS)]
    for _ in range(rng.randrange(5)):
        parts.append(rng.choice(LETTERS if rng.random() < 0.6 else ODD[:6]))
    if rng.random() < 0.03:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(ODD))
    return "".join(parts)


def line(rng):
    text = name(rng)
    for _ in range(rng.randrange(4)):
        text += f",{name(rng)}={name(rng)}"
    text += " " + ",".join(f"{name(rng)}={rng.choice(NUMBERS)}" for _ in range(1 + rng.randrange(3)))
    if rng.random() < 0.7:
        text += f" {rng.randrange(10 ** rng.randrange(1, 20))}"
    if rng.random() < 0.1:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(ODD) + text[place + rng.randrange(2):]
    return text


def read(text):
    """What Gnocchi reads, or None; "partly" where it drops the end of the line, "fails" where it answers 500."""
    try:
        influxdb.line_protocol.parseString(text)
    except pyparsing.ParseException:
        return None
    except OverflowError:
        return "fails"
    try:
        measurement, tags, fields, timestamp = influxdb.line_protocol.parseString(text, parseAll=True)
    except pyparsing.ParseException:
        return "partly"
    values = {key: None if isinstance(value, str) else repr(float(value)) for key, value in fields.items()}
    time = None if timestamp is None else str(timestamp.astype(numpy.int64))
    return {"measurement": measurement, "tags": dict(sorted(tags.items())), "fields": values, "timestamp": time}


def main():
    rng = random.Random(SEED)
    recorded = 0
    while recorded < LINES:
        text = line(rng)
        found = read(text)
        if found not in ("partly", "fails"):
            print(json.dumps({"line": text, "read": found}))
            recorded += 1


if __name__ == "__main__":
    main()

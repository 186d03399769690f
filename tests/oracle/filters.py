#!/usr/bin/env python3
"""Compares how gnudi reads searches, and measures by resource and name, with Gnocchi's own code, on random input.

Needs the Python package gnocchi==4.7.1 and the example of the API crate:

    cargo build -p gnudi-api --example filters
    python tests/oracle/filters.py [--cases 20000] [--seed 1] [--program target/debug/examples/filters]
    python tests/oracle/filters.py --record --cases 200 --seed 1 > crates/api/tests/data/filters.jsonl

The second form records Gnocchi's results for `crates/api/tests/filters.rs`. Compared are filters as text and as JSON (the tree, and the
error texts for JSON), queries for values (which values match), and named measures. Where Gnocchi fails (500), gnudi must refuse. Other
known differences are in `is_known`.
"""

import argparse
import functools
import json
import math
import random
import subprocess
import sys
import types
import uuid
import warnings

import numpy
import ujson
import voluptuous
from gnocchi.rest import api

warnings.simplefilter("ignore")
CREATOR = "foobar"
VALUES = [-8.0, -0.5, 0.0, 1.0, 2.5, 3.0, 1e300, math.nan]
NAMES = {"=": "eq", "==": "eq", "!=": "ne", "≠": "ne", "<": "lt", "<=": "le", "≤": "le", ">": "gt", ">=": "ge", "≥": "ge",
         "∧": "and", "∨": "or"}
FAILED = object()


class Refused(Exception):
    pass


def refuse(_, detail=""):
    raise Refused(str(detail))


helper = types.SimpleNamespace(get_current_user=lambda request: CREATOR)
api.pecan = types.SimpleNamespace(request=types.SimpleNamespace(auth_helper=helper))
api.abort = refuse


def guarded(call):
    """What Gnocchi answers: a value, the text of a refusal, or FAILED."""
    try:
        return call()
    except (voluptuous.Invalid, Refused) as error:
        return f"error {error}"
    except Exception:
        return FAILED


def canonical(tree):
    """A filter with one name for each operator."""
    if isinstance(tree, dict):
        return {NAMES.get(key, key): canonical(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [canonical(item) for item in tree]
    return str(tree) if isinstance(tree, uuid.UUID) else tree


def filtered(tree):
    return canonical(voluptuous.Schema(api.ResourceSearchSchema, required=True)(tree))


def their_text(text):
    return guarded(lambda: filtered(api.QueryStringSearchAttrFilter._parse(text)))


def their_json(document):
    return guarded(lambda: filtered(document))


def their_predicate(document):
    search = api.SearchMetricController

    def held():
        query = voluptuous.Schema(search.MetricSearchSchema, required=True)(document)
        try:
            predicate = search.MeasureQuery(query)
        except search.MeasureQuery.InvalidQuery as error:
            raise Refused(str(error))
        return [bool(predicate(numpy.float64(value))) for value in VALUES]

    return guarded(held)


def their_named(body):
    batch = api.ResourcesMetricsMeasuresBatchController
    schema = voluptuous.Schema({functools.partial(api.ResourceID, creator=CREATOR): {str: batch.BackwardCompatibleMeasuresList}})

    def read():
        lists = {}
        for (_, resource), metrics in schema(ujson.loads(body)).items():
            for name, given in metrics.items():
                measures = [[int(measure.timestamp.astype("int64")), measure.value] for measure in given["measures"]]
                lists[resource, name] = [str(resource), name, given.get("archive_policy_name"), given.get("unit"), measures]
        # Those of one resource together, where it came first.
        first = list(dict.fromkeys(resource for resource, _ in lists))
        return sorted(lists.values(), key=lambda item: first.index(uuid.UUID(item[0])))

    return guarded(read)


FIELDS = ["a", "id", "user_id", "eq", "order", "notes", "nullable", "truth", "Falsehood", "in", "x1_y", "_a", '"a b"', "'c'", "é",
          "5dfe182a-51d2-4122-b90b-df0f215b736e", "abcdefabcdefabcdefabcdefabcdefabcdef", "null", "1", "[a]"]
TEXT_OPERATORS = [">=", "<=", "!=", ">", "<", "=", "eq", "ne", "lt", "gt", "ge", "le", "in", "like", "≠", "≥", "≤", "==", "=>", "~"]
OPERATOR_VALUES = ["'and'", '"eq"', "'not'"]
TEXT_VALUES = ["1", "-1.5", "+2e3", "1e", "5.", ".5", "1:.5", "1:e5", "1e400", "x", '"x y"', "'it'", "\"it's\"", "'a\\tb'", "null", "None",
               "none", "true", "False", "nonexistent", "5dfe182a-51d2-4122-b90b-df0f215b736e", "5dfe182a51d24122b90bdf0f215b736e",
               "5DFE182A51D2-4122B90BDF0F215B736E", "5dfe182a51d24122b90bdf0f215b736", "[1, 2]", "['a',\"b\"]", "[]", "[1,]", "[[1]]",
               "[x, null , true]", *OPERATOR_VALUES, "[ 5dfe182a-51d2-4122-b90b-df0f215b736e ]", "'a/b'", "['a/b']", "'\t'", "'unended", "é", "'é'", "''"]
CONNECTIVES = ["and", "or", "∧", "∨", " and ", " or ", " ∧ ", " ∨ ", "\tand\n", " And "]


def random_text(rng, depth=0):
    kind = rng.randrange(7 if depth < 4 else 2)
    space = rng.choice(["", " ", " ", "  ", "\t", "\n"])
    if kind < 3:
        return f"{rng.choice(FIELDS)}{space}{rng.choice(TEXT_OPERATORS)}{rng.choice(['', ' '])}{rng.choice(TEXT_VALUES)}"
    if kind == 3:
        return f"{rng.choice(['not', 'not ', 'not  not ', 'Not '])}{random_text(rng, depth + 1)}"
    if kind == 4:
        return f"({space}{random_text(rng, depth + 1)}{space})"
    parts = [random_text(rng, depth + 1) for _ in range(rng.randrange(2, 4))]
    joined = parts[0]
    for part in parts[1:]:
        joined += rng.choice(CONNECTIVES) + part
    return joined


def usual_text(rng, depth=0):
    """A text that is most probably a filter."""
    kind = rng.randrange(8 if depth < 5 else 3)
    if kind < 3:
        value = rng.choice(["1", "-2.5", "'x'", '"y z"', "null", "true", "word"])
        if rng.random() < 0.2:
            return f"a in [{value}, 'b']"
        return f"{rng.choice(['a', 'b_2', 'user_id'])} {rng.choice(TEXT_OPERATORS[:6] + ['ne', 'le', '≥'])} {value}"
    if kind == 3:
        return f"not {usual_text(rng, depth + 1)}"
    if kind == 4:
        return f"({usual_text(rng, depth + 1)})"
    words = rng.choice([["and"], ["or"], ["and", "or", "∧", "∨"]])
    joined = usual_text(rng, depth + 1)
    for _ in range(rng.randrange(1, 4)):
        joined += f" {rng.choice(words)} {usual_text(rng, depth + 1)}"
    return joined


def damaged(rng, text):
    if rng.random() < 0.3:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["", " ", "(", ")", "'", '"', "[", "]", "1", "x", "=", "\\"]) + text[at + rng.randrange(2):]
    return text


KEYS = ["=", "==", "eq", "<", "lt", ">", "gt", "<=", "≤", "le", ">=", "≥", "ge", "!=", "≠", "ne", "like", "in", "and", "or", "∧", "∨", "not"]
SCALARS = ["x", "", "ab", "a/b", "5dfe182a-51d2-4122-b90b-df0f215b736e", "{5dfe182a51d24122b90bdf0f215b736e}", "x" * 289, "x" * 290, 0, 1,
           -5, 2.5, True, False, None]


def odd(rng):
    return rng.choice(SCALARS + [[], {}, [1], [1, 2], {"a": 1}, [[]], [{}]])


def random_filter(rng, depth=0):
    if rng.random() < 0.04:
        return odd(rng)
    if depth > 4 or rng.random() < 0.4:
        key, field = rng.choice(KEYS[:18] + ["foo"]), rng.choice(["a", "id", "user_id", ""])
        value = [rng.choice(SCALARS[:8]) for _ in range(rng.randrange(4))] if key == "in" else rng.choice(SCALARS)
        operand = {field: odd(rng) if rng.random() < 0.1 else value}
        if rng.random() < 0.05:
            operand["b"] = 1
        return {key: operand}
    key = rng.choice(["and", "or", "∧", "∨", "not"])
    if key == "not":
        return {key: random_filter(rng, depth + 1)}
    return {key: [random_filter(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 2, 3]))]}


ARITHMETIC = ["%", "mod", "+", "add", "-", "sub", "*", "×", "mul", "/", "÷", "div", "**", "^", "pow"]
OPERATORS = KEYS[:16] + ARITHMETIC
NUMBERS = [0, 1, 2, 3, -1, -3, 0.5, -0.5, 2.5, 1e300]


def random_operation(rng, depth=0):
    if rng.random() < 0.03:
        return odd(rng)
    key = rng.choice(OPERATORS + ["foo"] if rng.random() < 0.1 else OPERATORS)
    if depth > 3 or rng.random() < 0.5:
        return {key: odd(rng) if rng.random() < 0.05 else rng.choice(NUMBERS)}
    side = lambda: rng.choice(NUMBERS) if rng.random() < 0.3 else random_operation(rng, depth + 1)
    return {key: [side() for _ in range(rng.choice([1, 2, 2, 2, 2, 2, 2, 3]))]}


def random_query(rng, depth=0):
    if depth > 3 or rng.random() < 0.6:
        return random_operation(rng)
    key = rng.choice(["and", "or", "∧", "∨", "and", "or", "not"])
    return {key: odd(rng) if rng.random() < 0.05 else [random_query(rng, depth + 1) for _ in range(rng.randrange(4))]}


def random_measures(rng):
    if rng.random() < 0.05:
        return odd(rng)
    measures = [{"timestamp": rng.randrange(10**9), "value": rng.choice([1, 2.5, -3])} for _ in range(rng.randrange(3))]
    if measures and rng.random() < 0.05:
        rng.choice(measures).update({rng.choice(["timestamp", "value", "unit"]): rng.choice(["x", "5", []])})
    return measures


def random_named(rng):
    def given():
        if rng.random() < 0.5:
            return random_measures(rng)
        fields = [("measures", random_measures(rng))] * (rng.random() < 0.95)
        fields += [("unit", rng.choice(["s", "B/s"] * 9 + [1, None]))] * (rng.random() < 0.4)
        fields += [("archive_policy_name", rng.choice(["low", "é\""] * 9 + [1, None]))] * (rng.random() < 0.4)
        fields += [("foo", 1)] * (rng.random() < 0.03)
        rng.shuffle(fields)
        return dict(fields)

    def metrics():
        if rng.random() < 0.03:
            return odd(rng)
        names = [rng.choice(["cpu", "disk.iops", "é", "a\"b", "", "a/b"]) for _ in range(rng.randrange(4))]
        if rng.random() < 0.05:
            names += [f"metric {index % 25}" for index in range(30)]
        return {name: given() for name in names}

    resource = lambda: rng.choice([str(uuid.UUID(int=rng.getrandbits(128))), "instance-1", "é", "x" * 289])
    resources = {resource(): metrics() for _ in range(rng.randrange(4))}
    if rng.random() < 0.05:
        resources[rng.choice(["a/b", "x" * 290, ""])] = metrics()
    return json.dumps(resources, ensure_ascii=rng.random() < 0.5)


def is_known(kind, argument, theirs, ours):
    """Differences that are meant, or known and without harm."""
    refused = ours.startswith("error ")
    if kind == "text":
        # The words for a text that is no filter are gnudi's own; a value may have the name of an operator.
        return refused and (theirs is FAILED or isinstance(theirs, str)) or any(map(argument.__contains__, OPERATOR_VALUES))
    if kind == "named":
        # Gnocchi fails where there are no measures, once it has found no other fault.
        return refused and (theirs is FAILED or "required key" in ours)
    return refused and theirs is FAILED or kind == "predicate" and has_odd_operands(argument)


def has_odd_operands(query):
    """Whether a query counts with truths or with numbers alone, where Python and numpy have types other than doubles."""
    if isinstance(query, list):
        return any(map(has_odd_operands, query))
    if not isinstance(query, dict):
        return False
    for operator, sides in query.items():
        if operator in ARITHMETIC and isinstance(sides, list) and not any(map(has_value, sides)):
            return True
        if has_odd_operands(sides):
            return True
    return False


def has_value(side):
    """Whether a side of an operation is a double that the measure's value makes."""
    if not isinstance(side, dict):
        return False
    [(operator, sides)] = side.items()
    return operator in ARITHMETIC and (not isinstance(sides, list) or any(map(has_value, sides)))


def cases(rng, count):
    for _ in range(count):
        text = damaged(rng, rng.choice([random_text, usual_text, usual_text])(rng))
        yield "text", text, their_text(text)
        document = random_filter(rng)
        yield "json", document, their_json(document)
        document = random_query(rng)
        yield "predicate", document, their_predicate(document)
        body = random_named(rng)
        yield "named", body, their_named(body)


def line_of(kind, argument):
    text = argument if kind == "named" else json.dumps(argument)
    return f"{kind} {text}".encode()


def same(theirs, ours):
    if theirs is FAILED or isinstance(theirs, str):
        return theirs == ours
    try:
        return json.loads(ours) == theirs
    except ValueError:
        return False


def may_differ(kind, argument):
    """Whether gnudi need not say what Gnocchi does."""
    if kind == "named":
        resources = [metrics for metrics in json.loads(argument).values() if isinstance(metrics, dict)]
        lists = [given for metrics in resources for given in metrics.values()]
        return any(isinstance(given, dict) and given and "measures" not in given for given in lists)
    return kind == "predicate" and has_odd_operands(argument) or kind == "text" and any(map(argument.__contains__, OPERATOR_VALUES))


def record(asked):
    """Prints what is asked and Gnocchi's answers; where it fails or speaks in its parser's words, only that it refuses."""
    for kind, argument, theirs in asked:
        line = {"kind": kind, "argument": argument if kind == "named" else json.dumps(argument)}
        if theirs is FAILED or kind == "text" and isinstance(theirs, str):
            line["refused"] = True
        elif isinstance(theirs, str):
            line["error"] = theirs.removeprefix("error ")
        else:
            line["answer"] = theirs
        if not may_differ(kind, argument):
            print(json.dumps(line))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--program", default="target/debug/examples/filters")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    asked = list(cases(random.Random(arguments.seed), arguments.cases))
    if arguments.record:
        record(asked)
        return
    data = b"\n".join(line_of(kind, argument) for kind, argument, _ in asked) + b"\n"
    done = subprocess.run([arguments.program], input=data, stdout=subprocess.PIPE, check=True)
    answers = done.stdout.decode().split("\n")[:-1]
    assert len(answers) == len(asked), f"{len(answers)} answers to {len(asked)} lines"
    counts, shown = {}, {}
    for (kind, argument, theirs), ours in zip(asked, answers):
        count = counts.setdefault(kind, [0, 0, 0, 0])
        count[0] += 1
        count[1] += not ours.startswith("error ")
        if same(theirs, ours):
            continue
        known = is_known(kind, argument, theirs, ours)
        count[2 if known else 3] += 1
        if not known and shown.setdefault(kind, 0) < 8:
            shown[kind] += 1
            print(f"{kind} {argument}\n  gnudi:   {ours[:300]}\n  gnocchi: {str(theirs)[:300]}")
    print(f"seed {arguments.seed}")
    for kind, (total, accepted, known, different) in counts.items():
        print(f"{kind:10} {total:8} cases, {accepted:8} accepted, {known:6} known to differ, {different:5} different")
    sys.exit(any(different for *_, different in counts.values()))


if __name__ == "__main__":
    main()

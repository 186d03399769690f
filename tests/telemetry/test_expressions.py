"""Expressions of dynamic pollsters: random ones, compared with Python itself.

The telemetry crate's example `expressions` answers for gnudi. gnudi may refuse what Python accepts. If gnudi gives a value,
Python gives the same; if Python fails, gnudi does.
"""

import json
import random

import pytest

from support.gnudi import example
from telemetry.test_definitions import peer

ROUNDS = 3000

NUMBERS = ["0", "1", "2", "-3", "7", "10", "0.5", "2.5", "-1.25", "1e3", "1_000", "True", "None"]
TEXTS = ["''", "'a'", "\"b$c\"", "'x y  z '", "' 12'", "'3.5'", "'a,b,,c'", "'ÄbÇ'", r"'it\'s\n'", "'-7'", "r'\\d'"]
PATHS = ["value", "value['n']", "value['t']", "value['l']", "value['m']", "value['l'][0]", "value['l'][-1]", "value['m']['k']",
         "value['t'][0]", "value['t'][1:3]", "value['l'][1:]", "value['l'][:-1]", "value['none']", "value['rows']"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", " in ", " not in ", " and ", " or ",
             " is ", " is not "]
CALLS = ["int({})", "float({})", "str({})", "len({})", "abs({})", "round({})", "round({}, 2)", "bool({})", "sum({})", "sorted({})",
         "min({})", "max({})", "min({}, {})", "max({}, {})", "any({})", "all({})", "list({})", "next((x for x in {}), 0)", "json.loads({})"]
METHODS = ["{}.split()", "{}.split({})", "{}.split('$')[0]", "{}.split(',', 1)", "{}.rsplit(',', 1)", "{}.rsplit(None, 1)",
           "{}.split(None, 1)", "{}.strip()", "{}.strip({})", "{}.lstrip('a')", "{}.rstrip()", "{}.lower()", "{}.upper()",
           "{}.capitalize()", "{}.replace({}, {})", "{}.replace('a', 'b', 1)", "{}.startswith({})", "{}.endswith(('a', 'z '))",
           "{}.join({})", "{}.find({})", "{}.count({})", "{}.index({})", "{}.zfill(6)", "{}.isdigit()", "{}.splitlines()",
           "{}.get({})", "{}.get('k', {})", "list(({}).keys())", "sum(({}).values())", "[[k, v] for k, v in ({}).items()]", "{}.removeprefix({})", "{}.removesuffix({})",
           "'{{}}-{{}}'.format({}, {})", "'{{0}}{{{{x}}}}'.format({})"]
OTHERS = ["-{}", "not {}", "({})", "({} if {} else {})", "[{}, {}]", "{{'a': {}}}", "{}[{}]", "{}[{}:{}]", "'%s-%s' % ({}, {})",
          "'%s' % {}", "'%d%%' % ({},)", "'%.2f' % {}", "f'{{{}}}/{{{}}}'", "f'{{{}:.1f}}'", "[x for x in {}]", "[x for x in {} if x]",
          "sum(x for x in {})", "[[x, {}] for x in {}]", "[k for k, v in {}.items()]", "[x['a'] for x in {}]", "{} < {} < {}"]


def expression(rng, depth=0):
    if depth > 2 or rng.random() < 0.25:
        return rng.choice(rng.choice([NUMBERS, TEXTS, PATHS, PATHS]))
    kind = rng.randrange(8)
    if kind < 3:
        return expression(rng, depth + 1) + rng.choice(OPERATORS) + expression(rng, depth + 1)
    template = rng.choice(rng.choice([CALLS, METHODS, OTHERS]))
    parts = [expression(rng, depth + 1) for _ in range(template.count("{}"))]
    if template.startswith("f"):
        # Python 3.11 takes no quotes of the text's own kind, and no backslashes, between its braces.
        parts = [rng.choice(["value", "1.5", "value[\"n\"]", "value[\"t\"]", "7"]) for _ in parts]
    return template.format(*parts)


def document(rng):
    texts = ["a", "b$c", "x y  z ", "a,b,,c", "ÄbÇ", "12", "3.5", ""]
    return {"n": rng.choice([0, 3, -7, 2.5, 10**12, 1e17, True]), "t": rng.choice(texts), "none": None,
            "l": [rng.choice([1, 2.5, -3, 0]) for _ in range(rng.randrange(4))], "m": {"k": rng.choice(texts), "a": 1},
            "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}][:rng.randrange(3)]}


def plain(value):
    """As JSON would have it, and as gnudi has what JSON has not."""
    kinds = (type({}.keys()), type({}.values()), type({}.items()), type(x for x in ()), tuple)
    if isinstance(value, kinds):
        value = list(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def is_foreign(value):
    """Numbers that JSON, or gnudi, has not: infinite, complex, of more than 64 bits."""
    if isinstance(value, complex):
        return True
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    if isinstance(value, dict):
        return any(is_foreign(item) for item in value.values())
    return isinstance(value, list) and any(is_foreign(item) for item in value)


@pytest.fixture(scope="module")
def ours():
    yield from peer([example("gnudi-telemetry", "expressions")])


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_expressions_are_those_of_python(ours, seed, rounds):
    rng = random.Random(seed)
    tasks = [{"text": expression(rng), "value": document(rng)} for _ in range(rounds)]
    different, counts = [], {"value": 0, "error": 0, "refused": 0}
    for task, answer in zip(tasks, ours.ask(tasks)):
        counts[next(iter(answer))] += 1
        try:
            # Comprehensions see globals only.
            expected = plain(eval(task["text"], {"json": json, "value": json.loads(json.dumps(task["value"]))}))
        except Exception as error:  # noqa: BLE001
            expected = error
        # No finite number within: Python goes on with what gnudi has not.
        is_unknown = any(part in answer.get("error", "") for part in ("is not supported", "no finite number"))
        # Tuples are lists here, so that lists are taken where Python wants tuples.
        is_list = isinstance(expected, TypeError) and "tuple of str, not list" in str(expected)
        if "refused" in answer or is_unknown or is_list or is_foreign(expected):
            continue
        if isinstance(expected, Exception):
            same = "error" in answer
        else:
            same = "value" in answer and repr(answer["value"]) == repr(expected)
        if not same:
            different.append(f"{task['text']}\n  of {task['value']}\n  gnudi: {answer}\n  Python: {expected!r}")
    assert not different, f"{len(different)} of {len(tasks)} differ\n" + "\n".join(different[:8])
    assert counts["value"] > rounds / 5 and counts["refused"] < rounds / 3, counts

"""Random filters of the search language, as JSON and as text.

Filters that Gnocchi evaluates wrongly, and gnudi deliberately does not, are left out (docs/compatibility.md lists them).
`conjunction=True` leaves out `or` and `not`: in searches of history Gnocchi drops those of their operands that are not columns of all
resources.
"""

import json

EQUALITY = ["=", "==", "eq", "!=", "≠", "ne"]
ORDER = ["<", "lt", ">", "gt", "<=", "≤", "le", ">=", "≥", "ge"]
JOINS = ["and", "∧", "or", "∨"]
# Words of the operators that a text understands; the others need JSON.
TEXT_OPERATORS = [">=", "<=", "!=", ">", "<", "=", "==", "eq", "ne", "lt", "gt", "ge", "le", "≠", "≥", "≤"]
TIMES = ["2014-01-03T02:02:02", "2014-01-03T02:02:02.000001", "2015-03-06T14:33:57+01:00", "1970-01-01", 1420070400,
         "2030-01-01T00:00:00", "2014-06-01 12:00"]
STRINGS = ["", "a", "B", "ab", "é", "a_b", "a%b", "10", "null", "with space", "\"quoted\""]
PATTERNS = ["%", "a%", "_", "%b", "%é%", "", "A%", "a\\_b", "fuzz%"]
SPANS = [60, "1 hour", "30 minutes", 86400, "1 day", 0.5]


class Filters:
    """`fields` is {name: kind}: string, id, uuid, time, number, bool, span or creator."""

    def __init__(self, rng, ids, uuids):
        self.rng, self.ids, self.uuids = rng, ids, uuids

    def value(self, kind):
        rng = self.rng
        if kind == "id":
            return rng.choice(self.ids)
        if kind == "uuid":
            return rng.choice(self.uuids)
        if kind == "time":
            return rng.choice(TIMES)
        if kind == "number":
            return rng.choice([0, 1, -1, 2.5, 10, 1e6, "3", -0.0, 0.1])
        if kind == "bool":
            return rng.choice([True, False])
        if kind == "span":
            return rng.choice(SPANS)
        return rng.choice(STRINGS)

    def tree(self, fields, depth=2, conjunction=False):
        rng = self.rng
        if depth and rng.random() < 0.45:
            join = rng.choice(JOINS[:2] if conjunction else JOINS)
            return {join: [self.tree(fields, depth - 1, conjunction) for _ in range(rng.randint(1, 3))]}
        if depth and rng.random() < 0.2 and not conjunction:
            return {"not": self.tree(fields, depth - 1)}
        return self.leaf(fields)

    def leaf(self, fields):
        rng = self.rng
        name = rng.choice(sorted(fields))
        kind = fields[name]
        if kind == "creator":
            return {rng.choice(["=", "!=", "like"]): {name: rng.choice(["alice", "project", "", "a%", "nobody"])}}
        if kind == "span":
            return {rng.choice(EQUALITY + ORDER): {name: self.value(kind)}}
        choice = rng.random()
        if choice < 0.15 and kind in ("string", "text"):
            return {"like": {name: rng.choice(PATTERNS)}}
        if choice < 0.3:
            values = [self.value(kind) for _ in range(rng.randint(1, 3))]
            # In history Gnocchi loses what Python holds for false.
            return {"in": {name: [value for value in values if value] or [values[0] or "x"]}}
        if choice < 0.4 and kind != "id":
            return {rng.choice(EQUALITY): {name: None}}
        operators = EQUALITY if kind in ("bool", "id", "uuid") else EQUALITY + ORDER
        return {rng.choice(operators): {name: self.value(kind)}}


def spell(rng, tree):
    """The filter as text, or None where a text cannot say it."""
    (operator, content), = tree.items()
    if operator == "not":
        inner = spell(rng, content)
        return None if inner is None else f"not ({inner})"
    if operator in JOINS:
        parts = [spell(rng, part) for part in content]
        # A single one has no operator that would stand between.
        if None in parts or len(parts) < 2:
            return None
        return f" {operator} ".join(f"({part})" for part in parts)
    (name, value), = content.items()
    if operator not in [*TEXT_OPERATORS, "in", "like"]:
        return None
    text = spell_value(rng, value)
    return None if text is None else f"{name} {operator} {text}"


def spell_value(rng, value):
    if value is None:
        return rng.choice(["null", "None", "none"])
    if value is True or value is False:
        return rng.choice([str(value), str(value).lower()])
    if isinstance(value, list):
        parts = [spell_value(rng, item) for item in value]
        return None if None in parts else "[" + ", ".join(parts) + "]"
    if isinstance(value, str):
        quote = rng.choice("'\"")
        # The grammar knows no escapes, and no empty strings.
        return None if value == "" or "'" in value or '"' in value else f"{quote}{value}{quote}"
    return json.dumps(value)

"""Steps of the random worlds with one thing changed: an item of the body, an argument, the end of the path, the user or a header.

A changed request may have several faults, and the servers may report different ones: if both refuse it, `player.py` compares no
further. The test finds a server that accepts what the other refuses, fails with 500, or stores something else.

Left out are texts that Gnocchi wrongly reads as times, values that JSON or a database cannot hold (docs/compatibility.md), and slashes,
since a rule with one in its name cannot be removed: `bad_requests.py` has those.
"""

import copy
import dataclasses
import random
import urllib.parse

# Times that are relative to now would differ by the time between both requests.
JUNK = [None, True, False, 0, 1, -1, 1.5, " ", "x", "é", "None", "null", "1", "1.0", "true", [], {}, [[]], {"x": 1}, [1], ["x"],
        "f0220000-0000-4000-8000-000000000001", "2015-01-01", "-1", "mean", "id", "*", "x" * 40, "1s", "1 minute", 0.5, "%", "_",
        "\u2028", "\n", "'", '"', "{}", "%s", "<b>", "a&b", "😀"]
KEYS = ["foo", "id", "name", "unit", "type", "metrics", "é", "measures", "archive_policy_name"]
ARGUMENTS = [("foo", "x"), ("limit", "2"), ("filter", "x"), ("sort", "id"), ("start", "1"), ("granularity", "60"), ("é", "é"),
             ("details", "true"), ("history", "1")]
USERS = ["alice:project", "alice", "bob", ":p", "eve:a:b", "É", "admin:p"]
HEADERS = [("Accept", "text/plain"), ("Accept", None), ("Content-Type", "application/json; charset=utf-8"), ("Content-Type", "text/json"),
           ("Content-Type", None), ("Content-Type", "application/json-patch+json"), ("Content-Type", "application/json;"),
           ("If-Match", "*"), ("If-Match", '"x"'), ("If-None-Match", "*"), ("If-None-Match", 'W/"x"'), ("If-Modified-Since", "x"),
           ("If-Unmodified-Since", "Tuesday, 01-Jan-13 00:00:00 GMT")]
BODIES = [b"", b"{", b"null", b"{}", b"[]", b'{"a": 1} ', b'{"name": "a", "name": "b"}', b"1", b'""']
ENDS = ["/", "/x", ".json", "%20", "%2F"]


class Mutations:
    """Changes some of a sequence's steps."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def steps(self, steps, rate=0.3):
        return [self.changed(step) if self.rng.random() < rate and "<next>" not in step.path else step for step in steps]

    def changed(self, step):
        change = self.rng.choice([self.body, self.body, self.body, self.argument, self.argument, self.header, self.user, self.path,
                                  self.whole_body])
        return dataclasses.replace(change(step), mutated=True)

    def junk(self):
        return copy.deepcopy(self.rng.choice(JUNK))

    def body(self, step):
        if step.body is None or isinstance(step.body, bytes):
            return self.argument(step)
        return dataclasses.replace(step, body=self.tree(step.body))

    def tree(self, tree):
        """With one node replaced, removed, added or renamed."""
        rng = self.rng
        tree = copy.deepcopy(tree)
        nodes = list(places(tree))
        if not nodes or rng.random() < 0.06:
            return self.junk()
        holder, key = rng.choice(nodes)
        choice = rng.random()
        if choice < 0.55:
            holder[key] = self.junk()
        elif choice < 0.7:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, self.junk() if choice < 0.85 else copy.deepcopy(holder[key]))
        elif choice < 0.85:
            holder[rng.choice(KEYS)] = self.junk()
        else:
            holder[rng.choice([key + " ", key + "x", key.upper()])] = holder.pop(key)
        return tree

    def argument(self, step):
        rng = self.rng
        path, _, query = step.path.partition("?")
        arguments = urllib.parse.parse_qsl(query, keep_blank_values=True)
        place = rng.randrange(len(arguments)) if arguments else None
        choice = rng.random()
        if place is None or choice < 0.25:
            arguments.append(rng.choice(ARGUMENTS))
        elif choice < 0.45:
            arguments.append(arguments[place])
        elif choice < 0.9:
            arguments[place] = (arguments[place][0], str(self.junk()))
        else:
            arguments[place] = (arguments[place][0].upper(), arguments[place][1])
        return dataclasses.replace(step, path=f"{path}?{encoded(arguments, ';' if rng.random() < 0.1 else '&')}")

    def header(self, step):
        name, value = self.rng.choice(HEADERS)
        return dataclasses.replace(step, headers={**step.headers, name: value})

    def user(self, step):
        return dataclasses.replace(step, user=self.rng.choice(USERS))

    def path(self, step):
        path, mark, query = step.path.partition("?")
        return dataclasses.replace(step, path=path + self.rng.choice(ENDS) + mark + query)

    def whole_body(self, step):
        return dataclasses.replace(step, body=self.rng.choice(BODIES)) if step.body is not None else self.header(step)


def places(tree):
    """Every item of a document, as (what holds it, its key or index)."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in list(keys):
        yield tree, key
        yield from places(tree[key])


def encoded(arguments, separator):
    """A query; names of metrics stay readable, so that the player finds them."""
    parts = []
    for name, value in arguments:
        is_metric = value.startswith("<") and value.endswith(">") and ("/" in value or value.startswith("<m-"))
        parts.append(f"{urllib.parse.quote(name)}={value if is_metric else urllib.parse.quote(value, safe='')}")
    return separator.join(parts)

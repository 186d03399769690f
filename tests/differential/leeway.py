"""Where random requests may get other answers than from Gnocchi, and why.

One table: each row is a deviation that docs/compatibility.md states, too.
"""

import dataclasses
import re


@dataclasses.dataclass
class Leeway:
    """`applies(step, theirs)`: whether it is about this request and Gnocchi's answer; `statuses`: what gnudi may
    say; the same as Gnocchi, if there are none."""

    name: str
    why: str
    applies: object
    statuses: tuple
    # Afterwards the servers hold different things.
    parts: bool = False

    def accepts(self, ours, theirs):
        return ours.status in (self.statuses or (theirs.status,))


ANY_4XX = tuple(range(400, 500))
WAVE = re.compile(r"\b(sin|cos|tan)\b")
ATTACHED = re.compile(rb'": "<[^<>]*>"')


def has_a_wave(step):
    return WAVE.search((step.text() or b"").decode("utf-8", "replace")) is not None


def attaches(step):
    """Whether it gives a metric that exists to a resource."""
    return step.path.startswith("/v1/resource/") and ATTACHED.search(step.text() or b"") is not None


TABLE = [
    Leeway("failure", "Gnocchi fails with a 500: bad input is the client's fault",
           lambda step, theirs: theirs.status >= 500, (200, 201, 202, 204, *ANY_4XX)),
    Leeway("values of metrics of several policies", "without `granularity` those of the first metric are asked of all; each metric "
           "has its own",
           lambda step, theirs: step.path.startswith("/v1/search/metric") and "granularity=" not in step.path
           and "Aggregation does not exist" in str(theirs.body), (200,)),
    Leeway("refused batch", "a batch for resources that is refused creates some of its metrics all the same; gnudi changes nothing",
           lambda step, theirs: "create_metrics=true" in step.path and theirs.status in (400, 403), (), parts=True),
    Leeway("values of a metric without measures", "a search for values among metrics of which one has no measures yet is refused; "
           "such a metric has none that match",
           lambda step, theirs: step.path.startswith("/v1/search/metric") and "Metric does not exist" in str(theirs.body),
           (200,)),
    Leeway("list of an attribute in history", "a search through history for `in` over an attribute of a type is refused with the "
           "name of a Python class; it is a search like any other",
           lambda step, theirs: theirs.status == 400 and "<class 'gnocchi." in str(theirs.body), (200, 400)),
    Leeway("metrics for somebody else's resource", "a batch may add metrics to anybody's resource; gnudi asks whether the caller may "
           "update it (docs/auth.md)",
           lambda step, theirs: "create_metrics=" in step.path and theirs.status == 202 and step.user != "admin", (202, 403)),
    Leeway("somebody else's metric for a resource", "does not exist, says Gnocchi; gnudi asks first whether the caller may post to it "
           "(docs/auth.md)",
           lambda step, theirs: theirs.status in (400, 409) and step.user != "admin" and attaches(step), (400, 403, 409)),
    Leeway("sines in history", "of a comparison they are computed in half precision, which only `use_history` makes printable; gnudi "
           "computes with doubles",
           lambda step, theirs: "use_history=true" in step.path and theirs.status == 200 and has_a_wave(step), (200,)),
]

# Descriptions of errors that carry a Python library's own words, or name one of several things that are wrong.
OPEN_TEXTS = [re.compile(text, re.DOTALL) for text in (
    r"Unable to decode body",
    r"Invalid filter: ",
    r"<object object at 0x",
    r"Type update is not available yet",
    r"Fail to parse the operations string",
    # Of several metrics the one with the least id, which each server chooses for itself.
    r"^Aggregation method .* for metric .* does not exist$",
    r"Aggregation does not exist",
    r"Aggregation method does not exist for this metric",
    # Of a filter and an order that are both wrong, gnudi names the filter.
    r"Sort key supplied is invalid: ",
    # Of operations with two faults, a name without series among them, either may be named.
    r"different granularit",
)]


# Of several keys that are missing, voluptuous names the first one of a set.
MISSING_KEY = re.compile(r"required key not provided @ data\['[^']*'\]")


def is_a_missing_key(error):
    """Whether this error (a body in JSON) names a key of the document that is missing."""
    description = error.get("description")
    return isinstance(description, dict) and MISSING_KEY.fullmatch(str(description.get("reason"))) is not None


def find(step, theirs):
    return next((row for row in TABLE if row.applies(step, theirs)), None)


def open_text(error):
    """Whether the words of this error (a body in JSON) are free."""
    description = error.get("description")
    text = description if isinstance(description, str) else str(description)
    return any(pattern.search(text) for pattern in OPEN_TEXTS)

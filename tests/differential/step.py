"""One request of a random sequence, with names in place of the values that servers choose themselves.

In paths and bodies `<RESOURCE/NAME>` is the id of the metric NAME of the resource with the id RESOURCE, and `<m-NAME>`
that of a metric without a resource: each server gives them ids of its own.
"""

import dataclasses
import json


@dataclasses.dataclass
class Step:
    """`body`: bytes as they are, other values as JSON; None: no body."""

    method: str
    path: str
    body: object = None
    user: str = "admin"
    headers: dict = dataclasses.field(default_factory=dict)
    # Lists in the answer that have no order of their own: Gnocchi sorts by ids that it chose, or makes a set.
    unordered: bool = False
    # Answers hold what the C library computes (sine, powers), which may differ in the last digit.
    about: float = 0.0
    # The measures that this request brings are processed before the next step.
    refresh: tuple = ()
    # It may have several faults, of which each server names another one.
    mutated: bool = False

    def text(self):
        """The body as sent, before names are replaced."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()

    def __str__(self):
        body = self.text()
        shown = "" if body is None else " " + body.decode("utf-8", "replace")
        more = f" {self.headers}" if self.headers else ""
        return f"{self.user}: {self.method} {self.path}{more}{shown}"

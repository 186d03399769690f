"""Runs one file of Gnocchi's functional suite over HTTP, step by step, against a server that is already up.

The YAML files are read from the installed `gnocchi` wheel. Gabbi does the requests and the checks; this only loads a
file as Gnocchi's own runner does (its `ConfigFixture` is replaced by the server under test) and sorts the outcomes.
"""

import dataclasses
import math
import pathlib
import unittest

import gnocchi.tests.functional
import yaml
from gabbi import handlers, suitemaker, utils

DIRECTORY = pathlib.Path(gnocchi.tests.functional.__file__).parent / "gabbits"
PREFIX = "/gnocchi"
TIMES_AS_OFTEN = 20
TIMES_AS_LONG = 5
UNEXPECTED = "passed, though the suite expects it to fail"


class IsNan:
    """What `!AssertNAN` stands for in the YAML files: equal to any NaN."""

    def __eq__(self, other):
        return isinstance(other, float) and math.isnan(other)


yaml.add_constructor("!AssertNAN", lambda loader, node: IsNan())


@dataclasses.dataclass
class Outcome:
    """One step: its name and, if it failed, why."""

    name: str
    failure: str | None


def load(file):
    """The parsed YAML of a file of the suite, without its fixtures. What it repeats until it is so, for seconds, it repeats more
    often, and for longer if need be."""
    suite = utils.load_yaml(yaml_file=str(DIRECTORY / f"{file}.yaml"), safe=False)
    suite.pop("fixtures", None)
    for step in (suite.get("defaults", {}), *suite["tests"]):
        if poll := step.get("poll"):
            step["poll"] = {"count": poll["count"] * TIMES_AS_OFTEN * TIMES_AS_LONG, "delay": poll["delay"] / TIMES_AS_OFTEN}
    return suite


def run(file, host, port):
    """The outcome of every step of `file`, in order."""
    suite = suitemaker.test_suite_from_dict(
        unittest.defaultTestLoader, file, load(file), str(DIRECTORY), host, port, None, None, prefix=PREFIX,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )
    outcomes = []
    for case in suite:
        result = unittest.TestResult()
        case.run(result)
        problems = [text for _, text in result.failures + result.errors]
        problems += [UNEXPECTED] * len(result.unexpectedSuccesses)
        problems += [f"skipped: {reason}" for _, reason in result.skipped]
        outcomes.append(Outcome(case.test_data["name"], "\n".join(problems) or None))
    return outcomes

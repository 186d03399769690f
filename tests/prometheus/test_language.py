"""Prometheus' own language tests (its module's promql/promqltest), asked over HTTP of a server that got their series by remote write.

`LACKING` says which cases do not pass, and why; one that does not pass and is not there fails the test, and one that passes does, too.
"""

import collections
import re

import pytest

from prometheus import golang

pytestmark = pytest.mark.slow

TIMEOUT_S = 300
CASES_AT_LEAST = 1600

# By file: a reason, and the lines of its cases; `ALL` for those of a whole file.
ALL = "all"
NATIVE = "native histograms are refused"
LACKING = {}


def lacking(file):
    return {line for lines in LACKING.get(file, {}).values() if lines != ALL for line in lines}


@pytest.fixture(scope="session")
def program():
    return golang.test_binary(golang.HERE / "promqltest", "promqltest.test")


def test_language(gnudi, program):
    server = gnudi()
    passed, printed = golang.outcomes(program, golang.HERE / "promqltest", TIMEOUT_S, {"GNUDI_URL": f"http://127.0.0.1:{server.port}"})
    cases = collections.defaultdict(dict)
    for name, is_passed in passed.items():
        found = re.fullmatch(r"TestLanguage/testdata/(\w+)\.test/line_(\d+)/.*", name)
        if found:
            cases[found[1]][int(found[2])] = is_passed
    assert sum(map(len, cases.values())) >= CASES_AT_LEAST, printed[-5000:]
    wrong = []
    for file, lines in cases.items():
        if ALL in LACKING.get(file, {}).values():
            continue
        listed = lacking(file)
        wrong += [f"{file}.test, line {line}, fails" for line, is_passed in lines.items() if not is_passed and line not in listed]
        wrong += [f"{file}.test, line {line}, passes and is listed" for line, is_passed in lines.items() if is_passed and line in listed]
    assert not wrong, "\n".join(wrong)

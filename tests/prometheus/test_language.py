"""Prometheus' own language tests (its module's promql/promqltest), run over HTTP on a server that got their series by remote write.

Native histograms are refused, so cases beside them may fail: at least `PASSED_AT_LEAST` cases must pass. `LACKING` lists the other cases
that do not pass, with reasons. The test fails if a case fails that is not listed, or if a listed one passes.
"""

import collections
import re

import pytest

from prometheus import golang

MODULE = ("github.com/prometheus/prometheus", "v0.316.0")
TIMEOUT_S = 600
# Of all files, those beside native histograms included.
PASSED_AT_LEAST = 1533

# Whole files, by what they need.
FILES_LACKING = {
    "start_timestamps": "start timestamps of samples",
}
ZERO = "Prometheus' encoder of remote write sends -0 as 0"
# By file: lines of cases, by the reason.
LACKING = {
    "aggregators": {ZERO: [1024, 1035, 1047]},
}


def native_lines(text):
    """The lines of cases that have to do with native histograms: by what was loaded since the last `clear`, or by themselves."""
    blocks = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"clear|load|eval", line):
            blocks.append((number, ""))
        if blocks:
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]}{line.partition('#')[0]}\n")
    found, is_native = set(), False
    for number, code in blocks:
        if code.startswith("clear"):
            is_native = False
        if code.startswith("load"):
            is_native |= "{{" in code or code.startswith("load_with_nhcb")
        if code.startswith("eval") and (is_native or "{{" in code or re.search(r"histogram_(count|sum|avg|stddev|stdvar)\(", code)):
            found.add(number)
    return found


@pytest.fixture(scope="module")
def program():
    return golang.test_binary(golang.HERE / "promqltest", "promqltest.test")


@pytest.mark.slow
def test_language(gnudi, program):
    # As the module's own runs have it.
    server = gnudi(config="[api]\nprometheus_delayed_name_removal = true\n")
    passed, printed = golang.outcomes(program, golang.HERE / "promqltest", TIMEOUT_S, {"GNUDI_URL": f"http://127.0.0.1:{server.port}"})
    cases = collections.defaultdict(dict)
    for name, is_passed in passed.items():
        found = re.fullmatch(r"TestLanguage/testdata/(\w+)\.test/line_(\d+)/.*", name)
        if found and found[1] not in FILES_LACKING:
            cases[found[1]][int(found[2])] = is_passed
    folder = golang.module(*MODULE) / "promql" / "promqltest" / "testdata"
    wrong = []
    for file, lines in cases.items():
        native = native_lines((folder / f"{file}.test").read_text())
        listed = {line for at in LACKING.get(file, {}).values() for line in at}
        for line, is_passed in sorted(lines.items()):
            if line in native:
                continue
            if is_passed == (line in listed):
                wrong.append(f"{file}.test, line {line}, {'passes and is listed' if is_passed else 'fails'}")
    assert not wrong, "\n".join(wrong)
    count = sum(is_passed for name, is_passed in passed.items() if "/line_" in name)
    assert count >= PASSED_AT_LEAST, f"{count} cases pass\n{printed[-5000:]}"

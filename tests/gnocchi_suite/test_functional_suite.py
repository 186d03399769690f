"""Gnocchi's own functional suite against `gnudi serve`: one test and one fresh server per file.

`pytest gnocchi_suite --oracle` runs it against the real Gnocchi, waiting steps included: that proves this runner.
"""

import pytest

from gnocchi_suite import files, steps

CONFIG = """\
[api]
max_limit = 7
enable_proxy_headers_parsing = true
prometheus_labels = none
[cors]
allowed_origin = http://foobar.com
"""


@pytest.fixture
def server(request, pytestconfig):
    if pytestconfig.getoption("oracle"):
        return request.getfixturevalue("gnocchi")(prefix=steps.PREFIX, config=CONFIG, metricd=True)
    gnudi = request.getfixturevalue("gnudi")
    return gnudi(prefix=steps.PREFIX, config=CONFIG, arguments=["--skip-archive-policies-creation"])


@pytest.mark.parametrize("file", files.PASSING)
def test_file(file, server, pytestconfig, record_property):
    waiting = {} if pytestconfig.getoption("oracle") else files.WAITING.get(file, {})
    better = [] if pytestconfig.getoption("oracle") else files.EXPECTED_TO_FAIL.get(file, [])
    outcomes = steps.run(file, "127.0.0.1", server.port)
    for outcome in outcomes:
        if outcome.name in better:
            assert outcome.failure == steps.UNEXPECTED, f"{outcome.name}: {outcome.failure}"
            outcome.failure = None
    failed = [outcome for outcome in outcomes if outcome.failure and outcome.name not in waiting]
    passed = {outcome.name for outcome in outcomes if not outcome.failure}
    record_property("steps_passed", len(passed))
    assert not failed, "\n".join(f"{outcome.name}:\n{outcome.failure}" for outcome in failed)
    arrived = passed & waiting.keys()
    assert not arrived, f"these steps pass now, take them off WAITING in files.py: {sorted(arrived)}"


def test_every_file_of_the_suite_is_listed():
    present = {path.stem for path in steps.DIRECTORY.glob("*.yaml")}
    assert present == set(files.PASSING) | set(files.STILL_TO_COME)


@pytest.mark.parametrize("file", files.WAITING)
def test_waiting_steps_exist(file):
    assert files.WAITING[file].keys() <= {step["name"] for step in steps.load(file)["tests"]}

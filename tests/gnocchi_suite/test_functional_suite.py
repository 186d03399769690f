"""Gnocchi's own functional suite against `gnudi serve`: one test and one fresh server per file, every step.

`pytest gnocchi_suite --oracle` runs it against the real Gnocchi: that proves this runner. (Prometheus' file needs snappy
and protobuf there.)
"""

import pytest

from gnocchi_suite import files, steps

CONFIG = """\
[api]
max_limit = 7
enable_proxy_headers_parsing = true
[cors]
allowed_origin = http://foobar.com
"""
FILES = sorted(path.stem for path in steps.DIRECTORY.glob("*.yaml"))
STEPS = 669


@pytest.fixture
def server(request, pytestconfig):
    if pytestconfig.getoption("oracle"):
        return request.getfixturevalue("gnocchi")(prefix=steps.PREFIX, config=CONFIG, metricd=True)
    gnudi = request.getfixturevalue("gnudi")
    return gnudi(prefix=steps.PREFIX, config=CONFIG, arguments=["--skip-archive-policies-creation"])


@pytest.mark.parametrize("file", FILES)
def test_file(file, server, pytestconfig, record_property):
    deviating = {} if pytestconfig.getoption("oracle") else files.DEVIATING.get(file, {})
    outcomes = steps.run(file, "127.0.0.1", server.port)
    failed = [outcome for outcome in outcomes if outcome.failure and outcome.name not in deviating]
    passed = {outcome.name for outcome in outcomes if not outcome.failure}
    record_property("steps", len(outcomes))
    record_property("steps_passed", sum(not outcome.failure for outcome in outcomes))
    assert not failed, "\n".join(f"{outcome.name}:\n{outcome.failure}" for outcome in failed)
    assert not passed & deviating.keys(), "these steps pass: take them off the list in files.py"


def test_no_step_is_missing():
    names = {file: [step["name"] for step in steps.load(file)["tests"]] for file in FILES}
    assert sum(map(len, names.values())) == STEPS
    for file, deviating in files.DEVIATING.items():
        assert deviating.keys() <= set(names[file])

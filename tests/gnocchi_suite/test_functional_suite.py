"""Gnocchi's own functional suite, every step: one test per file, on a fresh `gnudi serve` with its embedded store, and on fresh
`gnudi api` and `gnudi metricd` with a combination of shared engines (`make long`: with each).

`pytest gnocchi_suite --oracle` runs it against the real Gnocchi: that proves this runner. (Prometheus' file needs snappy
and protobuf there.)
"""

import pytest

from gnocchi_suite import files, steps
from support import engines

CONFIG = """\
[api]
max_limit = 7
enable_proxy_headers_parsing = true
prometheus_labels = none
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
    better = [] if pytestconfig.getoption("oracle") else files.BETTER.get(file, [])
    check(file, server, better, record_property)


@pytest.mark.parametrize("combination", engines.parameters())
@pytest.mark.parametrize("file", FILES)
def test_file_on_shared_engines(request, file, combination, cloud, pytestconfig, record_property):
    if pytestconfig.getoption("oracle"):
        pytest.skip("real Gnocchi runs once")
    config = CONFIG + engines.sections(request, combination)
    empty = ["--skip-archive-policies-creation"]
    server = cloud(config, prefix=steps.PREFIX, upgrade=empty, arguments=empty)
    check(file, server, files.BETTER.get(file, []), record_property)


def check(file, server, better, record_property):
    outcomes = steps.run(file, "127.0.0.1", server.port)
    for outcome in outcomes:
        if outcome.name in better:
            assert outcome.failure == steps.UNEXPECTED, f"{outcome.name}: {outcome.failure}"
            outcome.failure = None
    failed = [outcome for outcome in outcomes if outcome.failure]
    record_property("steps", len(outcomes))
    record_property("steps_passed", sum(not outcome.failure for outcome in outcomes))
    assert not failed, "\n".join(f"{outcome.name}:\n{outcome.failure}" for outcome in failed)


def test_no_step_is_missing():
    assert sum(len(steps.load(file)["tests"]) for file in FILES) == STEPS

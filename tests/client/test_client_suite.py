"""The functional tests of python-gnocchiclient itself, from its source distribution, run against `gnudi serve`.

They run the `gnocchi` and `openstack` programs as users do; `gnocchi` is loaded once (`support/warm_gnocchi.py`). As in the project's own `tox.ini`, those of `gnocchi
benchmark` are left out: that command fails on Python 3.11, whatever the server (it sends a lock to another process).

`pytest client/test_client_suite.py --oracle` runs them against the real Gnocchi.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
from xml.etree import ElementTree

import pytest

from support.http import create_policy

pytestmark = pytest.mark.slow

HERE = pathlib.Path(__file__).resolve().parent
# In the virtual environment, so that a second run needs no network.
DOWNLOADS = pathlib.Path(sys.prefix) / "sdist"
NAME = "gnocchiclient-7.2.0"
TESTS_AT_LEAST = 17
TIMEOUT_S = 600


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """The unpacked source distribution, downloaded by pip unless it was before."""
    archive = DOWNLOADS / f"{NAME}.tar.gz"
    if not archive.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-binary", "gnocchiclient", "--require-hashes", "-r", str(HERE / "sdist.txt"),
                        "-d", str(DOWNLOADS)], check=True, timeout=TIMEOUT_S)
    directory = tmp_path_factory.mktemp("sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    return directory / NAME


@pytest.fixture
def server(request, pytestconfig):
    if not pytestconfig.getoption("oracle"):
        return request.getfixturevalue("gnudi")()
    server = request.getfixturevalue("gnocchi")(metricd=True)
    # What `gnocchi-upgrade` would have made.
    create_policy(server.client(), "low", [("5 min", 8640)])
    rule = {"name": "default", "archive_policy_name": "low", "metric_pattern": "*"}
    server.client().post("/v1/archive_policy_rule", rule).expect(201)
    return server


def test_functional_tests_of_the_client(sources, programs, server, tmp_path):
    report = tmp_path / "report.xml"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("OS_", "GNOCCHI_", "PYTEST_"))},
        "GNOCCHI_CLIENT_EXEC_DIR": str(programs),
        "PIFPAF_GNOCCHI_HTTP_URL": f"http://127.0.0.1:{server.port}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(sources), "-p", "no:cacheprovider", "-n", "2",
         "--junit-xml", str(report), "-k", "not test_benchmark_", "gnocchiclient/tests/functional"],
        cwd=sources, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    passed = [case for case in ElementTree.parse(report).iter("testcase") if len(case) == 0]
    assert len(passed) >= TESTS_AT_LEAST, done.stdout[-5_000:]

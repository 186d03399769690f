"""One gnudi and one real Gnocchi for all differential tests."""

import pytest

from differential.player import Side
from support.gnocchi import Gnocchi
from support.gnudi import Gnudi

CONFIG = "[api]\nmax_limit = 7\n"


@pytest.fixture(scope="session")
def theirs(shared_dir, postgres):
    """A client of the real Gnocchi; nothing is processed there but by refresh."""
    with Gnocchi(shared_dir / "gnocchi", postgres, config=CONFIG) as server:
        yield server.client()


@pytest.fixture(scope="session")
def ours(shared_dir, pytestconfig, request):
    """A client of gnudi; with --oracle, of a second Gnocchi, which proves the test itself."""
    if pytestconfig.getoption("oracle"):
        postgres = request.getfixturevalue("postgres")
        with Gnocchi(shared_dir / "gnocchi-2", postgres, config=CONFIG) as server:
            yield server.client()
        return
    with Gnudi(shared_dir / "gnudi", config=CONFIG, arguments=["--skip-archive-policies-creation"]) as server:
        yield server.client()


@pytest.fixture(scope="module")
def sides(ours, theirs):
    """Both servers, to play random sequences on."""
    return Side(ours), Side(theirs)

"""The `gnocchi` command, for the tests that call it often."""

import pytest

from support.warm_gnocchi import WarmGnocchi


@pytest.fixture(scope="session")
def programs(shared_dir):
    """The directory of the programs `gnocchi` and `openstack`."""
    warm = WarmGnocchi(shared_dir / "programs")
    try:
        yield warm.start().directory
    finally:
        warm.stop()

"""Ours and Ceilometer's, one process each for a module's tests."""

import pytest

from support import ceilometer_oracle


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    side = ceilometer_oracle.ours(tmp_path_factory.mktemp("ours"))
    yield side
    side.stop()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    side = ceilometer_oracle.theirs(tmp_path_factory.mktemp("theirs"))
    yield side
    side.stop()

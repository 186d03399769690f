"""A store that many tests copy and damage."""

import itertools

import pytest

from backup import filled


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Not to be changed."""
    return filled.fill(tmp_path_factory.mktemp("filled"))


@pytest.fixture
def copy(whole, tmp_path):
    """Makes copies of it."""
    numbers = itertools.count()
    return lambda: whole.copy(tmp_path / f"copy-{next(numbers)}")

"""Random requests about resources, types, history and searches: gnudi answers each as real Gnocchi does.

`make fuzz-diff ROUNDS=n` plays more sequences; `--seed` repeats one run. A sequence that differs is made shorter.
"""

import random

import pytest

from differential.player import Side, compare
from differential.resource_world import World, prepare

ROUNDS = 40


@pytest.fixture(scope="module")
def sides(ours, theirs):
    return Side(ours), Side(theirs)


def test_random_requests_have_the_same_answers(sides, pytestconfig):
    seed = pytestconfig.getoption("seed")
    seed = random.randrange(2**32) if seed is None else seed
    compare(lambda seed: World(seed).steps(), prepare, *sides, seed, pytestconfig.getoption("rounds") or ROUNDS,
            pytestconfig.getoption("oracle"))

"""Random requests about resources, types, history and searches: gnudi answers each as real Gnocchi does.

`make fuzz-diff ROUNDS=n` plays more sequences; `--seed` repeats one run. A sequence that differs is made shorter.
"""

from differential.player import compare
from differential.resource_world import World, prepare

ROUNDS = 16


def test_random_requests_have_the_same_answers(sides, seed, rounds, pytestconfig):
    compare(lambda seed: World(seed).steps(), prepare, *sides, seed, rounds, pytestconfig.getoption("oracle"))

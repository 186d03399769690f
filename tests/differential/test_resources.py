"""Random requests about resources, types, history and searches: gnudi answers each as a real Gnocchi.

`make fuzz-diff ROUNDS=n` runs more sequences; `--seed` repeats one run. A differing sequence is minimised.
"""

from differential.player import compare
from differential.resource_world import World, prepare

ROUNDS = 6


def test_random_requests_have_the_same_answers(sides, seed, rounds, pytestconfig):
    compare(lambda seed: World(seed).steps(), prepare, *sides, seed, rounds, pytestconfig.getoption("oracle"))

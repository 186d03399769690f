"""Random aggregations across metrics and resources: gnudi answers each as a real Gnocchi.

`make fuzz-diff ROUNDS=n` runs more sequences; `--seed` repeats one run. A differing sequence is minimised.
"""

from differential.aggregate_world import World, prepare
from differential.player import compare

ROUNDS = 6


def test_random_aggregations_have_the_same_answers(sides, seed, rounds, pytestconfig):
    compare(lambda seed: World(seed).steps(), prepare, *sides, seed, rounds, pytestconfig.getoption("oracle"))

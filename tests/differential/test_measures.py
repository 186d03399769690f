"""Random series pushed to gnudi and to real Gnocchi: every aggregate must be the same, byte for byte.

`make fuzz-diff ROUNDS=n` plays more rounds; `--seed` repeats one run.
"""

from differential.replay import first_difference, shrink
from differential.scenario import Generator

ROUNDS = 25


def test_random_series_have_the_same_aggregates(ours, theirs, seed, rounds):
    for number in range(rounds):
        scenario = Generator(seed + number).scenario()
        if first_difference(scenario, ours, theirs) is None:
            continue
        scenario, difference = shrink(scenario, ours, theirs)
        raise AssertionError(f"round seed {seed + number} differs\n{scenario.describe()}\n{difference}")

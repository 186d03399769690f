"""Random operations across metrics, evaluated by the series crate and by Gnocchi's own code: the same bits.

No servers: other tests compare how the API parses requests. `--rounds` and `--seed` as for the other random tests.
"""

import pytest

from oracle import cross
from support.gnudi import example

ROUNDS = 400


@pytest.fixture(scope="module")
def program():
    return example("gnudi-series", "cross")


def test_random_operations_have_the_same_results(program, seed, rounds):
    left_out = 0
    for different in cross.compare(program, range(seed, seed + rounds)):
        assert not different, different
        left_out += different is False
    assert left_out < 1 + rounds // 20, "too much is known to differ"

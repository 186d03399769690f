"""Random operations across metrics, evaluated by the series crate and by Gnocchi's own code: the same bits.

No servers: what the API makes of requests is compared elsewhere. `--rounds` and `--seed` as for the other random tests.
"""

import os
import pathlib

import pytest

from oracle import cross

ROUNDS = 1000
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program():
    """The example of the series crate; `cargo test` builds it, `cargo build --examples` too."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [target / profile / "examples" / "cross" for profile in ("debug", "quick")]
    found = [path for path in built if path.exists()]
    assert found, "no example program: cargo build -p gnudi-series --example cross"
    return max(found, key=lambda path: path.stat().st_mtime)


def test_random_operations_have_the_same_results(program, seed, rounds):
    left_out = 0
    for different in cross.compare(program, range(seed, seed + rounds)):
        assert not different, different
        left_out += different is False
    assert left_out < 1 + rounds // 20, "too much is known to differ"

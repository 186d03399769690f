"""Every row of docs/compatibility.md has a test, and every test named in rows.py exists."""

import pathlib
import re

from differential.rows import ONE_SIDE, ROWS

TESTS = pathlib.Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "compatibility.md"
# Rows that have no test of both servers: none is added without a reason.
ONE_SIDE_MAX = 26


def rows():
    """The first cell of each row of the page."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| Gnocchi |")):
            yield line.removeprefix("| ").split(" | ")[0]


def test_every_row_is_known():
    known = [*ROWS, *ONE_SIDE]
    found = list(rows())
    for row in found:
        assert sum(row.startswith(words) for words in known) == 1, f"docs/compatibility.md has a row that rows.py does not: {row[:80]}"
    gone = [words for words in known if not any(row.startswith(words) for row in found)]
    assert not gone, "rows.py has rows that docs/compatibility.md does not"
    assert len(ONE_SIDE) <= ONE_SIDE_MAX


def test_every_test_is_there():
    for name in [name for names in ROWS.values() for name in names] + [name for _, names in ONE_SIDE.values() for name in names]:
        path, _, function = name.partition("::")
        text = (TESTS / path).read_text(encoding="utf-8")
        assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), name

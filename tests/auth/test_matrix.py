"""Every route for every kind of caller: gnudi answers as a real Gnocchi with the same Keystone, with the same status and the same
owners' objects. The tables of docs/auth-matrix.md are generated here: `pytest auth/test_matrix.py --update` writes them.
"""

import concurrent.futures
import dataclasses
import pathlib
import re

import pytest

from auth import cloud
from auth.rows import ROWS
from auth.world import World
from support import cloud_venv
from support.gnocchi import Gnocchi

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "auth-matrix.md"
BEGIN, END = "<!-- Made by tests/auth/test_matrix.py: begin -->\n", "<!-- end -->\n"
METHODS = {"get", "post", "put", "patch", "delete", "head"}

# In the table of what is shown.
LETTERS = {"of the other project": "O", "made by a service": "S", "": "P"}


@pytest.fixture
def worlds(gnudi, keystone, postgres, tmp_path):
    """The same world on gnudi and on Gnocchi."""
    everybody = cloud.people(keystone)
    config = cloud.config(keystone, everybody)
    gnocchi = Gnocchi(tmp_path / "gnocchi", postgres, config=config, python=cloud_venv.python())
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            theirs = pool.submit(lambda: World(gnocchi.start(), everybody))
            mine = World(gnudi(config=config, arguments=["--skip-archive-policies-creation"]), everybody)
            yield mine, theirs.result()
    finally:
        if gnocchi.process is not None:
            gnocchi.stop()


def answers(world, rows):
    """Status and what is shown, for each caller of each row."""
    return {row: [world.ask(row, caller) for caller in cloud.CALLERS] for row in rows}


def test_gnudi_answers_as_gnocchi_does(worlds, pytestconfig):
    mine, theirs = worlds
    compared = [row for row in ROWS if row.own is None]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        expected = pool.submit(answers, theirs, compared)
        got, expected = answers(mine, ROWS), expected.result()
    wrong = []
    for row in ROWS:
        wanted = expected[row] if row in expected else [(status, None) for status in row.own]
        if row.deleted:
            let_in = [(status, frozenset([str(number)])) for (status, _), number in zip(wanted[len(cloud.NOBODY):], row.deleted)]
            wanted = wanted[:len(cloud.NOBODY)] + let_in
        for caller, (status, shown), (wanted_status, wanted_shown) in zip(cloud.CALLERS, got[row], wanted):
            shown = shown - {label for other, label in row.more if other == caller and label not in (wanted_shown or ())}
            if status != wanted_status or wanted_shown not in (None, shown):
                wrong.append(f"{row.method} {row.path or row.route} {row.what} by {caller}: {status} {sorted(shown)}, not "
                             f"{wanted_status} {sorted(wanted_shown or [])}")
    assert not wrong, "\n".join(wrong)
    # Below its prefix Prometheus' API is the same.
    below = {row: dataclasses.replace(row, path="/prometheus" + (row.path or row.route)) for row in ROWS
             if row.route.startswith(("/api/v1/", "/federate"))}
    got_below = answers(mine, below.values())
    for row, prefixed in below.items():
        assert got_below[prefixed] == got[row], prefixed
    for row in compared:
        assert all(status < 500 for status, _ in got[row]), f"{row}: a server's fault is no answer"

    assert missing(mine) == set()
    text = BEGIN + tables(got) + END
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    if pytestconfig.getoption("update"):
        PAGE.write_text(before + text + after)
    else:
        assert page == before + text + after, "docs/auth-matrix.md is not what the servers do: run this test with --update"


def missing(world):
    """The routes of the OpenAPI document that no row asks for."""
    document = world.callers["member"].get("/v1/openapi.json").expect(200).json()
    routes = {(method.upper(), path) for path, item in document["paths"].items() for method in METHODS & item.keys()}
    assert len(routes) > 50
    return routes - {(row.method, row.route) for row in ROWS}


def tables(got):
    head = ["request", *cloud.CALLERS]
    statuses = [head] + [[name(row), *(str(status) for status, _ in cells)] for row, cells in got.items()]
    listed = {row: cells for row, cells in got.items() if any(shown for _, shown in cells)}
    shows = [head] + [[name(row), *(letters(*cell) for cell in cells)] for row, cells in listed.items()]
    return (table(statuses) + "\nWhat a successful answer shows: **P** what the project made, **S** what a service made for it, "
            "**O** what is\nthe other project's, a number how many were deleted.\n\n" + table(shows))


def name(row):
    path = re.sub(r"[?].*", "", row.route)
    return f"`{row.method} {path}`" + (f" {row.what}" if row.what else "")


def letters(status, shown):
    """Whose things these are."""
    if status >= 300:
        return str(status)
    numbers = [label for label in shown if label.isdigit()]
    if numbers:
        return numbers[0]
    owners = {letter for label in shown for letter in [next(LETTERS[part] for part in LETTERS if part in label)]}
    return " ".join(letter for letter in "PSO" if letter in owners) or "none"


def table(rows):
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

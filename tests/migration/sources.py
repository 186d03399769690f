"""Combinations of engines under a real Gnocchi that is imported: as `support.engines` for gnudi, with Gnocchi's different options."""

import itertools

from support import engines

COMBINATIONS = ["postgresql+redis+file", "mariadb+redis+ceph", "postgresql+file+s3", "mariadb+ceph+swift", "postgresql+s3+redis",
                "mariadb+swift+file"]

_numbers = itertools.count(1)


def databases(request, combination):
    """The server of a combination's indexer. `request` is pytest's: it starts what is named."""
    indexer, _, _ = combination.split("+")
    return engines.databases(request, indexer)


def sections(request, combination):
    """The sections [incoming] and [storage] of Gnocchi's configuration."""
    _, incoming, storage = combination.split("+")
    return f"[incoming]\n{_store(request, incoming)}[storage]\n{_store(request, storage)}"


def _store(request, engine):
    """Each use has a place of its own."""
    number = next(_numbers)
    if engine == "redis":
        # Gnocchi's keys have no prefix.
        return f"driver = redis\nredis_url = {request.getfixturevalue('redis').url}?db={number}\n"
    more = {"s3": "s3_check_consistency_timeout = 0\n", "swift": "swift_container_prefix_all = true\n"}
    return engines.store(request, engine, f"gnocchi{number}") + more.get(engine, "")

"""Combinations of engines under gnudi: the configuration of each, on servers that the test run has started.

A combination is named as `postgresql+redis+ceph`: indexer, incoming, storage. Each use gets its own database, prefix, pool or
bucket, so that clouds are separate.
"""

import itertools

import pytest

COMBINATIONS = ["mariadb+s3+s3", "postgresql+redis+ceph", "postgresql+redis+swift", "mariadb+redis+redis", "postgresql+redis+s3", "postgresql+s3+redis"]

# The one that `make test` has. The others are for `make long`: each driver alone passes its conformance suite in `cargo test`.
USUAL = "postgresql+redis+ceph"

_numbers = itertools.count(1)


def parameters(combinations=COMBINATIONS, usual=(USUAL,)):
    """For `parametrize`: these combinations, of which all but the usual ones are marked `long`."""
    return [combination if combination in usual else pytest.param(combination, marks=pytest.mark.long) for combination in combinations]


def sections(request, combination):
    """The sections [indexer], [incoming] and [storage] of a configuration. `request` is pytest's: it starts what is named."""
    number = next(_numbers)
    indexer, incoming, storage = combination.split("+")
    return (f"[indexer]\nurl = {databases(request, indexer).create_database(f'gnudi{number}')}\n"
            f"[incoming]\n{store(request, incoming, f'in{number}')}"
            f"[storage]\n{store(request, storage, f'st{number}')}")


def databases(request, engine):
    """The server that makes databases."""
    return request.getfixturevalue("postgres" if engine == "postgresql" else engine)


def store(request, engine, place):
    """The lines of [incoming] or [storage] for an engine, with a place of this name."""
    match engine:
        case "redis":
            url = request.getfixturevalue("redis").url
            return f"driver = redis\nredis_url = {url}\nredis_prefix = {place}\n"
        case "ceph":
            ceph = request.getfixturevalue("ceph")
            ceph.create_pool(place)
            return f"driver = ceph\nceph_pool = {place}\nceph_conffile = {ceph.conf}\nceph_username = admin\n"
        case "s3":
            gateway = request.getfixturevalue("radosgw")
            return f"driver = s3\ns3_bucket_prefix = {place}\n{gateway.s3_options}"
        case "swift":
            gateway = request.getfixturevalue("radosgw")
            return f"driver = swift\nswift_container_prefix = {place}\n{gateway.swift_options}"
        case "file":
            return f"driver = file\nfile_basepath = {request.getfixturevalue('shared_dir')}/{place}\n"
    raise ValueError(engine)

"""Go programs of the tests: compiled once into target/go, with modules in the module cache."""

import json
import os
import pathlib
import shutil
import subprocess

from support.gnudi import ROOT

HERE = pathlib.Path(__file__).resolve().parent
BUILT = ROOT / "target" / "go"
COMPILE_TIMEOUT_S = 900


def go(*arguments, directory):
    """Runs `go` and answers what it printed."""
    program = shutil.which("go")
    assert program, "missing: Go 1.21 or newer (apt: golang-go)"
    done = subprocess.run([program, *map(str, arguments)], cwd=directory, capture_output=True, text=True, check=False,
                          timeout=COMPILE_TIMEOUT_S, env={**os.environ, "GOFLAGS": "-mod=readonly"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_binary(directory, name):
    """The tests of a Go package as a program; Go compiles only what has changed."""
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / name
    go("test", "-c", "-o", program, ".", directory=directory)
    return program


def program(name, package=".", tags=()):
    """A program of the module in the folder `name`; Go compiles only what has changed."""
    BUILT.mkdir(parents=True, exist_ok=True)
    built = BUILT / name
    go("build", "-tags", ",".join(tags), "-o", built, package, directory=HERE / name)
    return built


def module(path, version):
    """The folder of a module in the module cache, downloaded where it is missing."""
    told = json.loads(go("mod", "download", "-json", f"{path}@{version}", directory=HERE))
    return pathlib.Path(told["Dir"])


def outcomes(program, directory, timeout_s, env):
    """Runs a test program; whether each of its tests and subtests passed, by name, and all that it printed."""
    done = subprocess.run([program, "-test.v=test2json"], cwd=directory, capture_output=True, text=True, timeout=timeout_s, check=False,
                          env={**os.environ, **env})
    passed = {}
    for line in done.stdout.splitlines():
        mark, _, rest = line.lstrip("\x16 ").partition(": ")
        if mark in ("--- PASS", "--- FAIL"):
            passed[rest.rpartition(" (")[0]] = mark == "--- PASS"
    return passed, done.stdout + done.stderr

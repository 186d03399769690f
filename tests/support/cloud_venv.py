"""The second virtual environment: OpenStack's own programs (Keystone, Ceilometer, their libraries), whose dependencies
conflict with those of the tests.

`make` puts it into .cloud-venv in the root of the repository; `GNUDI_CLOUD_VENV` names another.
"""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CloudVenvMissing(Exception):
    """The environment, or a program in it, is not there."""


def directory():
    """Where the environment lies."""
    return pathlib.Path(os.environ.get("GNUDI_CLOUD_VENV", ROOT / ".cloud-venv")).absolute()


def program(name):
    """The path of a program of the environment, such as `keystone-manage`."""
    path = directory() / "bin" / name
    if not path.exists():
        raise CloudVenvMissing(f"{path} is missing: `make test` installs it; GNUDI_CLOUD_VENV names another environment")
    return path


def python():
    """The environment's Python."""
    return program("python")

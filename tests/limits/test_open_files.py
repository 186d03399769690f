"""Connections leave files for the store: a server raises its limit of open files as far as it may."""

import resource

import pytest

from support.gnudi import Gnudi

CONFIG = "[api]\nconnections_max = 500\n"
WARNING = "may not open 1500 files"


class Limited(Gnudi):
    """Its limit of open files is set by an option of ulimit."""

    option = "-Sn"

    def command(self):
        return ["sh", "-c", f'ulimit {self.option} 300 && exec "$0" "$@"', *super().command()]


def test_a_server_raises_its_soft_limit(tmp_path):
    with Limited(tmp_path, CONFIG) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == 1500
        assert WARNING not in server.log()


@pytest.mark.slow
def test_a_hard_limit_that_is_too_low_is_reported(tmp_path):
    server = Limited(tmp_path, CONFIG)
    server.option = "-n"
    with server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == 300
        assert WARNING in server.log()

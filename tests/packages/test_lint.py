"""lintian on both packages."""

import subprocess


def test_lintian_is_quiet(built):
    command = ["lintian", "--allow-root", "--no-user-dirs", "--fail-on", "error,warning", *built.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr

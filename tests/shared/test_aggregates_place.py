"""A cluster has one store of aggregates: a program whose configuration names another one, or one that was emptied, is refused."""

import re
import shutil

from support import gnudi as program
from support.engines import sections
from support.http import create_metric, create_policy, get_seconds, post_seconds

SOON_S = 60


def refused(path):
    for command in ("metricd", "upgrade"):
        done = program.run(command, "--config-file", path, timeout_s=SOON_S)
        assert done.returncode == 1, done.stderr
        assert "[storage] driver" in done.stderr and "--replace-aggregates" in done.stderr, done.stderr


def test_another_store_is_refused_until_it_is_to_replace_the_first(cloud, request, tmp_path):
    made = cloud("[metricd]\nlease_seconds = 2\n" + sections(request, "postgresql+file+file"))
    client = made.client()
    create_policy(client, "placed", [("1s", None)], aggregation_methods=["sum"])
    metric = create_metric(client, "placed")
    post_seconds(client, metric, range(5))
    assert get_seconds(client, metric) == list(range(5))
    folder = re.search(r"\[storage\]\ndriver = file\nfile_basepath = (\S+)", made.config)[1]
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(made.config.replace(f"{folder}\n", f"{folder}-wrong\n"))
    # Twice: the first start has made nothing.
    refused(wrong)
    refused(wrong)
    for process in [*made.apis, *made.workers]:
        assert process.stop() == 0
    shutil.move(folder, f"{folder}-kept")
    refused(made.config_path)
    done = made.run("upgrade", "--replace-aggregates")
    assert done.returncode == 0, done.stderr
    for process in [*made.workers, *made.apis]:
        process.start()
    post_seconds(made.client(), metric, [20])
    assert get_seconds(made.client(), metric)[-1] == 20
    for process in [*made.apis, *made.workers]:
        assert process.stop() == 0
    # The first one has another identity. It may come back.
    shutil.rmtree(folder)
    shutil.move(f"{folder}-kept", folder)
    refused(made.config_path)
    done = made.run("upgrade", "--replace-aggregates")
    assert done.returncode == 0, done.stderr
    for process in [*made.workers, *made.apis]:
        process.start()
    assert get_seconds(made.client(), metric)[:5] == list(range(5))

"""The real Gnocchi 4.7.1 behind a threaded HTTP server: the program that `gnocchi.py` starts.

One process serves the API, and with `--metricd` a thread of it processes pending measures. Without that thread measures are only
processed by requests with `refresh=true`, so that a test determines the passes.

It loads Gnocchi once, which takes three seconds, and forks a server for each line of its input: `{"arguments": [...], "environment": {...},
"log": path}`. It answers the process id.
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
import uuid

from gnocchi import chef, incoming, indexer, service, storage
from gnocchi.cli import metricd
from gnocchi.rest import app
from werkzeug import serving


def process_for_ever(worker, pause_s=0.1):
    while True:
        for sack in worker.incoming.iter_sacks():
            worker.process_new_measures_for_sack(sack, blocking=True)
        time.sleep(pause_s)


def under_prefix(application, prefix):
    """The WSGI application as mounted at `prefix`."""

    def mounted(environ, start_response):
        path = environ.get("PATH_INFO", "")
        if prefix and path.startswith(prefix):
            environ["SCRIPT_NAME"] = prefix
            environ["PATH_INFO"] = path[len(prefix):]
        return application(environ, start_response)

    return mounted


class QuietHandler(serving.WSGIRequestHandler):
    def log_request(self, *_):
        pass


def serve(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--metricd", action="store_true")
    arguments = parser.parse_args(words)

    conf = service.prepare_service([], default_config_files=[arguments.config_file], skip_log_opts=True)
    index, store, queue = indexer.get_driver(conf), storage.get_driver(conf), incoming.get_driver(conf)
    index.upgrade()
    store.upgrade()
    queue.upgrade(8)
    if arguments.metricd:
        coordinator = metricd.get_coordinator_and_start(str(uuid.uuid4()), conf.coordination_url)
        worker = chef.Chef(coordinator, queue, index, store)
        threading.Thread(target=process_for_ever, args=(worker,), daemon=True).start()
    application = under_prefix(app.load_app(conf), arguments.prefix)
    serving.run_simple("127.0.0.1", arguments.port, application, threaded=True, request_handler=QuietHandler)


def fork(arguments, environment, log):
    """The id of a process, the first of its group, that serves; nobody waits for it."""
    pid = os.fork()
    # Both of them, whichever comes first.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    if pid:
        return pid
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
            opened = os.open(path, flags, 0o644)
            os.dup2(opened, number)
            os.close(opened)
        os.dup2(1, 2)
        os.environ.update(environment)
        serve(arguments)
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def main():
    # What the drivers of the index and the API load when they are made.
    for module in ("alembic.command", "alembic.config", "gnocchi.indexer.sqlalchemy", "gnocchi.rest.api", "psycopg2"):
        importlib.import_module(module)
    # The kernel reaps the servers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        print(fork(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()

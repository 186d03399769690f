"""The real Gnocchi 4.7.1 behind a threaded HTTP server: the program that `gnocchi.py` starts.

One process serves the API, and with `--metricd` a thread of it processes pending measures. Without that thread measures are only
processed by requests with `refresh=true`, so that a test determines the passes.
"""

import argparse
import threading
import time
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--metricd", action="store_true")
    arguments = parser.parse_args()

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


if __name__ == "__main__":
    main()

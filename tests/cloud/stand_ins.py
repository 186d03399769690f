"""What the cloud has stand-ins for: Neutron, which knows no network, and whoever an alarm calls."""

import http.server
import json
import threading

#: Lists that Nova asks for.
EMPTY = {"ports", "networks", "security-groups", "floatingips", "extensions", "subnets"}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        last = self.path.partition("?")[0].rstrip("/").rpartition("/")[2]
        if last in EMPTY:
            self.answer(200, {last.replace("-", "_"): []})
        else:
            self.answer(404, {"NeutronError": {"type": "NotFound", "message": self.path, "detail": ""}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.called.append(json.loads(body))
        self.answer(200, {})


class StandIn:
    """A server on a free port; `called` has what was posted to it."""

    def __init__(self, port=0):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        self.server.daemon_threads = True
        self.server.called = []
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def called(self):
        return self.server.called

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

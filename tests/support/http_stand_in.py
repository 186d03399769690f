"""An HTTP server that a test runs in place of a service."""

import http.server
import json
import threading


class HttpStandIn:
    """A server on a loopback port, a free one unless told. The port is taken at once and answers from `start` on. With a TLS
    context it speaks HTTPS."""

    def __init__(self, port=0, context=None):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler(self))
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"

    def respond(self, method, path, headers, body):
        """Status, headers beside the usual ones, and body: bytes as they are, None for an empty one, anything else as JSON."""
        raise NotImplementedError

    def start(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def handler(stand_in):
    """The class whose objects answer a stand-in's connections."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, answer = stand_in.respond(self.command, self.path, self.headers, body)
            if not isinstance(answer, bytes):
                answer = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(answer)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        do_GET = do_HEAD = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_):
            pass

    return Handler

"""A stand-in for Keystone that knows a few tokens: for tests of what needs one, and not of Keystone itself."""

import http.server
import json
import threading

OWN_TOKEN = "gnudi's own"
ROLES = {"admin": ["admin", "member"], "member": ["member"]}


def _document(name):
    domain = {"id": "default", "name": "Default"}
    return {"token": {
        "user": {"id": f"id of {name}", "name": name, "domain": domain},
        "project": {"id": f"project of {name}", "name": name, "domain": domain},
        "roles": [{"name": role} for role in ROLES.get(name, ["admin", "service"])],
        "issued_at": "2020-01-01T00:00:00.000000Z", "expires_at": "2090-01-01T00:00:00.000000Z", "catalog": [],
    }}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, document, **headers):
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        """gnudi logs in."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(201, _document("gnudi"), X_Subject_Token=OWN_TOKEN)

    def do_GET(self):
        """A token is validated: that of `admin` is the word `admin`."""
        token = self.headers.get("X-Subject-Token", "")
        if self.headers.get("X-Auth-Token") != OWN_TOKEN:
            self.answer(401, {})
        elif token in ROLES:
            self.answer(200, _document(token))
        else:
            self.answer(404, {})


class Identity:
    """The server, on a free loopback port."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def config(self):
        """gnocchi.conf for `auth_mode = keystone`."""
        return ("[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_type = password\n"
                f"auth_url = {self.url}\nwww_authenticate_uri = {self.url}\nusername = gnudi\npassword = secret\n"
                "user_domain_name = Default\nproject_name = service\nproject_domain_name = Default\n")

"""A stand-in for Keystone with a few tokens, for tests that need tokens but do not test Keystone itself."""

from support.http_stand_in import HttpStandIn

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


class Identity(HttpStandIn):
    """The server, on a free loopback port."""

    def respond(self, method, path, headers, body):
        if method == "POST":
            # gnudi logs in.
            return 201, {"X-Subject-Token": OWN_TOKEN}, _document("gnudi")
        # A token is validated: that of `admin` is the word `admin`.
        token = headers.get("X-Subject-Token", "")
        if headers.get("X-Auth-Token") != OWN_TOKEN:
            return 401, {}, {}
        if token in ROLES:
            return 200, {}, _document(token)
        return 404, {}, {"error": {"code": 404}}

    def config(self):
        """gnocchi.conf for `auth_mode = keystone`."""
        return ("[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_type = password\n"
                f"auth_url = {self.url}\nwww_authenticate_uri = {self.url}\nusername = gnudi\npassword = secret\n"
                "user_domain_name = Default\nproject_name = service\nproject_domain_name = Default\n")

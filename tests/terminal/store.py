"""What the server of these tests holds, and how both programs find it."""

HOUR = "2026-11-21T10"
NAMESAKES = ("web-1", "web-2")


def server_variables(server):
    """Who asks which server, as both programs read it."""
    return {"OS_AUTH_TYPE": "gnocchi-basic", "GNOCCHI_USER": "admin", "GNOCCHI_ENDPOINT": f"http://127.0.0.1:{server.port}"}

"""Certificates of a test's own: a root and a server's certificate for 127.0.0.1, made by the `openssl` command."""

import pathlib
import ssl
import subprocess


class Certificates:
    """`root`, `certificate` and `key` are PEM files in a directory."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.root, self.root_key = self.directory / "root.pem", self.directory / "root.key"
        self.certificate, self.key = self.directory / "server.pem", self.directory / "server.key"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=root",
                "-keyout", self.root_key, "-out", self.root)
        self.renew()

    def renew(self):
        """Another certificate and key in place of those before."""
        names, request = self.directory / "names", self.directory / "request"
        key, certificate = self.directory / "new.key", self.directory / "new.pem"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.root, "-CAkey", self.root_key, "-CAcreateserial",
                "-days", "2", "-extfile", names, "-out", certificate)
        key.rename(self.key)
        certificate.rename(self.certificate)

    def mutual(self):
        """The TLS context of a server that lets in only who has a certificate of the root's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(self.root)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)

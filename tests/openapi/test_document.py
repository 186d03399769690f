"""The OpenAPI document at /v1/openapi.json: valid as OpenAPI 3.1, open to all, its examples fit its schemas, and the
server keeps to it.

Schemathesis makes requests from the document, good ones and bad ones, with few examples of each (`--rounds`, or as `make
openapi` has it): no answer may be a 500, and every answer must have a status, a content type and a body that the document states.
"""

import pathlib
import subprocess
import sys

import jsonschema
import openapi_spec_validator
import pytest
from referencing import Registry, Resource as Document
from referencing.jsonschema import DRAFT202012

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(sys.executable).with_name("schemathesis")
ROUNDS = 3
TIMEOUT_S = 600
EXAMPLE_TIMEOUT_S = 20
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance"]
PATH = "/v1/openapi.json"
# Bodies that it cannot make (tests/inputs/ has them), and answers that take as long as they are asked to (tests/profile/).
LEFT_OUT = ["/v1/prometheus/write", "/api/v1/write", "/api/v1/otlp/v1/metrics", "/api/v1/read", "/debug/flamegraph"]
# How long a request and the making of it take on a busy machine is not what is tested. 501 is Gnocchi's answer to queries of InfluxDB.
CONFIG = """\
request-timeout = 60
suppress-health-check = ["too_slow"]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501"]
"""


@pytest.fixture(scope="module")
def document(server):
    answer = server.client().as_user(None).get(PATH).expect(200)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_it_is_valid(document):
    assert document["openapi"].startswith("3.1")
    openapi_spec_validator.validate(document)


def examples(node, where="#"):
    """Every (place, schema, example) of the document."""
    if isinstance(node, dict):
        if "schema" in node and "example" in node:
            yield where, node["schema"], node["example"]
        for key, value in node.items():
            yield from examples(value, f"{where}/{key}")
    if isinstance(node, list):
        for number, value in enumerate(node):
            yield from examples(value, f"{where}/{number}")


def test_its_examples_fit_its_schemas(document):
    registry = Registry().with_resource("urn:api", Document.from_contents(document, default_specification=DRAFT202012))
    found = list(examples(document))
    assert len(found) > 40
    for where, schema, example in found:
        schema = {"$ref": "urn:api" + schema["$ref"]} if "$ref" in schema else {
            **schema, "items": {"$ref": "urn:api" + schema["items"]["$ref"]}} if "$ref" in schema.get("items", {}) else None
        if schema is not None:
            errors = jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(example)
            assert not [f"{where}: {error.message}" for error in errors]


def make_what_the_examples_name(client, document):
    for path, parameters in (("/v1/resource_type", ""), ("/v1/resource/{type}", "instance")):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        client.post(path.replace("{type}", parameters), body).expect(201)


def test_the_server_keeps_to_it(server, document, tmp_path, seed, rounds):
    make_what_the_examples_name(server.client(), document)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    done = subprocess.run(
        [PROGRAM, "--config-file", "schemathesis.toml", "run", f"http://127.0.0.1:{server.port}{PATH}", "--auth", "admin:", "--seed", str(seed),
         *(word for path in LEFT_OUT for word in ("--exclude-path", path)),
         "--max-examples", str(rounds), "--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS)],
        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S + EXAMPLE_TIMEOUT_S * rounds, check=False)
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-20_000:]}{done.stderr[-2_000:]}"

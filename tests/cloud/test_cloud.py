"""A cloud in one test, without DevStack but in its order: from the start of the first service to an alarm that fires and a bill.

Real are Keystone, RabbitMQ, MariaDB, Glance, Placement, Nova (its API, scheduler, conductor and compute service with the fake driver), Aodh
and CloudKitty. gnudi is Gnocchi and Ceilometer, by the units of gnudi-gnocchi-compat: names, options, files, logs. Stand-ins are Neutron,
which knows no network, and the hypervisor's own side: Nova's fake driver has no machines, so libvirt's test driver has one for the instance.
"""

import concurrent.futures
import datetime
import json
import subprocess
import urllib.parse

import pytest
from cloud import configuration
from cloud.stack import Stack, answers, document
from cloud.stand_ins import StandIn
from monitoring import files
from page import browser
from support import cloud_venv, mounts
from support.keystone import Keystone
from support.rabbitmq import Rabbitmq
from telemetry import polling

pytestmark = [pytest.mark.long, pytest.mark.skipif(not mounts.possible(), reason="mounting needs root")]

TIMEOUT_S = 180
MICROVERSION = {"OpenStack-API-Version": "compute 2.87", "X-OpenStack-Nova-API-Version": "2.87"}
FLAVOR = {"name": "m1.cloud", "ram": 2048, "vcpus": 2, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 4}
#: Of an instance: two that Nova tells, two that are polled.
METERS = {"vcpus", "compute.instance.booting.time", "cpu", "power.state"}
#: What an instance costs for a minute.
PRICE = 0.25

DOMAIN_METADATA = """<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
<nova:package version="34.0.0"/><nova:name>{name}</nova:name>
<nova:flavor name="{flavor[name]}" id="{flavor_id}"><nova:memory>{flavor[ram]}</nova:memory><nova:disk>{flavor[disk]}</nova:disk>
<nova:swap>0</nova:swap><nova:ephemeral>4</nova:ephemeral><nova:vcpus>{flavor[vcpus]}</nova:vcpus><nova:extraSpecs/></nova:flavor>
<nova:owner><nova:user uuid="{user}">u</nova:user><nova:project uuid="{project}">p</nova:project></nova:owner>
<nova:root type="image" uuid="{image}"/></nova:instance></metadata>"""


@pytest.fixture
def stack(tmp_path, mariadb):
    """Keystone and RabbitMQ, the first of DevStack's services beside the database."""
    keystone = Keystone(tmp_path / "keystone", mariadb.create_database("cloud_keystone"))
    broker = Rabbitmq(tmp_path / "rabbitmq")
    made = None
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda server: server.start(), [keystone, broker]))
        made = Stack(tmp_path / "cloud", keystone, mariadb, broker)
        yield made
    finally:
        if made is not None:
            made.stop()
        keystone.stop()
        broker.stop()


@pytest.fixture
def stand_in():
    made = []

    def make(port=0):
        made.append(StandIn(port).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_from_the_first_service_to_the_alarm(stack, stand_in, tmp_path):
    world = Members(stack)
    start_glance(stack)
    start_placement_and_nova(stack, stand_in)
    start_gnudi(stack, tmp_path)
    image = upload(stack, world)
    server = boot(stack, world, image)
    start_polling_of(stack, world, server, image, tmp_path)
    project_sees_its_instance(stack, world, server)
    page_shows_it(stack, world, server)
    alarms_fire(stack, world, server, stand_in())
    usage_is_rated(stack, world)
    instance_ends(stack, world, server)


class Members:
    """The project whose instance it is, its user, and the administrator."""

    def __init__(self, stack):
        keystone = stack.keystone
        self.project = keystone.project("demo")
        self.user = keystone.user("demo", roles={self.project: ["member", "reader"]})
        self.token = keystone.token(self.user, self.project)
        self.admin = keystone.admin_token()


def start_glance(stack):
    stack.api("glance", "image")
    configuration.glance(stack, stack.user("glance", "admin"))
    stack.run("glance-manage", "db_sync")
    stack.serve("glance", "glance.wsgi.api:application", "/versions")


def start_placement_and_nova(stack, stand_in):
    stack.api("placement", "placement")
    configuration.placement(stack, stack.user("placement", "admin"))
    stack.run("placement-manage", "--config-file", "/etc/placement/placement.conf", "db", "sync")
    stack.serve("placement", "placement.wsgi.api:application", environment={"OS_PLACEMENT_CONFIG_DIR": "/etc/placement"})

    stand_in(stack.api("neutron", "network"))
    stack.api("nova", "compute", "/v2.1")
    configuration.nova(stack, stack.user("nova", "admin"))
    for words in (["api_db", "sync"], ["cell_v2", "map_cell0"], ["db", "sync"], ["cell_v2", "create_cell", "--name", "cell1"]):
        stack.run("nova-manage", *words)
    for name in ("nova-conductor", "nova-scheduler", "nova-compute"):
        stack.start(name, name)
    stack.serve("nova", "nova.wsgi.osapi_compute:application")
    find = lambda command: configuration.HOST in stack.run("nova-manage", "cell_v2", command)
    stack.wait(lambda: find("discover_hosts") or find("list_hosts"), TIMEOUT_S, "nova-compute")


def start_gnudi(stack, directory):
    """As DevStack's plugins of Gnocchi and Ceilometer, by the units of the package."""
    stack.api("gnocchi", "metric")
    # What Aodh, Watcher and others look for who ask Prometheus' API.
    stack.keystone.service("metric-storage", "gnudi", f"http://127.0.0.1:{stack.ports['gnocchi']}")
    configuration.gnocchi(stack, stack.user("gnocchi"))
    stack.run("gnocchi-upgrade")
    stack.unit("gnocchi-api").wait_ready(lambda: answers(stack.ports["gnocchi"], "/healthcheck"), TIMEOUT_S)
    configuration.ceilometer(stack, stack.user("ceilometer", "admin"), polling.libvirt(directory, []))
    stack.run("ceilometer-upgrade")
    stack.unit("ceilometer-agent-notification")
    stack.unit("ceilometer-agent-central")
    stack.wait(lambda: stack.broker.consumers().get("notifications.info"), TIMEOUT_S, "the notification agent")


def upload(stack, world):
    """A public image of a few bytes."""
    wanted = {"name": "cirros", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    image = document(stack.request("glance", world.admin, "POST", "/v2/images", wanted), 201)["id"]
    data = {"Content-Type": "application/octet-stream"}
    stack.request("glance", world.admin, "PUT", f"/v2/images/{image}/file", b"\0" * 4096, data).expect(204)
    return image


def boot(stack, world, image):
    """The project's instance, once Nova says that it runs: {id, flavor_id, name}."""
    flavor = document(stack.request("nova", world.admin, "POST", "/v2.1/flavors", {"flavor": FLAVOR}))["flavor"]["id"]
    # A host with room is what the scheduler looks for.
    room = {"OpenStack-API-Version": "placement 1.4"}
    hosts = lambda: document(stack.request("placement", world.admin, "GET", "/resource_providers?resources=VCPU:1", headers=room))
    stack.wait(lambda: hosts()["resource_providers"], TIMEOUT_S, "a host with room")
    wanted = {"name": "web", "imageRef": image, "flavorRef": flavor, "networks": "none"}
    made = document(stack.request("nova", world.token, "POST", "/v2.1/servers", {"server": wanted}, MICROVERSION), 202)["server"]["id"]

    def status():
        server = document(stack.request("nova", world.token, "GET", f"/v2.1/servers/{made}", headers=MICROVERSION))["server"]
        assert server["status"] != "ERROR", server
        return server["status"] == "ACTIVE"

    stack.wait(status, TIMEOUT_S, "the instance")
    return {"id": made, "flavor_id": flavor, "name": "web"}


def start_polling_of(stack, world, server, image, directory):
    """The compute agent, beside a hypervisor that has the instance."""
    metadata = DOMAIN_METADATA.format(name=server["name"], flavor=FLAVOR, flavor_id=server["flavor_id"], user=world.user.id,
                                      project=world.project.id, image=image)
    polling.libvirt(directory, [polling.DOMAIN.format(state=1, name="instance-00000001", uuid=server["id"], number=1, metadata=metadata, filter="")])
    stack.unit("ceilometer-agent-compute")


def project_sees_its_instance(stack, world, server):
    """By Gnocchi's API, by Gnocchi's client, and by Prometheus' API, with the member's own token."""
    def resource():
        answer = stack.request("gnocchi", world.token, "GET", f"/v1/resource/instance/{server['id']}")
        return answer.status == 200 and METERS <= answer.json()["metrics"].keys() and answer.json()

    found = stack.wait(resource, TIMEOUT_S, "the instance in the store")
    assert (found["project_id"], found["user_id"], found["display_name"]) == (world.project.id, world.user.id, server["name"])
    assert (found["flavor_name"], found["host"], found["ended_at"]) == (FLAVOR["name"], configuration.HOST, None)

    environment = {**stack.keystone.environment(world.user, world.project), "PATH": "/usr/bin:/bin"}
    words = ["measures", "show", "vcpus", "--resource-id", server["id"], "--granularity", "60", "-f", "json"]
    client = lambda: subprocess.run([cloud_venv.program("gnocchi"), *words], capture_output=True, text=True, check=False, timeout=60, env=environment)
    shown = stack.wait(lambda: (done := client()).returncode == 0 and json.loads(done.stdout), TIMEOUT_S, "gnocchiclient")
    assert {row["value"] for row in shown} == {FLAVOR["vcpus"]}
    images = lambda: document(stack.request("gnocchi", world.admin, "GET", "/v1/resource/image"))
    stack.wait(lambda: ["image.size" in image["metrics"] for image in images()] == [True], TIMEOUT_S, "the image in the store")

    def asked(query):
        """What Prometheus' API finds. A metric is there before its first measure."""
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": query})
        find = lambda: document(stack.request("gnocchi", world.token, "GET", path))["data"]["result"]
        return stack.wait(find, TIMEOUT_S, query)

    answer = asked("ceilometer_power_state")
    assert [(one["metric"]["resource"], one["metric"]["project"], one["value"][1]) for one in answer] == [(server["id"], world.project.id, "1")]
    # As Grafana asks for the panel of the dashboard.
    instances = dict(files.expressions(files.dashboard("openstack-instances"), "20m", "1h"))["Instances"]
    assert [(one["metric"], one["value"][1]) for one in asked(instances)] == [({"project": world.project.id}, "1")]


def page_shows_it(stack, world, server):
    """In a browser, to the member with a token."""
    browser.node(browser.TESTS / "cloud" / "instance.mjs", f"http://127.0.0.1:{stack.ports['gnocchi']}", server["id"], server["name"], "vcpus", "cpu",
                 TOKEN=world.token)


def alarms_fire(stack, world, server, called):
    """Aodh's: the instance runs, as Gnocchi's API and as Prometheus' API have it."""
    stack.api("aodh", "alarming")
    configuration.aodh(stack, stack.user("aodh", "admin"))
    stack.run("aodh-dbsync")
    stack.serve("aodh", "aodh.wsgi.api:application")
    for name in ("aodh-evaluator", "aodh-notifier"):
        stack.start(name, name)
    above = {"comparison_operator": "gt", "threshold": 0}
    by_gnocchi = {"metric": "power.state", "resource_type": "instance", "resource_id": server["id"], "aggregation_method": "mean",
                  "granularity": 60, "evaluation_periods": 1, **above}
    by_prometheus = {"query": f'ceilometer_power_state{{resource="{server["id"]}"}}', **above}
    alarms = set()
    for kind, rule_name, rule in (("gnocchi_resources_threshold", "gnocchi_resources_threshold_rule", by_gnocchi),
                                  ("prometheus", "prometheus_rule", by_prometheus)):
        wanted = {"name": f"it runs ({kind})", "type": kind, rule_name: rule, "alarm_actions": [f"http://127.0.0.1:{called.port}/called"]}
        alarms.add(document(stack.request("aodh", world.token, "POST", "/v2/alarms", wanted), 201)["alarm_id"])
    stack.wait(lambda: {call["alarm_id"] for call in called.called if call["current"] == "alarm"} == alarms, TIMEOUT_S, "the alarms' actions")
    # Where a minute has begun without a sample, an alarm knows nothing for a moment.
    state = lambda alarm: document(stack.request("aodh", world.token, "GET", f"/v2/alarms/{alarm}"))["state"]
    stack.wait(lambda: {state(alarm) for alarm in alarms} == {"alarm"}, TIMEOUT_S, "the alarms' states")


def usage_is_rated(stack, world):
    """CloudKitty's: a price for an instance, and what the project owes for a minute."""
    stack.api("cloudkitty", "rating")
    user = stack.user("cloudkitty", "admin")
    configuration.cloudkitty(stack, user)
    # CloudKitty rates the projects in which its user has this role.
    stack.keystone.grant(user, world.project, "rating")
    stack.run("cloudkitty-dbsync", "upgrade")
    stack.run("cloudkitty-storage-init")
    minute = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    begin = minute - datetime.timedelta(minutes=2)
    stack.run("python", configuration.BEGIN_RATING, world.project.id, begin.isoformat())
    stack.serve("cloudkitty", "cloudkitty.wsgi.api:application")
    ask = lambda method, path, body=None: stack.request("cloudkitty", world.admin, method, f"/v1{path}", body)
    service = document(ask("POST", "/rating/module_config/hashmap/services", {"name": "instance"}), 201)["service_id"]
    mapping = {"service_id": service, "type": "flat", "cost": str(PRICE), "start": begin.replace(tzinfo=None).isoformat()}
    # A price of the past has to be meant.
    ask("POST", "/rating/module_config/hashmap/mappings?force=true", mapping).expect(201)
    ask("PUT", "/rating/modules", {"module_id": "hashmap", "enabled": True}).expect(302)
    assert document(ask("GET", "/rating/modules/hashmap"))["enabled"]
    stack.start("cloudkitty-processor", "cloudkitty-processor")

    def frames():
        found = document(ask("GET", f"/storage/dataframes?tenant_id={world.project.id}"))["dataframes"]
        return [resource for frame in found for resource in frame["resources"]]

    rated = stack.wait(frames, 2 * TIMEOUT_S, "a rated minute")
    assert {(one["service"], float(one["volume"])) for one in rated} == {("instance", 1)}
    assert {float(one["rating"]) for one in rated} == {PRICE}


def instance_ends(stack, world, server):
    stack.request("nova", world.token, "DELETE", f"/v2.1/servers/{server['id']}").expect(204)
    path = f"/v1/resource/instance/{server['id']}"
    stack.wait(lambda: document(stack.request("gnocchi", world.token, "GET", path))["ended_at"], TIMEOUT_S, "the end of the instance")

"""The configuration files of the cloud's programs: those of DevStack, as far as one machine without networks and volumes needs them."""

import pathlib

HOST = "cmp1"
#: A script for the environment of OpenStack.
BEGIN_RATING = pathlib.Path(__file__).with_name("begin_rating.py")

PASTE = """\
[pipeline:cloudkitty+keystone]
pipeline = request_id cloudkitty_auth app
[app:app]
paste.app_factory = cloudkitty.api.app:app_factory
[filter:cloudkitty_auth]
paste.filter_factory = cloudkitty.api.middleware:AuthTokenMiddleware.factory
acl_public_routes = /, /v1, /v2, /healthcheck
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
"""

#: What CloudKitty rates: instances that run, by the minute.
METRICS = """\
metrics:
  power.state:
    unit: instance
    alt_name: instance
    groupby: [id, user_id, project_id]
    metadata: [flavor_name]
    mutate: NUMBOOL
    extra_args: {resource_type: instance, aggregation_method: mean, force_granularity: 60}
"""

#: As DevStack's plugin has it.
PIPELINE = """\
sources: [{name: all, meters: ['*'], sinks: [store]}]
sinks: [{name: store, publishers: ['gnocchi://?archive_policy=high&filter_project=service']}]
"""
POLLING = "sources: [{name: all, interval: 5, meters: ['*']}]\n"


def common(stack, name):
    """What all of OpenStack's services say: the broker, the notifications, a database, where locks lie."""
    database = stack.databases.create_database(f"cloud_{name}")
    return (f"[DEFAULT]\ntransport_url = {stack.broker.url()}\nlog_file = /var/log/{name}/{name}.log\n{{more}}\n"
            "[oslo_messaging_notifications]\ndriver = messagingv2\n"
            f"[database]\nconnection = {database}\n[oslo_concurrency]\nlock_path = {stack.state(name)}\n")


def authtoken(stack, user):
    return f"[keystone_authtoken]\nwww_authenticate_uri = {stack.keystone.url}\nhttp_connect_timeout = 60\n{stack.credentials(user)}"


def glance(stack, user):
    images = stack.state("images")
    text = common(stack, "glance").format(more="enabled_backends = files:file")
    stack.files("glance", glance_api__conf=f"{text}{authtoken(stack, user)}[paste_deploy]\nflavor = keystone\n[glance_store]\ndefault_backend = files\n"
                f"[files]\nfilesystem_store_datadir = {images}\n[os_glance_staging_store]\nfilesystem_store_datadir = {stack.state('staging')}\n"
                f"[os_glance_tasks_store]\nfilesystem_store_datadir = {stack.state('tasks')}\n")


def placement(stack, user):
    database = stack.databases.create_database("cloud_placement")
    stack.files("placement", placement__conf=f"[placement_database]\nconnection = {database}\n[api]\nauth_strategy = keystone\n{authtoken(stack, user)}")


def nova(stack, user):
    """Its fake driver has hosts without machines; instances have no network."""
    api = stack.databases.create_database("cloud_nova_api")
    # Of what found no host.
    stack.databases.create_database("cloud_nova_cell0")
    more = (f"my_ip = 127.0.0.1\nhost = {HOST}\nstate_path = {stack.state('nova')}\ncompute_driver = fake.FakeDriver\n"
            "instance_usage_audit = true\nreport_interval = 5\n")
    others = "".join(f"[{section}]\n{stack.credentials(user)}" for section in ("placement", "neutron", "glance", "service_user"))
    stack.files("nova", nova__conf=f"{common(stack, 'nova').format(more=more)}{authtoken(stack, user)}{others}[api_database]\nconnection = {api}\n"
                "[notifications]\nnotify_on_state_change = vm_and_task_state\nnotification_format = unversioned\n[vnc]\nenabled = false\n"
                "[scheduler]\nworkers = 1\n[conductor]\nworkers = 1\n")


def gnocchi(stack, user):
    """Of gnudi: the embedded store, which the API's process works for, too."""
    stack.files("gnocchi", gnocchi__conf=f"[api]\nauth_mode = keystone\nhost = 127.0.0.1\nport = {stack.ports['gnocchi']}\n"
                f"[storage]\ndriver = file\nfile_basepath = {stack.state('gnocchi')}\n[host]\nenabled = false\n{authtoken(stack, user)}")


def ceilometer(stack, user, hypervisor):
    """Of gnudi's agents. `hypervisor`: libvirt's URI."""
    stack.files(
        "ceilometer", pipeline__yaml=PIPELINE, polling__yaml=POLLING,
        ceilometer__conf=f"[DEFAULT]\ntransport_url = {stack.broker.url()}\nhost = {HOST}\nlibvirt_uri = {hypervisor}\n"
        f"[polling]\njitter = 0\n[publisher]\ntelemetry_secret = secret\n[service_credentials]\n{stack.credentials(user)}")


def aodh(stack, user):
    text = common(stack, "aodh").format(more="")
    stack.files("aodh", aodh__conf=f"{text}{authtoken(stack, user)}[service_credentials]\n{stack.credentials(user)}"
                "[evaluator]\nevaluation_interval = 5\n")


def cloudkitty(stack, user):
    """A period is a minute; frames lie in the database."""
    text = common(stack, "cloudkitty").format(more="api_paste_config = /etc/cloudkitty/api-paste.ini")
    stack.files("cloudkitty", api_paste__ini=PASTE, metrics__yml=METRICS,
                cloudkitty__conf=f"{text}{authtoken(stack, user)}[storage]\nversion = 1\nbackend = sqlalchemy\n[fetcher]\nbackend = keystone\n"
                "[fetcher_keystone]\nauth_section = keystone_authtoken\nkeystone_version = 3\n[collector_gnocchi]\nauth_section = keystone_authtoken\n"
                "[collect]\ncollector = gnocchi\nperiod = 60\nwait_periods = 1\n"
                f"[orchestrator]\nmax_workers = 1\nmax_workers_reprocessing = 1\ncoordination_url = file://{stack.state('locks')}\n")

"""Sends the requests of OpenStack's services to Prometheus' API, by their own code, with tokens of a real Keystone.

Runs in the environment of OpenStack's programs. Reads a job as JSON: `auth` (Keystone's URL, user, password, project), `url` (the store's, for
clients that use no catalogue), and the requests; writes the responses as JSON.
"""

import datetime
import json
import sys

from aodh.evaluator.prometheus import PrometheusEvaluator
from cloudkitty.collector.prometheus import PrometheusCollector
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from observabilityclient import client as observability
from oslo_config import cfg
from watcher import conf as _watcher_options  # noqa: F401: registers what its clients read
from watcher.common import clients as watcher_clients
from watcher.decision_engine.datasources.aetos import AetosHelper

DOMAIN = {"user_domain_name": "Default", "project_domain_name": "Default"}


def session_of(auth):
    password = v3.Password(auth_url=f"{auth['url']}/v3", username=auth["user"], password=auth["password"], project_name=auth["project"], **DOMAIN)
    return Session(auth=password)


def observability_client(session, job):
    """`openstack metric` of python-observabilityclient: list, show, query, as the project sees them."""
    client = observability.Client("1", session)
    return {
        "names": sorted(client.query.list()),
        "shown": [[metric.labels, float(metric.value)] for metric in client.query.show(job["metric"])],
        "asked": [[metric.labels, float(metric.value)] for metric in client.query.query(f"max by (project) ({job['metric']})")],
    }


def aodh_evaluator(session, job):
    """An alarm's rule, with the project put into its query."""
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt("prometheus_project_label_name", default="project"))
    evaluator = PrometheusEvaluator.__new__(PrometheusEvaluator)
    evaluator.conf = conf
    evaluator._prom = observability.Client("1", session)
    rule = {"query": job["metric"], "comparison_operator": "gt", "threshold": job["threshold"], "scope_to_project": job["project_id"]}
    state, _, statistics, outside, _ = evaluator.evaluate_rule(rule)
    return {"state": state, "statistics": statistics, "outside": outside}


def cloudkitty_collector(job):
    """What a project used in an hour, rated by its flavor."""
    conf = cfg.CONF
    conf([], project="cloudkitty", default_config_files=[])
    conf.set_override("prometheus_url", f"{job['url']}/api/v1", "collector_prometheus")
    conf.set_override("prometheus_user", job["basic"][0], "collector_prometheus")
    conf.set_override("prometheus_password", job["basic"][1], "collector_prometheus")
    conf.set_override("scope_key", "project", "collect")
    metrics = {job["metric"]: {"unit": "GiB", "groupby": ["resource"], "metadata": ["flavor"], "extra_args": {"aggregation_method": "max"}}}
    collector = PrometheusCollector(conf={"metrics": metrics}, period=3600)
    end = datetime.datetime.fromtimestamp(job["end"], datetime.timezone.utc)
    points = collector.fetch_all(job["metric"], end - datetime.timedelta(hours=1), end, job["project_id"])
    return [[dict(point.groupby), dict(point.metadata), float(point.qty)] for point in points]


def watcher_source(session, job):
    """The load of an instance and of a host, as strategies ask for it."""

    class Clients(watcher_clients.OpenStackClients):
        session = None

    clients = Clients.__new__(Clients)
    clients.session = session
    source = AetosHelper(clients)
    instance = type("Instance", (), {"uuid": job["instance"], "vcpus": 2, "memory": 512, "disk": 1})()
    host = type("Host", (), {"hostname": job["host"]})()
    return {
        "availability": source.check_availability(),
        "names": sorted(source.list_metrics()),
        "memory": source.get_instance_ram_usage(instance, period=3600),
        "host_cpu": source.get_host_cpu_usage(host, period=240),
    }


def main():
    job = json.load(sys.stdin)
    if job["ask"] == "cloudkitty":
        answer = cloudkitty_collector(job)
    else:
        ask = {"observability": observability_client, "aodh": aodh_evaluator, "watcher": watcher_source}[job["ask"]]
        answer = ask(session_of(job["auth"]), job)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

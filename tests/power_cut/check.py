"""Starts the server on a crash image and compares its data with what was acknowledged.

Everything acknowledged is there exactly once, in index and aggregates alike; a request in progress is there as a whole
or not at all; new measures are accepted; and another start changes nothing.
"""

import json
import os
import pathlib
import shutil
import time

from power_cut import recording as recordings
from power_cut.workload import METHODS, START_S, TYPE, empty_state
from support.http import Client
from support.process import StartFailed

PROBE_SECOND = 1_000_000
# A start reads what a log has reserved but not written, 64 MiB of zeros in each; most images have less of it.
RESERVED_BYTES = 1 << 20
WHOLE_EVERY = 20
MINUTE_S = 60
METRICS_MAX = 1000
REQUEST_TIMEOUT_S = 120


class Fault(Exception):
    """The server does not hold what it promised. The text says what differs."""


def read_json(client, path):
    answer = client.get(path)
    if answer.status != 200:
        raise Fault(f"GET {path}: {answer.status} {answer.body[:300]!r}")
    return json.loads(answer.body)


def seconds_of(text):
    """Of a timestamp within a month of START_S, relative to it."""
    return int(time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone) - START_S


def read_measures(client, metric, odd):
    """{second: sum}: each measure is alone in its second, so one that counts twice has twice its value. Granularities that
    disagree are told in the list `odd`."""
    path = f"/v1/metric/{metric}/measures?refresh=true"
    found = {seconds_of(text): int(value)
             for text, _, value in read_json(client, f"{path}&aggregation=sum&granularity=1")}
    minutes = {}
    for second in found:
        minute = (START_S + second) // MINUTE_S * MINUTE_S - START_S
        minutes[minute] = minutes.get(minute, 0) + 1
    counts = {seconds_of(text): int(value)
              for text, _, value in read_json(client, f"{path}&aggregation=count&granularity={MINUTE_S}")}
    if counts != minutes:
        odd.append(f"{metric}: {counts} measures by the minute, but {minutes} by the second")
    return found


def read_all(client):
    """({writer: state}, {metric's id: its measures}, what does not agree with itself) as the server tells them."""
    states, ids, odd = {}, {}, []

    def state(name):
        return states.setdefault(name.split("-")[0], empty_state())
    for policy in read_json(client, "/v1/archive_policy"):
        if set(policy["aggregation_methods"]) != set(METHODS):
            raise Fault(f"not the policy that was created: {policy}")
        state(policy["name"])["policies"].append(policy["name"])
    types = [entry["name"] for entry in read_json(client, "/v1/resource_type")]
    resources = read_json(client, f"/v1/resource/{TYPE}?limit={METRICS_MAX}") if TYPE in types else []
    for resource in resources:
        state(resource["project_id"])["resources"][resource["project_id"]] = {
            "state": resource["state"], "metrics": sorted(resource["metrics"])}
    for metric in read_json(client, f"/v1/metric?limit={METRICS_MAX}"):
        ids[metric["id"]] = read_measures(client, metric["id"], odd)
        if metric["unit"] in state(metric["unit"])["metrics"]:
            raise Fault(f"two metrics {metric['unit']}")
        state(metric["unit"])["metrics"][metric["unit"]] = ids[metric["id"]]
    states["maker"] = TYPE in types
    return states, ids, odd


def normal(state):
    """A state with its lists sorted."""
    resources = {name: {**resource, "metrics": sorted(resource["metrics"])}
                 for name, resource in state["resources"].items()}
    return {"policies": sorted(state["policies"]), "resources": resources, "metrics": state["metrics"]}


def difference(actual, wanted):
    """What to say of two states that differ, shortly."""
    lines = []
    for kind in ("policies", "resources"):
        if actual[kind] != wanted[kind]:
            lines.append(f"{kind}: there is {actual[kind]}, acknowledged was {wanted[kind]}")
    for name in sorted(actual["metrics"].keys() | wanted["metrics"].keys()):
        found, sent = actual["metrics"].get(name), wanted["metrics"].get(name)
        if found is None or sent is None:
            lines.append(f"metric {name}: " + ("is missing" if found is None else "should not be there"))
        elif found != sent:
            missing, extra = sorted(sent.keys() - found.keys()), sorted(found.keys() - sent.keys())
            wrong = sorted(s for s in sent.keys() & found.keys() if sent[s] != found[s])
            lines.append(f"metric {name}: {len(missing)} of {len(sent)} measures lost {missing[:5]}, "
                         f"{len(extra)} not sent or not whole {extra[:5]}, {len(wrong)} wrong {wrong[:5]}")
    return "; ".join(lines)


def compare(recording, tick, states):
    """Every writer's state is one that its acknowledged requests allow."""
    for writer in recording.writers:
        last, allowed = writer.allowed(tick)
        if writer.name == "maker":
            if last and not states["maker"]:
                raise Fault("the resource type is lost")
            continue
        actual = normal(states.get(writer.name, empty_state()))
        allowed = [normal(state) for state in allowed]
        if actual not in allowed:
            raise Fault(f"after acknowledged {last!r}: {difference(actual, allowed[0])}")


def probe(client, ids):
    """Pushes one new measure to every metric: what the server takes now must count, too. Adds it to what is expected."""
    second = PROBE_SECOND
    while any(second in measures for measures in ids.values()):
        second += 1
    body = {metric: [{"timestamp": START_S + second, "value": 7}] for metric in ids}
    answer = client.post("/v1/batch/metrics/measures", body)
    if answer.status != 202:
        raise Fault(f"new measures were answered {answer.status} {answer.body[:300]!r}")
    for measures in ids.values():
        measures[second] = 7


def data_end(descriptor, size):
    """Behind the last byte of a file that is no hole; what a log has only reserved is one."""
    end, position = 0, 0
    while position < size:
        try:
            position = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:
            break
        end = position = os.lseek(descriptor, position, os.SEEK_HOLE)
    return end


def shorten(directory):
    """Cuts what logs have reserved back to RESERVED_BYTES: more than any frame has at its end."""
    for path in directory.rglob("*.log"):
        with open(path, "r+b") as file:
            size = path.stat().st_size
            wanted = data_end(file.fileno(), size) + RESERVED_BYTES
            if wanted < size:
                file.truncate(wanted)


def check(recording, case, directory):
    """Raises a Fault. `directory` is made, and removed again."""
    directory = pathlib.Path(directory)
    try:
        case.image.write(directory / "disk")
        check_directory(recording, case, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def check_directory(recording, case, directory):
    config_path, log_path = recordings.write_config(directory, recording.durability), directory / "log"
    rng, known = case.rng("check"), None
    for attempt in range(2):
        if case.number % WHOLE_EVERY:
            shorten(directory / "disk")
        try:
            process, port = recordings.start(directory / "disk", recording.data, config_path, log_path)
        except StartFailed as error:
            raise Fault(f"the server does not start: {str(error)[-1500:]}") from None
        try:
            client = Client("127.0.0.1", port, timeout_s=REQUEST_TIMEOUT_S)
            states, ids, odd = read_all(client)
            if attempt == 0:
                compare(recording, case.tick, states)
            if odd:
                raise Fault("; ".join(odd))
            if attempt == 0:
                if ids:
                    probe(client, ids)
                known = states
            elif states != known:
                names = [name for name in known if states.get(name) != known[name]]
                told = "; ".join(difference(states.get(name, empty_state()), known[name])
                                 for name in names if name != "maker")
                raise Fault(f"the second start changed something: {told}")
            client.close()
        except OSError as error:
            raise Fault(f"the server went away: {error!r}\n{process.log()[-1500:]}") from None
        finally:
            if attempt == 0 and rng.random() < 0.5 and process.running():
                process.terminate()
            process.kill()

"""Dynamic pollsters of commands: gnudi's agent and Ceilometer's run the same ones."""

from support.process import wait_until
from telemetry import polling
from telemetry.polling import samples, source

POLLSTERS = r"""
- name: host.disks
  sample_type: gauge
  unit: disk
  host_command: "printf '{\"all\": [{\"id\": \"h1\", \"n\": \"5\", \"at\": {\"rack\": 1}}, {\"id\": \"h2\", \"n\": \"x\", \"at\": {\"rack\": 2}}]}'"
  value_attribute: "n | int(value) if value.isdigit() else -1"
  metadata_fields: [at.rack]
  namespaces: [compute]
- name: host.errors
  sample_type: cumulative
  unit: line
  host_command: echo one; echo two >&2; echo; exit 3
  value_attribute: "out | len(value.splitlines())"
  resource_id_attribute: "out | 'node-' + value[:3]"
  response_handlers: [text]
  namespaces: [compute]
- name: host.made.{kind}
  sample_type: gauge
  unit: B
  host_command: "'echo ' + '\\'<all><host><id>h</id><part><kind>a</kind><n>1</n></part><part><kind>b</kind><n>2</n></part></host></all>\\''"
  value_attribute: "[part].n"
  response_entries_key: all.host | [value]
  response_handlers: [json, xml]
  namespaces: [compute]
"""


def configure(directory, bus, topic, pollsters):
    files = directory / f"{topic}.d"
    files.mkdir()
    (files / "some.yaml").write_text(pollsters)
    return polling.configure(directory / topic, bus, topic, [source("host.*", interval=1 if topic.startswith("slow") else 600)],
                             {"DEFAULT": {"pollsters_definitions_dirs": files}})


def test_commands_tell_both_agents_the_same(bus, reader, tmp_path):
    configured = lambda topic: configure(tmp_path, bus, topic, POLLSTERS)
    ours, theirs, told = polling.polled_by_both(reader, configured, "commands", 5, tmp_path)
    polling.assert_alike(ours, theirs, told=told)
    assert {key: sample["counter_volume"] for key, sample in ours.items()} == {
        ("host.disks", "h1"): 5, ("host.disks", "h2"): -1, ("host.errors", "node-one"): 2, ("host.made.a", "h"): "1",
        ("host.made.b", "h"): "2"}


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return "Z" in stat.read().split(")")[1]
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_that_hangs_is_ended(bus, reader, tmp_path):
    slow = """
- {name: host.slow, sample_type: gauge, unit: x, timeout: TIMEOUT, namespaces: compute, value_attribute: out, response_handlers: [text],
   host_command: "sleep 600 & echo $! > DIRECTORY/pid; wait"}
- {name: host.fast, sample_type: gauge, unit: x, namespaces: compute, value_attribute: "out | float(value)",
   resource_id_attribute: "out | 'r' + value", host_command: echo 1, response_handlers: [text]}
"""
    # A busy machine's command may be ended before it has started anything: then the next has more time.
    for number, timeout_s in enumerate(["0.3", "3", "20"]):
        topic = f"slow-{number}"
        told = polling.poll_once(configure(tmp_path, bus, topic, slow.replace("DIRECTORY", str(tmp_path)).replace("TIMEOUT", timeout_s)))
        assert f"it takes more than {timeout_s} s" in told, told
        assert [sample["counter_name"] for sample in samples(reader.published(topic))] == ["host.fast"]
        pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else ""
        if pid:
            break
    wait_until(lambda: has_ended(int(pid)), 60, "the end of what it started")

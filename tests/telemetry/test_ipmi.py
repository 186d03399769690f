"""Sensors of a management controller: gnudi's agent and Ceilometer's run the same fake `ipmitool`, with the output of real machines."""

import pytest

from telemetry import polling
from telemetry.polling import source

THRESHOLD = """Sensor ID              : {name} ({number})
 Entity ID             : 7.1 (System Board)
 Sensor Type (Threshold)  : {kind} ({number})
 Sensor Reading        : {reading}
 Status                : ok
 Nominal Reading       : 23.000
 {more}Upper critical        : 47.000
 Positive Hysteresis   : 1.000
 Event Message Control : Per-threshold
 Assertions Enabled    : ucr+
 SDR Time              : 12:34:56

"""


def sensor(name, kind, reading, number="0x1", more=""):
    return THRESHOLD.format(name=name, kind=kind, reading=reading, number=number, more=more)


OUTPUTS = {
    "sdr info": "SDR Version                         : 0x51\nRecord Count                        : 5\n",
    "sdr -v type Temperature":
        sensor("Inlet Temp", "Temperature", "21 (+/- 1) degrees C", "0x5") + sensor("CPU1 Temp", "Temperature", "Disabled", "0xe")
        + sensor("Odd", "Temperature", "No Reading") + sensor("Exhaust", "Temperature", "3.45e1 (+/- 1.5) degrees C", "0x6"),
    "sdr -v type Fan":
        sensor("Fan1A", "Fan", "5640 (+/- 120) RPM", "0x30", "Normal Maximum        : 9000.000\n ")
        + sensor("Fan2A", "Fan", "40 (+/- 0) percent", "0x31"),
    "sdr -v type Voltage": sensor("CPU VCORE", "Voltage", "1.020 (+/- 0) Volts"),
    "sdr -v type Current":
        sensor("Current 1", "Current", "0.600 (+/- 0) Amps", "0x6a") + sensor("Pwr Consumption", "Current", "154 (+/- 14) Watts", "0x77"),
    "sensor get Pwr Consumption":
        "Locating sensor record...\n" + sensor("Pwr Consumption", "Current", "154 (+/- 14) Watts", "0x77"),
}


@pytest.fixture
def ipmitool(tmp_path):
    """The directory of a program of that name."""
    directory = tmp_path / "bin"
    directory.mkdir()
    cases = []
    for number, (arguments, text) in enumerate(OUTPUTS.items()):
        (directory / str(number)).write_text(text)
        cases.append(f'"{arguments}") cat {directory}/{number};;')
    program = directory / "ipmitool"
    lines = "\n".join(["#!/bin/sh", 'case "$*" in', *cases, '*) echo "unknown: $*" >&2; exit 1;;', "esac"])
    program.write_text(lines + "\n")
    program.chmod(0o755)
    return directory


def configure(directory, bus, topic, program, *more):
    return polling.configure(directory / topic, bus, topic, [source("hardware.ipmi.*")],
                             {"ipmi": {"ipmitool_command": program}, "DEFAULT": {"host": "node-1"}}, *more)


def test_sensors_are_those_of_ceilometers_agent(bus, reader, tmp_path, ipmitool):
    # Theirs looks for the program in its path.
    configured = lambda topic: configure(tmp_path, bus, topic, f"env A=b {ipmitool}/ipmitool")
    ours, theirs, told = polling.polled_by_both(reader, configured, "ipmi", 7, tmp_path, "ipmi", [ipmitool])
    polling.assert_alike(ours, theirs, told=told)
    assert len(ours) == 7 and ours["hardware.ipmi.power", "node-1-pwr_consumption_(0x77)"]["counter_unit"] == "W"


def test_a_machine_without_sensors_is_asked_a_few_times(bus, tmp_path):
    conf = configure(tmp_path, bus, "ipmi-none", "/nowhere/ipmitool", {"ipmi": {"polling_retry": 1}})
    conf.with_name("polling.yaml").write_text("sources: [{name: a, interval: 1, meters: [hardware.ipmi.fan]}]")
    with polling.ending(polling.ours(conf, tmp_path / "none.log", namespace="ipmi")) as agent:
        agent.wait_ready(lambda: "polled no more" in agent.log(), 60)
    assert agent.log().count("cannot be polled in this round") <= 3 and "/nowhere/ipmitool: No such file" in agent.log()

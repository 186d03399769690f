#!/usr/bin/env python3
"""How many notifications a second become samples and events on one core: gnudi's definitions and Ceilometer's classes, on the
same random notifications for the shipped definitions, one after the other.

    cargo build --release -p gnudi-telemetry --example definitions
    python tests/oracle/definitions_speed.py [--program target/release/examples/definitions]

Needs the cloud's virtual environment (`support/cloud_venv.py`).
"""

import argparse
import json
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from support import cloud_venv  # noqa: E402


def ask(command, task):
    run = subprocess.run(command, input=json.dumps(task).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=TESTS.parent / "target" / "release" / "examples" / "definitions")
    parser.add_argument("--messages", type=int, default=860)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ceilometer = [cloud_venv.python(), "-W", "ignore", TESTS / "oracle" / "definitions.py"]
    generated = ask(ceilometer, {"do": "generate", "seed": options.seed, "count": options.messages})
    messages = [item["message"] for item in generated]
    speeds = []
    for name, command, factor in [("Ceilometer", ceilometer, 1), ("gnudi", [options.program], 50)]:
        answer = ask(command, {"do": "speed", "rounds": options.rounds * factor, "messages": messages})
        speeds.append(options.rounds * factor * len(messages) / answer["seconds"])
        print(f"{name:10} {speeds[-1]:10.0f} notifications/s, {answer['samples'] // factor} samples and {answer['events'] // factor} events")
    print(f"{speeds[1] / speeds[0]:.0f} times")


if __name__ == "__main__":
    main()

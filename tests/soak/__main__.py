"""An hour of mixed load on the real server: `python -m soak`, from the directory of the tests.

    python -m soak                       an hour, at most 80 requests a second
    python -m soak --minutes 10          shorter
    python -m soak --judge FILE          judges the samples.json of an earlier run again and draws its chart anew
"""

import argparse
import pathlib
import random
import sys

from soak import run


def arguments():
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=run.MINUTES, help=f"of load ({run.MINUTES})")
    parser.add_argument("--rate", type=float, default=run.RATE, help=f"requests a second at most ({run.RATE})")
    parser.add_argument("--seed", type=int, default=None, help="of the load; printed when absent")
    parser.add_argument("--output", type=pathlib.Path, default=run.OUTPUT, help="where chart and samples go (target/soak)")
    parser.add_argument("--judge", type=pathlib.Path, metavar="FILE", help="no load: judge these samples")
    return parser.parse_args()


def main():
    given = arguments()
    if given.judge:
        report = run.judge_again(given.judge, given.output)
    else:
        seed = random.randrange(2**32) if given.seed is None else given.seed
        print(f"seed {seed}", flush=True)
        report = run.soak(seed, minutes=given.minutes, rate=given.rate, output=given.output)
    print(report)
    return 0 if report.passed() else 1


if __name__ == "__main__":
    sys.exit(main())

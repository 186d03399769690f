"""Power cuts on the real server: `python -m power_cut`, from the directory of the tests.

    python -m power_cut --seed 7 --images 20000           records a workload and tries crash images of it
    python -m power_cut --recording DIR --seed 7 --image 123   tries one image of a recording again
    python -m power_cut --ignore dirsync                    a disk that ignores a kind of sync: must find faults
"""

import argparse
import pathlib
import random
import sys

from power_cut import run


def arguments():
    parser = argparse.ArgumentParser(prog="python -m power_cut", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None, help="of the workload and the images; printed when absent")
    parser.add_argument("--images", type=int, default=run.IMAGES, help=f"how many images to try ({run.IMAGES})")
    parser.add_argument("--image", help="try only this one, such as 123, or 149.3 within the recovery of 149")
    parser.add_argument("--recording", type=pathlib.Path, help="the directory of a recording to use again")
    parser.add_argument("--fresh", action="store_true", help="cut the first start, which makes the directories")
    parser.add_argument("--durability", choices=["disk", "os"], default="disk", help="[incoming] durability")
    parser.add_argument("--ignore", action="append", default=[], choices=["dirsync", "wal", "datasync"],
                        help="a kind of sync that the disk does not carry out")
    parser.add_argument("--requests", type=int, default=run.REQUESTS, help="requests of each recorded process and writer (25)")
    parser.add_argument("--jobs", type=int, default=2, help="images tried at the same time (2)")
    parser.add_argument("--keep", type=pathlib.Path, default=run.KEPT, help="where recordings with faults are kept")
    return parser.parse_args()


def main():
    given = arguments()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    report = run.power_cuts(
        seed, images=given.images, only=given.image, recording=given.recording, fresh=given.fresh,
        durability=given.durability, ignore=given.ignore, jobs=given.jobs, keep=given.keep,
        requests=given.requests)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.spark_kills --count 200 --seed S``: kill -9 around a Spark query.

Prints a line for each kill, then the totals. Exit 0 if each recorded message was
published once; 1, with the seed and the folder of the logs, if not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bus.pipeline.session import missing
from tests.spark_kills.campaign import Campaign


def main() -> int:
    """Kill the given number of processes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark_kills")
    parser.add_argument("--count", type=int, default=200, help="how many are killed")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    options = parser.parse_args()
    if lack := missing(drawing=False):
        print(f"cannot run: {lack}")
        return 2
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="spark-kills-"))
    kills: Counter[str] = Counter()
    try:
        with Campaign(folder, options.seed) as campaign:
            for number in range(options.count):
                kind = campaign.strike()
                kills[kind] += 1
                print(f"{number}: {kind}", flush=True)
            print(campaign.settle())
    except AssertionError as error:
        print(f"seed {options.seed}, files in {folder}: {error}")
        return 1
    shutil.rmtree(folder)
    print("killed:", *(f"{count} x {kind}" for kind, count in sorted(kills.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

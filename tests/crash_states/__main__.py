"""``python -m tests.crash_states --count 1000000 --seed S``: crash states of horizons.

Prints the number of states checked, and the seconds that this took. Exit code 0 if no
state violates a promise; 1 at the first violation, printed with its run and seed.
"""

from __future__ import annotations

import argparse
import random
import sys
from time import perf_counter
from typing import TYPE_CHECKING

from tests.crash_states.campaign import campaign
from tests.crash_states.run import ViolationError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the given number of states; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash_states")
    parser.add_argument("--count", type=int, default=10_000, help="number of states")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    began = perf_counter()
    try:
        count = campaign(options.count, options.seed)
    except ViolationError as error:
        print(f"violation: {error}; {', '.join(error.__notes__)}")
        return 1
    print(f"{count} states in {perf_counter() - began:.1f} s: no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main())

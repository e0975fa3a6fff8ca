"""``python -m tests.kills --count 200 --seed S``: kill -9 and stops on a real bus.

Prints a line for each kill or stop, with the state that it hit, then the totals by
state. Exit 0 if all invariants held; 1, with the story and the seed, if not.
With ``--shared-memory`` see `tests.kills.shared_memory`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kills import shared_memory
from tests.kills.blow import STATES
from tests.kills.campaign import Campaign
from tests.kills.memory_campaign import NAMES
from tests.kills.worker import JOURNALS
from tests.leaks import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Strike the given number of times; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills")
    parser.add_argument("--count", type=int, default=200, help="how many are struck")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument(
        "--shared-memory", action="store_true", help="processes that share memory"
    )
    parser.add_argument(
        "--spare",
        default="c",
        choices=NAMES,
        help="with shared memory: the process never struck; o is the owner",
    )
    parser.add_argument(
        "--journals", metavar="DIR", help="record each process; then: bus check DIR"
    )
    options = parser.parse_args(arguments)
    if options.journals:
        os.environ[JOURNALS] = options.journals
    if options.shared_memory:
        return shared_memory.main(
            options.count, options.seed, options.first, options.spare
        )
    print(f"seed {options.seed}", flush=True)
    before = Snapshot.take()
    hits: Counter[tuple[str, str]] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        with Campaign(folder, options.seed) as bus:
            for number in range(options.first, options.first + options.count):
                story = bus.strike(number)
                print(story, flush=True)
                hits[story.blow.state, story.blow.by.name] += 1
            bus.end()
            print("threads and descriptors, at most: {} and {}".format(*bus.most))
        left = before.leaks()
        assert not left, f"left behind: {left}"
    except AssertionError as error:
        print(f"seed {options.seed}: {error}")
        print(f"the notes of each process are in {folder}", flush=True)
        return 1
    for state in STATES:
        killed, stopped = hits[state, "SIGKILL"], hits[state, "SIGSTOP"]
        print(f"{state:<12}{killed:>4} killed {stopped:>4} stopped")
    print(f"{hits.total()} struck: nobody hung, nothing came twice, nothing is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())

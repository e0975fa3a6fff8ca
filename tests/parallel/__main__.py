"""``python -m tests.parallel --seconds 3600``: rounds of threads at the same time.

Prints a line for each tenth of the time. If a message is lost, received twice or
overtaken, or if a thread hangs, names the seed and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from queuebroker import _sync
from tests.parallel.rounds import Round

if TYPE_CHECKING:
    from collections.abc import Sequence

_MESSAGES = 2_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.parallel")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    kind = "with" if _sync.has_interpreter_lock() else "without"
    print(f"CPython {sys.version.split()[0]} {kind} interpreter lock", flush=True)
    begin = shown = time.monotonic()
    seed, sent = options.seed, 0
    while (now := time.monotonic()) < begin + options.seconds:
        if now >= shown + options.seconds / 10:
            shown = now
            print(f"  {now - begin:.0f} s, seed {seed}: {sent} messages", flush=True)
        try:
            sent += Round(seed, _MESSAGES).run()
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            return 1
        seed += 1
    print(f"{seed - options.seed} rounds, {sent} messages: each received once")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.kills.soak --seconds 3600``: a bus under kills for a long time.

Five processes exchange messages; four of them are killed, stopped and replaced as in
``python -m tests.kills``, with the same invariants after each blow. The fifth is a
client that is never killed or stopped. Each killed process comes back as a new
incarnation, so an object kept for a dead peer makes this client grow with each blow.

Prints a line a minute with the memory of the client. Exit 0 if all invariants held and
that memory is flat; 1, with the reason and the seed, if not.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import attrs

from tests.kills.campaign import Campaign
from tests.kills.crew import NAMES
from tests.leaks import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Memory", "growth", "main"]

_SPARED: Final = NAMES[-1]
_LINE_S: Final = 60.0
# The fraction of samples that are left out at the start, while caches reach their size,
# and of those that are compared.
_PART: Final = 1 / 4
# A leak is at least one block of memory for each blow; a table resized once is none.
_BLOCKS_EACH: Final = 1 / 2
# Between the two compared parts, a run without a leak differs by up to 300 blocks.
_BLOCKS: Final = 1_000
# During the first blows caches fill up, by some 1,000 blocks: these do not count.
_WARM_UP: Final = 20
# The kernel also counts gaps between the blocks in use.
_RESIDENT_KIB: Final = 2_048


@attrs.frozen
class Memory:
    """The memory of a process at rest.

    blocks: in use of Python's allocator. resident: in KiB, as the kernel counts it.
    """

    blocks: int
    resident: int

    def __str__(self) -> str:
        return f"{self.blocks:,} blocks in use, {self.resident:,} KiB resident"


def growth(seen: Sequence[Memory]) -> list[str]:
    """Compare the last quarter of the samples with the second; return the increases.

    seen: one sample after each blow.
    """
    part = max(int(len(seen) * _PART), 1)
    early, late = seen[part : 2 * part] or seen[:1], seen[-part:]
    blows = len(seen) - 2 * part
    blocks = statistics.median(each.blocks for each in late) - statistics.median(
        each.blocks for each in early
    )
    resident = statistics.median(each.resident for each in late) - statistics.median(
        each.resident for each in early
    )
    allowed = _BLOCKS + _BLOCKS_EACH * blows
    reported = []
    if blocks > allowed:
        reported.append(f"{blocks:,.0f} more blocks in use after {blows} blows")
    if resident > _RESIDENT_KIB:
        reported.append(f"{resident:,.0f} KiB more resident after {blows} blows")
    return reported


def _blows(count: int | None, seconds: float) -> Iterator[int]:
    """Yield the number of each blow; without a count, for so long."""
    end = monotonic() + seconds
    for number in itertools.count():
        if number == count or (count is None and monotonic() >= end):
            return
        yield number


def main(arguments: Sequence[str] | None = None) -> int:
    """Strike for the given time; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.soak")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--seconds", type=float, default=3600.0)
    end.add_argument("--count", type=int, metavar="BLOWS")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    before = Snapshot.take()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    seen: list[Memory] = []
    try:
        with Campaign(folder, options.seed, spared=_SPARED) as bus:
            began = monotonic()
            next_line = began
            for number in _blows(options.count, options.seconds):
                bus.strike(number)
                seen.append(Memory(*bus.crew.living[_SPARED].do("memory")))
                if monotonic() >= next_line:
                    next_line += _LINE_S
                    print(
                        f"{monotonic() - began:>6.0f} s {len(seen):>6} struck: "
                        f"{seen[-1]}",
                        flush=True,
                    )
            bus.end()
        left = before.leaks()
        assert not left, f"left behind: {left}"
        judged = seen[_WARM_UP:]
        assert judged, f"{len(seen)} blows are too few to compare memory"
        grown = growth(judged)
        assert not grown, f"{_SPARED} grew: {'; '.join(grown)}"
    except AssertionError as error:
        print(f"seed {options.seed}: {error}")
        print(f"the notes of each process are in {folder}", flush=True)
        return 1
    print(f"{len(seen)} struck: the counters balance, and the memory is flat")
    return 0


if __name__ == "__main__":
    sys.exit(main())

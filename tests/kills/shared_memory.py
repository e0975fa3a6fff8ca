"""``python -m tests.kills --count 200 --shared-memory``: kill -9 among shared memory.

Prints a line for each kill, with the place that it hit, then the totals by role and
place. Exit 0 if all rules of `memory_campaign` held, and the spared process has not
grown; 1, with the reason and the seed, if not.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.kills.bytecode_strike import BUS, MEMORY
from tests.kills.memory_campaign import MOMENT, MemoryCampaign
from tests.kills.process_memory import total_kib
from tests.kills.soak import growth
from tests.leaks import Snapshot

__all__ = ["main"]

# During the first blows caches fill up; fewer than these say nothing about growth.
_WARM_UP: Final = 20


def main(count: int, seed: int, first: int = 0, spared: str = "c") -> int:
    """Strike the given number of times; return the exit code.

    first: the number of the first blow. spared: the process that is never struck, whose
    memory must be flat.
    """
    print(f"seed {seed}", flush=True)
    before = Snapshot.take()
    shared_kib = total_kib()
    hits: Counter[tuple[str, str]] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        with MemoryCampaign(folder, seed, spared=spared) as bus:
            for number in range(first, first + count):
                story = bus.strike(number)
                print(story, flush=True)
                hits[story.role, story.place] += 1
            bus.end()
            seen = bus.seen
        left = before.leaks()
        assert not left, f"left behind: {left}"
        grown = growth(seen[_WARM_UP:]) if len(seen) > 2 * _WARM_UP else []
        assert not grown, f"{spared} grew: {'; '.join(grown)}"
    except AssertionError as error:
        print(f"seed {seed}: {error}")
        print(f"the notes of each process are in {folder}", flush=True)
        return 1
    for when, memory in (("first", seen[0]), ("last", seen[-1])):
        used = f"{memory.blocks:,} blocks and {memory.resident:,} KiB"
        print(f"{spared} was spared: {used} in use at {when}")
    print(f"shared memory of the system: {shared_kib:,} KiB, then {total_kib():,} KiB")
    for place in (MEMORY, BUS, MOMENT):
        owners, receivers = hits["owner", place], hits["receiver", place]
        print(f"{place:<8}{owners:>4} owners {receivers:>4} receivers")
    received = sum(each for each, _ in bus.received.values())
    lent = sum(each for _, each in bus.received.values())
    print(
        f"{hits.total()} killed: {received:,} messages came whole, {lent:,} of them in "
        f"shared memory; every buffer was home in time, nothing is left"
    )
    return 0

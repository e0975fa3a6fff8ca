"""`Growth`: the resources of a process, sampled while it repeats an operation.

It counts and does not time: descriptors, threads, the collector's objects by type, and
the bytes that Python has allocated. One-time objects are created, and caches fill,
before the first look; after that nothing may grow with the cycles. A look is taken
after a garbage collection, once all ended threads and tasks have finished.
"""

from __future__ import annotations

import gc
import statistics
import threading
import tracemalloc
from collections import Counter
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Final

import attrs

from bus.model.address import Address
from bus.model.specification import Specification
from tests.leaks.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Growth", "Look", "grown", "name_of"]

_FIRST_MIN: Final = 50  # cycles before the first look
# Several times the capacity of any cache; none is a name of a cycle.
_NAMES: Final = 10_000
_FIRST_NAME: Final = 900_000
_WHILE_S: Final = 10.0
_LOOK_S: Final = 0.1

# One more object in this many cycles is no leak: a list that was resized, an object of
# the interpreter. A leak is at least one object in each cycle.
_CYCLES_EACH: Final = 2
# Likewise bytes, per cycle; and in total, since freed memory leaves gaps.
_BYTES_EACH: Final = 8
_BYTES: Final = 256 * 2**10


@attrs.frozen
class Look:
    """The resources after a number of cycles.

    objects: how many of each type; memory: in bytes.
    """

    cycles: int
    held: Snapshot
    objects: Counter[str]
    memory: int

    def __str__(self) -> str:
        return (
            f"{self.cycles:>6} cycles: {len(self.held.descriptors)} descriptors, "
            f"{len(self.held.threads)} threads, {self.objects.total()} objects, "
            f"{self.memory / 1024:.0f} KiB"
        )


class Growth:
    """Samples the resources while an operation is repeated.

    Args:
        cycle: executes the operation once; receives its number.
        settled: returns when no effect of it is under way.
    """

    def __init__(
        self, cycle: Callable[[int], object], settled: Callable[[], object]
    ) -> None:
        self._cycle: Final = cycle
        self._settled: Final = settled
        self._done = 0

    def run(
        self, cycles: int, *, looks: int, see: Callable[[Look], object]
    ) -> list[str]:
        """Repeat the cycle, after a first part that is not counted; return the growth.

        looks: how many, without the first one. see: receives each.
        """
        tracemalloc.start()
        try:
            _remember()
            self._repeat(max(cycles // looks, _FIRST_MIN))
            seen = [self._look()]
            see(seen[0])
            for number in range(1, looks + 1):
                self._repeat(cycles * number // looks - cycles * (number - 1) // looks)
                seen.append(self._look())
                see(seen[-1])
            return self._left(seen)
        finally:
            tracemalloc.stop()

    def _left(self, seen: list[Look]) -> list[str]:
        """Return the growth that persists."""
        deadline = monotonic() + _WHILE_S
        pause = threading.Event()
        while (said := grown(seen)) and monotonic() < deadline:
            pause.wait(_LOOK_S)
            seen[-1] = self._look()
        return said

    def _repeat(self, cycles: int) -> None:
        for _ in range(cycles):
            self._cycle(self._done)
            self._done += 1

    def _look(self) -> Look:
        self._settled()
        gc.collect()
        memory, _ = tracemalloc.get_traced_memory()
        objects = Counter(type(each).__qualname__ for each in gc.get_objects())
        return Look(self._done, Snapshot.take(), objects, memory)


def grown(seen: Sequence[Look]) -> list[str]:
    """Compare the last look with the first; return a sentence for each growth."""
    first, last = seen[0], seen[-1]
    cycles = last.cycles - first.cycles
    said = [
        f"{len(now)} {what}, were {len(before)}"
        for what, before, now in (
            ("descriptors", first.held.descriptors, last.held.descriptors),
            ("threads", first.held.threads, last.held.threads),
        )
        if len(now) > len(before)
    ]
    said += [
        f"{count} more of type {kind} after {cycles} cycles"
        for kind, count in (last.objects - first.objects).most_common()
        if count * _CYCLES_EACH >= cycles
    ]
    # A single resize of a table is no leak: the median of the steps counts. Nor is the
    # state of processes that left a moment ago, of which there is more if the machine
    # has become faster: it is gone when the last look is taken again.
    steps = [after.memory - before.memory for before, after in pairwise(seen)]
    more = min(statistics.median(steps) * len(steps), last.memory - first.memory)
    if more > _BYTES + _BYTES_EACH * cycles:
        said.append(f"{more / 1024:.0f} KiB more after {cycles} cycles")
    return said


def _remember() -> None:
    """Fill the caches of recently read names to their full size.

    The names are as long as those of cycles, which replace them.
    """
    for number in range(_NAMES):
        name = name_of(_FIRST_NAME + number)
        for text in (name, f"ism://machine/{name}"):
            Address.parse(text)
            Specification.parse(text)


def name_of(number: int) -> str:
    """Return the name of a task or process of a cycle."""
    return f"brief{number:06}"

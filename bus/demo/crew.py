"""`Crew`: the workers of a run, whatever they run in; and which of them does what.

`bus.demo.threads` and `bus.demo.processes` are the two kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.demo.collector import Collector

__all__ = [
    "BUS",
    "PROCESSES_MAX",
    "PROCESSES_MIN",
    "Crew",
    "Part",
    "parts_of",
    "struck_of",
]

BUS: Final = "demo"  # its name
PROCESSES_MIN: Final = 2  # one of them has no worker
PROCESSES_MAX: Final = 64


@attrs.frozen
class Part:
    """What one worker does beside its work.

    leave_at, pause_after_s: as for `bus.demo.worker.Worker`.
    """

    name: str
    leave_at: int | None = None
    pause_after_s: float | None = None

    @property
    def leaves(self) -> bool:
        """Whether it hangs up in the middle of a file."""
        return self.leave_at is not None

    @property
    def dies(self) -> bool:
        """Whether it pauses in the middle of a file, and is killed."""
        return self.pause_after_s is not None


def parts_of(workers: int, seconds: float = 0.0) -> tuple[Part, ...]:
    """Return the parts of so many workers in processes: one at least goes on.

    seconds: how long a run is to last; half of it passes before one is killed.
    """
    names = [f"worker/{number}" for number in range(1, workers + 1)]
    parts = [Part(name) for name in names]
    if workers > 1:
        parts[0] = Part(names[0], pause_after_s=seconds / 2)
    if workers > 2:
        parts[1] = Part(names[1], leave_at=2)
    return tuple(parts)


def struck_of(parts: Sequence[Part]) -> str:
    """Return the worker into whose queue a fault is put on purpose.

    That leaves anyway, if there is one; who is killed would take the fault along.
    """
    left = [part.name for part in parts if part.leaves]
    live = [part.name for part in parts if not part.dies]
    return (left or live)[0]


class Crew(Protocol):
    """Who starts the workers, and sees them end.

    names: of the workers. ahead: how many files each has in hand at most.
    """

    names: tuple[str, ...]
    ahead: int

    @property
    def settled(self) -> bool:
        """Whether nobody is to be killed any more; before that no run may end."""

    def paused(self, worker: str) -> None:
        """Do with a worker what it pauses for."""

    def start(self, collector: Collector) -> None:
        """Start all workers, and at the collector who serves each."""

    def end(self) -> None:
        """Wait until all who were started have ended."""

    def abandon(self) -> None:
        """End all at once, whatever they do."""

"""`WorkerGroup`: the workers of a run, in threads or in processes; the part of each.

The processes may be on two machines.

`bus.demo.threads` and `bus.demo.processes` are the two kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from bus.api.bus import host_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.demo.collector import Collector
    from bus.demo.outage import Outage

__all__ = [
    "BUS",
    "FAR",
    "NEAR",
    "PROCESSES_MAX",
    "Part",
    "WorkerGroup",
    "late",
    "parts_of",
    "parts_on_two_machines",
    "worker_with_fault",
]

BUS: Final = "demo"  # the name of the bus
# Of two machines, that of the demo's own process, by the name at which other commands
# look for the bus, and the other one.
NEAR: Final = host_machine()
FAR: Final = "cellar" if NEAR != "cellar" else "attic"
PROCESSES_MAX: Final = 64
SHORT: Final = 20  # files for each worker; below it, a list is short


@attrs.frozen
class Part:
    """The actions of one worker beside its work.

    leaves: True if it disconnects in the middle of a file.
    dies: True if it pauses in the middle of a file, and is killed.
    from_file, after_s: when it does so; as for `bus.demo.worker.Worker`.
    machine: its machine; None if there is only one.
    is_master: True if its process is the master of that machine.
    """

    name: str
    leaves: bool = False
    dies: bool = False
    from_file: int = 0
    after_s: float = 0.0
    machine: str | None = None
    is_master: bool = False


def late(files: int, workers: int, share: float) -> int:
    """Return the file of a pass from which a worker leaves or is killed.

    Files are handed out in their order, so every worker has done its share of those
    before it. In a short list a worker is sure to get only one of the first files.

    share: the part of the files before it.
    """
    return int(files * share) if files >= SHORT * workers else 0


def parts_of(workers: int, files: int, seconds: float = 0.0) -> tuple[Part, ...]:
    """Return the parts of the workers in processes: at least one continues.

    files: the number of files in a pass.
    seconds: the duration of a run; half of it passes before a worker leaves or is
      killed.
    """
    names = [f"worker/{number}" for number in range(1, workers + 1)]
    parts = [Part(name) for name in names]
    after_s = seconds / 2
    if workers > 1:
        first = late(files, workers, 0.6)
        parts[0] = Part(names[0], dies=True, from_file=first, after_s=after_s)
    if workers > 2:
        first = late(files, workers, 0.8)
        parts[1] = Part(names[1], leaves=True, from_file=first, after_s=after_s)
    return tuple(parts)


def parts_on_two_machines(workers: int) -> tuple[Part, ...]:
    """Return the parts of the workers on two machines: half of them on each.

    None of them leaves or is killed: the outage of the link is the one failure.

    workers: at least 2.
    """
    near = workers // 2
    return tuple(
        Part(
            f"worker/{number}",
            machine=NEAR if number <= near else FAR,
            is_master=number == near + 1,
        )
        for number in range(1, workers + 1)
    )


def worker_with_fault(parts: Sequence[Part]) -> str:
    """Return the worker into whose queue a fault is injected.

    It is one that leaves anyway, if there is one. A killed worker would take the
    evidence of the fault along.
    """
    left = [part.name for part in parts if part.leaves]
    live = [part.name for part in parts if not part.dies]
    return (left or live)[0]


class WorkerGroup(Protocol):
    """Starts the workers, and waits for their end.

    names: of the workers. ahead: the largest number of files that each may hold.
    """

    names: tuple[str, ...]
    ahead: int

    @property
    def outage(self) -> Outage | None:
        """The outage of the link between two machines; None for one machine."""

    @property
    def settled(self) -> bool:
        """True if no worker is to be killed any more; until then no run may end."""

    def paused(self, worker: str) -> None:
        """Act on a worker that has paused, for example kill it."""

    def start(self, collector: Collector) -> None:
        """Start all workers, and a server for each at the collector."""

    def end(self) -> None:
        """Wait until all workers have ended."""

    def abandon(self) -> None:
        """End all workers at once, in any state."""

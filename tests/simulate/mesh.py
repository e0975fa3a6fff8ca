"""``python -m tests.simulate.mesh [COUNT ...]``: the cost of a full mesh of machines.

Machines with one process each start at once and find each other; then they idle. For
each number of machines one line says how long it takes until each pair has a link, and
what a master sends, receives and keeps.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from typing import TYPE_CHECKING, Final

import attrs

from bus.config import BusConfig
from bus.core.peer.limits import Limits
from tests.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulate.process import SimProcess

__all__ = ["Cost", "Mesh", "measure"]

_STEP_S: Final = 0.1
_LIMIT_S: Final = 60.0
_IDLE_S: Final = 10.0
_ROW: Final = "{:>8} {:>10} {:>14} {:>12} {:>12} {:>12} {:>10}"


@attrs.frozen
class Cost:
    """The cost of one mesh, for each master.

    links_s: the seconds until each pair of machines has a link.
    announcements: the datagrams that a master reads, a second.
    frames, bytes: the frames that a master sends, a second, when all is quiet.
    kib: the memory of a master, in KiB.
    seconds: the processor time of the whole simulation.
    """

    machines: int
    links_s: float
    announcements: float
    frames: float
    bytes: float
    kib: float
    seconds: float

    def __str__(self) -> str:
        return _ROW.format(
            f"{self.machines:,}",
            f"{self.links_s:.1f}",
            f"{self.announcements:.0f}",
            f"{self.frames:.1f}",
            f"{self.bytes:.0f}",
            f"{self.kib:,.0f}",
            f"{self.seconds:.1f}",
        )


HEAD: Final = _ROW.format(
    "machines", "linked, s", "datagrams, /s", "frames, /s", "bytes, /s", "KiB", "CPU, s"
)


def measure(machines: int, tasks: int = 100) -> Cost:
    """Simulate some machines with some tasks each; return the cost for each master.

    Raises:
        AssertionError: not all pairs have a link within a minute.
    """
    began = time.process_time()
    before = _resident_kib()
    world = Mesh(1, announced=0.0, limits=Limits.of(BusConfig()))
    masters = [
        world.start(f"m{number}", "s1", master=True) for number in range(machines)
    ]
    for master in masters:
        for number in range(tasks):
            master.register(f"task{number}")
    links_s = 0.0
    while not all(_links(master) == machines - 1 for master in masters):
        assert links_s < _LIMIT_S, "not all pairs have a link"
        world.run(_STEP_S)
        links_s += _STEP_S
    world.run(_IDLE_S)  # until what followed from the start is over
    gc.collect()
    kib = (_resident_kib() - before) / machines
    assert world.announcements is not None
    heard = world.announcements.read()
    network = world.network
    frames, size = network.frames, network.bytes
    world.run(_IDLE_S)
    per_master = machines * _IDLE_S
    return Cost(
        machines,
        links_s,
        (world.announcements.read() - heard) / per_master,
        (network.frames - frames) / per_master,
        (network.bytes - size) / per_master,
        kib,
        time.process_time() - began,
    )


class Mesh(World):
    """A world without checks after each event, which look at all processes."""

    def check(self, process: SimProcess) -> None:
        """Do nothing: `test_discovery` checks the same machines."""


def _links(master: SimProcess) -> int:
    return sum(each.session.ready for each in master.remote.topology.joined())


def _resident_kib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each number of machines."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate.mesh")
    parser.add_argument("counts", nargs="*", type=int, default=[10, 30, 100])
    given = parser.parse_args(arguments)
    print(HEAD)
    for count in given.counts:
        print(measure(count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

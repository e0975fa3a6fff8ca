"""``python -m tests.simulate.mesh [COUNT ...]``: the cost of a full mesh of machines.

Machines with one process each start at once and find each other; then they idle. For
each number of machines one line says how long it takes until each pair has a link, and
what a master reads, sends, computes and keeps.

With ``--one``, all machines read all announcements, but only one machine has links with
the others; the line is about its master. To that master the others are a full mesh. So
1,000 machines take minutes, not days.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unittest import mock

import attrs

from bus.features.machines import machine_table
from bus.features.machines.discovery import Rejection
from bus.model.config import BusConfig
from tests.simulate.footprint import footprint
from tests.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulate.announcements import Announcements
    from tests.simulate.process import SimProcess

__all__ = ["Cost", "Mesh", "measure", "table_of"]

_STEP_S: Final = 0.01
_EARLY_S: Final = 1.0
_IDLE_S: Final = 10.0
# When to give up: the higher machine of a pair waits for 3 s before it dials.
_LIMIT_S: Final = 5.0
_CALLS: Final = 20
_HEAD: Final = (
    *("machines", "links", "linked, s", "early", "read, /s", "frames, /s", "bytes, /s"),
    *("KiB", "read, µs", "flush, µs", "tick, µs", "CPU, s"),
)
_ROW: Final = " ".join(f"{{:>{max(7, len(each))}}}" for each in _HEAD)


@attrs.frozen
class Cost:
    """The cost of one mesh, for each observed master.

    links: the machines with which a master has a link.
    links_s: the seconds until the last of these links was made.
    early: the datagrams that arrived at a master in the first second.
    read: the datagrams that a master accepts, a second, when all is quiet.
    frames, bytes: the frames that a master sends then, a second.
    kib: the memory of a master, in KiB.
    read_us: the processor time to read one datagram, in microseconds.
    flush_us, tick_us: the processor time of a master to look for frames to send, and
      for expired timers, when there are none.
    seconds: the processor time of the whole simulation.
    rejected: the datagrams that the first observed master has rejected, by reason.
    """

    machines: int
    links: float
    links_s: float
    early: float
    read: float
    frames: float
    bytes: float
    kib: float
    read_us: float
    flush_us: float
    tick_us: float
    seconds: float
    rejected: Counter[Rejection] = attrs.field(factory=Counter)

    def __str__(self) -> str:
        numbers = [
            f"{self.machines:,}",
            f"{self.links:,.0f}",
            f"{self.links_s:.2f}",
            *(f"{each:,.0f}" for each in (self.early, self.read)),
            f"{self.frames:,.1f}",
            *(f"{each:,.0f}" for each in (self.bytes, self.kib)),
            f"{self.read_us:.1f}",
            *(f"{each:,.0f}" for each in (self.flush_us, self.tick_us)),
            f"{self.seconds:.1f}",
        ]
        counts = ", ".join(f"{n:,} {why.value}" for why, n in self.rejected.items())
        return _ROW.format(*numbers) + (f"  rejected: {counts}" if counts else "")


class Mesh(World):
    """A world without checks after each event, which look at all processes."""

    def check(self, process: SimProcess) -> None:
        """Do nothing: `test_discovery` checks the same machines."""


def measure(machines: int, tasks: int = 100, *, one: bool = False) -> Cost:
    """Simulate some machines with some tasks each; return the cost for each master.

    one: True to let only one machine have links with the others.
    """
    began = time.process_time()
    world = Mesh(1, announced=0.0, config=BusConfig())
    began_at = world.now
    announcements, network = world.announcements, world.network
    assert announcements is not None
    masters = [
        world.start(f"m{number:04}", "s1", master=True) for number in range(machines)
    ]
    for master in masters:
        for number in range(tasks):
            master.register(f"task{number}")
    # Half of the others dial it, and it dials the other half (OPEN-20).
    middle = masters[machines // 2]
    observed = [middle] if one else masters
    if one:
        announcements.may_link = _to_or_from(middle)
    linked_at = _run_until(world, observed, began_at + _EARLY_S, began_at)
    early = sum(_arrived(announcements, each) for each in observed)
    if sum(map(_links, observed)) < len(observed) * (machines - 1):
        linked_at = _run_until(world, observed, began_at + _LIMIT_S, linked_at)
    if one:
        # The others no longer receive one another: their tables get room, and would
        # make links that a mesh has not.
        announcements.reaches = _to_or_from(middle)
        announcements.may_link = lambda _one, _other: False
    world.run(_IDLE_S)  # until what followed from the start is over
    kept = footprint(middle.remote, middle.manager, announcements.of(middle))
    read = sum(_read(announcements, each) for each in observed)
    all_read = sum(_read(announcements, each) for each in masters)
    announcements.reading_s = 0.0
    frames, size = network.frames.copy(), network.bytes.copy()
    world.run(_IDLE_S)
    all_read = sum(_read(announcements, each) for each in masters) - all_read
    per_master = len(observed) * _IDLE_S
    keys = [each.key for each in observed]
    return Cost(
        machines=machines,
        links=sum(map(_links, observed)) / len(observed),
        links_s=linked_at - began_at,
        early=early / len(observed),
        read=(sum(_read(announcements, each) for each in observed) - read) / per_master,
        frames=sum(network.frames[key] - frames[key] for key in keys) / per_master,
        bytes=sum(network.bytes[key] - size[key] for key in keys) / per_master,
        kib=kept / 1024,
        read_us=announcements.reading_s / max(1, all_read) * 1e6,
        flush_us=_microseconds(lambda: middle.do(middle.remote.flush(world.now))),
        tick_us=_microseconds(lambda: middle.do(middle.remote.tick(world.now))),
        seconds=time.process_time() - began,
        rejected=announcements.of(middle).reader.rejected.copy(),
    )


@contextmanager
def table_of(machines: int) -> Iterator[None]:
    """Let the table of each master have room for so many machines (BUS-DISC-5).

    The bound is no setting: a measurement alone may raise it.
    """
    with mock.patch.object(machine_table, "MACHINES_MAX", machines):
        yield


def _to_or_from(observed: SimProcess) -> Callable[[str, str], bool]:
    machine = observed.key[0]
    return lambda one, other: machine in (one, other)


def _run_until(
    world: Mesh, observed: list[SimProcess], until: float, linked_at: float
) -> float:
    """Run until a time; return when the last link of an observed master was made.

    linked_at: the time of the last link so far.
    """
    links = sum(map(_links, observed))
    while world.now < until:
        world.run(_STEP_S)
        before, links = links, sum(map(_links, observed))
        if links > before:
            linked_at = world.now
    return linked_at


def _links(master: SimProcess) -> int:
    return sum(each.session.ready for each in master.remote.topology.joined())


def _read(announcements: Announcements, master: SimProcess) -> int:
    return announcements.of(master).reader.read


def _arrived(announcements: Announcements, master: SimProcess) -> int:
    reader = announcements.of(master).reader
    # Those that the table rejects have passed the reader.
    return reader.read + reader.rejected[Rejection.TOO_MANY]


def _microseconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call that finds nothing to do: the least of some.

    The first call does the work that is left over from before.
    """
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each number of machines."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate.mesh")
    parser.add_argument("counts", nargs="*", type=int, default=[10, 30, 100])
    parser.add_argument(
        "--one", action="store_true", help="only one machine has links with the others"
    )
    parser.add_argument(
        "--table",
        type=int,
        default=machine_table.MACHINES_MAX,
        help="the machines that a master keeps (default %(default)s, BUS-DISC-5)",
    )
    given = parser.parse_args(arguments)
    print(_ROW.format(*_HEAD))
    with table_of(given.table):
        for count in given.counts:
            print(measure(count, one=given.one), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

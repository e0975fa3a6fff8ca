"""`Network`: links between simulated processes, which carry bytes in order, or break.

If a link is cut, all bytes from some point on are lost, and the two ends notice at
different times. Bytes that a process sent before it died still arrive, as with a socket
(BUS-CHAN-5).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bus.kernel.wire import LinkKind
    from bus.model.registration import Key
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Network", "Wire"]


class Wire:
    """One link: its two ends and the bytes in flight.

    ends: the process and its number for the link; None once that end is closed.
    mid_io: True if an end was closed because its process died.
    """

    def __init__(self, one: tuple[SimProcess, int], two: tuple[SimProcess, int]):
        self.ends: list[tuple[SimProcess, int] | None] = [one, two]
        self.arrives: list[float] = [0.0, 0.0]  # time of the last arrival at each end
        self.cut = False
        self.mid_io = False


class Network:
    """All links; delays and times of loss are drawn from the world's seed.

    frames, bytes: the number of frames that each process has put on links, and of their
      bytes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self.wires: dict[int, tuple[Wire, int]] = {}  # link, index of the end
        self.slow = 0.004
        self.frames: Counter[Key] = Counter()
        self.bytes: Counter[Key] = Counter()

    def _delay(self) -> float:
        return self._world.random.random() * self.slow

    def dial(self, dialler: SimProcess, kind: LinkKind, key: Key, address: str) -> None:
        """Make a link to the process listening there, or report that none does."""

        def arrive() -> None:
            target = self._world.remote_subscriptions(address)
            if not dialler.alive:
                return
            if target is None or target is dialler:
                dialler.event(
                    lambda: dialler.remote.on_dial_failed(kind, key, self._world.now)
                )
                return
            here, there = next(self._numbers), next(self._numbers)
            wire = Wire((dialler, here), (target, there))
            self.wires[here], self.wires[there] = (wire, 0), (wire, 1)
            world = self._world
            its = world.credentials(target, dialler)
            own = world.credentials(dialler, target)
            dialler.event(
                lambda: dialler.remote.on_link_dialled(here, kind, key, world.now, its)
            )
            target.event(lambda: target.remote.on_link_accepted(there, world.now, own))

        self._world.at(self._delay(), arrive)

    def other(self, number: int) -> SimProcess | None:
        """Return the process at the other end of a link, if that end is open."""
        wire, end = self.wires[number]
        there = wire.ends[1 - end]
        return None if there is None else there[0]

    def send(self, number: int, data: bytes) -> None:
        """Put bytes on a link; they are dropped if the other end is closed."""
        wire, end = self.wires[number]
        here = wire.ends[end]
        if here is not None:
            self.frames[here[0].key] += 1
            self.bytes[here[0].key] += len(data)
        self._arrive(wire, 1 - end, data)

    def hang_up(self, number: int) -> None:
        """Close one end; the other end notices after all bytes have arrived."""
        wire, end = self.wires[number]
        wire.ends[end] = None
        self._arrive(wire, 1 - end, None)

    def die(self, process: SimProcess) -> None:
        """Close all links of a process."""
        for wire, end in list(self.wires.values()):
            at = wire.ends[end]
            if at is not None and at[0] is process:
                wire.mid_io = True
                self.hang_up(at[1])

    def cut(self, wire: Wire) -> None:
        """Lose a link with all bytes in flight."""
        wire.cut = True
        for end in (0, 1):
            self._lose(wire, end, self._world.random.random() * 0.1)

    def whole(self) -> list[Wire]:
        """Return the links whose two ends are open."""
        wires = {id(wire): wire for wire, _ in self.wires.values()}
        return [each for each in wires.values() if not each.cut and all(each.ends)]

    def _arrive(self, wire: Wire, end: int, data: bytes | None) -> None:
        world = self._world
        at = max(wire.arrives[end], world.now + self._delay())
        wire.arrives[end] = at

        def arrive() -> None:
            there = wire.ends[end]
            if wire.cut or there is None:
                return
            process, number = there
            if data is None:
                self._lose(wire, end, 0.0)
            else:
                process.received(number, data)

        world.at(at - world.now, arrive)

    def _lose(self, wire: Wire, end: int, after: float) -> None:
        def lose() -> None:
            there = wire.ends[end]
            if there is not None:
                process, number = there
                wire.ends[end] = None
                process.event(
                    lambda: process.remote.on_link_lost(
                        number, self._world.now, mid_io=wire.mid_io
                    )
                )

        self._world.at(after, lose)

"""`Announcements`: discovery in a simulated network with lossy datagrams."""

from __future__ import annotations

import itertools
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from bus.core.discovery.discovery import Discovery
from tests.kit.discovery import discovery_settings

if TYPE_CHECKING:
    from bus.core.discovery.discovery import Event
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Announcements"]

_DELAY_S: Final = 0.05
_REPEATED: Final = 0.1
_STEP_S: Final = 1e-6


class Announcements:
    """The discovery of all masters, and the network between them.

    loss: the share of datagrams that are lost.
    """

    def __init__(self, world: World, seed: int, loss: float) -> None:
        self._world: Final = world
        # A generator of its own, so that all other draws stay the same.
        self._random: Final = Random(f"announcements {seed}")
        self._instances: Final = itertools.count(1)
        self._hosts: Final[dict[str, str]] = {}
        self._masters: Final[list[tuple[SimProcess, Discovery]]] = []
        self.loss = loss

    def begin(self, master: SimProcess) -> None:
        """Let a new master announce its machine."""
        machine = master.key[0]
        number = len(self._hosts) + 1
        host = self._hosts.setdefault(machine, f"10.0.{number // 250}.{number % 250}")
        discovery = Discovery(
            master.remote.topology.me,
            next(self._instances),
            discovery_settings(host),
            self._random.random,
        )
        self._masters.append((master, discovery))
        self._at(master, discovery, self._world.now)

    def _at(self, master: SimProcess, discovery: Discovery, at: float) -> None:
        wait_s = max(0.0, at - self._world.now) + _STEP_S
        self._world.at(wait_s, partial(self._wake, master, discovery))

    def _wake(self, master: SimProcess, discovery: Discovery) -> None:
        """Announce, and forget silent machines, if it is time."""
        if not master.alive:
            return
        now = self._world.now
        if not master.frozen:
            if discovery.due_at <= now:
                self._send(master, discovery, discovery.announce(now))
            for event in discovery.expire(now):
                self._tell(master, event)
        self._at(master, discovery, max(discovery.next_deadline(), now + 0.01))

    def _send(self, master: SimProcess, discovery: Discovery, data: bytes) -> None:
        host = self._hosts[master.key[0]]
        for other, its in self._masters:
            if its is discovery or not other.alive:
                continue
            copies = 1 + (self._random.random() < _REPEATED)
            for _ in range(copies):
                if self._random.random() >= self.loss:
                    delay_s = self._random.random() * _DELAY_S
                    arrive = partial(self._arrive, other, its, data, host)
                    self._world.at(delay_s, arrive)

    def _arrive(
        self, master: SimProcess, discovery: Discovery, data: bytes, host: str
    ) -> None:
        """Let a master receive a datagram, unless it is dead or stands still."""
        if not master.alive or master.frozen:
            return
        event = discovery.on_datagram(data, host, self._world.now)
        if event is not None:
            self._tell(master, event)

    def _tell(self, master: SimProcess, event: Event) -> None:
        name = event.machine.name
        master.say(lambda: f"finds that {name} is {event.change.value}")
        machine = attrs.evolve(event.machine, address=f"{name}/Master")
        known = attrs.evolve(event, machine=machine)
        master.event(
            lambda: master.remote.discovered_machines.on_event(known, self._world.now)
        )

    def read(self) -> int:
        """Return how many datagrams all masters have read."""
        return sum(discovery.reader.read for _, discovery in self._masters)

    def known(self, machine: str) -> set[str]:
        """Return the machines that the master of a machine knows."""
        master = self._world.masters[machine]
        return {
            each.name
            for one, discovery in self._masters
            if one is master
            for each in discovery.machines
        }

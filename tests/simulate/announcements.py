"""`Announcements`: discovery in a simulated network with lossy datagrams."""

from __future__ import annotations

import itertools
import math
import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from msgspec.structs import replace

from bus.features.machines.discovery import Discovery
from tests.kit.discovery import discovery_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.machines.discovery import Event
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Announcements"]

_DELAY_S: Final = 0.05
_REPEATED: Final = 0.1
_STEP_S: Final = 1e-6
_FROZEN_S: Final = 0.01  # how often a master that stands still looks at the time


class Announcements:
    """The discovery of all masters, and the network between them.

    loss: the share of datagrams that are lost.
    reaches: whether a datagram of one machine reaches another one.
    may_link: whether a machine may learn that it has found another one.
    reading_s: the processor time in which all masters have read datagrams.
    """

    def __init__(self, world: World, seed: int, loss: float) -> None:
        self._world: Final = world
        # A generator of its own, so that all other draws stay the same.
        self._random: Final = Random(f"announcements {seed}")
        self._instances: Final = itertools.count(1)
        self._hosts: Final[dict[str, str]] = {}
        self._masters: Final[dict[SimProcess, Discovery]] = {}
        self._timers: Final[dict[SimProcess, float]] = {}
        self.loss = loss
        self.reaches: Callable[[str, str], bool] = lambda _sender, _receiver: True
        self.may_link: Callable[[str, str], bool] = lambda _one, _other: True
        self.reading_s = 0.0

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
        self._masters[master] = discovery
        self._set_timer(master, discovery)

    def _set_timer(self, master: SimProcess, discovery: Discovery) -> None:
        """Call `_on_time` at the next deadline, unless an earlier call is scheduled."""
        now = self._world.now
        at = discovery.next_deadline()
        if master.frozen:
            at = max(at, now + _FROZEN_S)
        if at < self._timers.get(master, math.inf):
            self._timers[master] = at
            wake = partial(self._on_time, master, discovery, at)
            self._world.at(max(0.0, at - now) + _STEP_S, wake)

    def _on_time(self, master: SimProcess, discovery: Discovery, moment: float) -> None:
        """Announce, and forget silent machines, if it is time.

        moment: the time for which this call was scheduled; an earlier call may have
          taken its place.
        """
        if not master.alive or moment != self._timers.get(master):
            return
        del self._timers[master]
        now = self._world.now
        if not master.frozen:
            if discovery.due_at <= now:
                self._send(master, discovery, discovery.announce(now))
            for event in discovery.expire(now):
                self._tell(master, event)
        self._set_timer(master, discovery)

    def _send(self, master: SimProcess, discovery: Discovery, data: bytes) -> None:
        machine = master.key[0]
        host = self._hosts[machine]
        for other, its in self._masters.items():
            if its is discovery or not other.alive:
                continue
            if not self.reaches(machine, other.key[0]):
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
        began = time.process_time()
        event = discovery.on_datagram(data, host, self._world.now)
        self._set_timer(master, discovery)
        self.reading_s += time.process_time() - began
        if event is not None:
            self._tell(master, event)

    def _tell(self, master: SimProcess, event: Event) -> None:
        name = event.machine.name
        if not self.may_link(master.key[0], name):
            return
        master.say(lambda: f"finds that {name} is {event.change.value}")
        machine = replace(event.machine, address=f"{name}/Master")
        known = attrs.evolve(event, machine=machine)
        master.event(lambda: master.machines.on_event(known, self._world.now))

    def of(self, master: SimProcess) -> Discovery:
        """Return the discovery of a master."""
        return self._masters[master]

    def known(self, machine: str) -> set[str]:
        """Return the machines that the master of a machine knows."""
        return {each.name for each in self.of(self._world.masters[machine]).machines}

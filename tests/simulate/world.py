"""`World`: the clock, the network, and all processes on it."""

from __future__ import annotations

import heapq
import itertools
from random import Random
from typing import TYPE_CHECKING

import attrs

from bus.model.rights import Credentials, Rights
from tests.simulate.announcements import Announcements
from tests.simulate.checks import Checks
from tests.simulate.counters import Counters
from tests.simulate.fast_paths import NO_FAST_PATHS, FastPathRate
from tests.simulate.guests import NO_GUESTS, Guests
from tests.simulate.network import Network
from tests.simulate.process import CONFIG, SimProcess
from tests.simulate.recorded import Recorded
from tests.simulate.story import Story
from tests.simulate.trace_sink import TraceSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.wire import Frame
    from bus.model.config import BusConfig
    from bus.model.message import Incoming
    from bus.model.registration import Key

__all__ = ["World"]

_LIVES_APART = 1000  # more than the number of tasks in one life of a process


class World:
    """The complete state of one run.

    config: of all processes.
    masters: the process that listens as master, by machine.
    reading: the maximum delay before a task reads a message, in seconds.
    frames: the frames put on links, each with sender and receiver; None if not kept.
    recorded: the journals of all processes; None if there are none.
    fast_paths: how many messages take the fast path when they may.
    went_short: how many messages took the fast path.
    watched: True if tasks watch, and processes shut down in order.
    guests: the processes of another user.
    announcements: the discovery of machines; None if masters know one another.
    """

    def __init__(
        self,
        seed: int,
        *,
        verbose: bool = False,
        ordered: bool = True,
        config: BusConfig = CONFIG,
        recorded: bool = False,
        fast_paths: FastPathRate = NO_FAST_PATHS,
        watched: bool = False,
        guests: Guests = NO_GUESTS,
        announced: float | None = None,
    ) -> None:
        self.config = config
        self.watched = watched
        self.guests = guests
        self.random = Random(seed)
        # A generator of its own, so that all other draws stay the same.
        self._short = Random(f"short {seed}")
        self._fast_paths = fast_paths
        self.went_short = 0
        self.now = 1.0
        self.story = Story(verbose=verbose)
        self.counters = Counters(ordered=ordered)
        self.network = Network(self)
        self.checks = Checks(self)
        self.trace_sink = TraceSink(self)
        self.recorded = Recorded(self) if recorded else None
        self.announcements = (
            None if announced is None else Announcements(self, seed, announced)
        )
        self.processes: dict[Key, SimProcess] = {}
        self.masters: dict[str, SimProcess] = {}
        self.lost_in_between: list[Incoming] = []
        self.reading = 0.01
        self.frames: list[tuple[SimProcess, SimProcess | None, Frame]] | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)

    def credentials(self, process: SimProcess, by: SimProcess) -> Credentials:
        """Return the credentials of a process, as another one sees them."""
        rights = None
        if process.guest:
            rights = self.guests.rights(process.key[1], by.key[1])
        return Credentials(int(process.guest), rights or Rights())

    def take_fast_paths(self, fraction: float) -> None:
        """Let this fraction of the messages take the fast path from now on."""
        self._fast_paths = attrs.evolve(self._fast_paths, taken=fraction)

    def short(self) -> bool:
        """Draw whether a message takes the fast path, if it may."""
        return self._short.random() < self._fast_paths.taken

    def interrupted(self) -> bool:
        """Draw whether the sender is interrupted on the fast path."""
        return self._short.random() < self._fast_paths.interrupted

    def at(self, after: float, act: Callable[[], None]) -> None:
        """Schedule an event some seconds from now."""
        heapq.heappush(self._events, (self.now + after, next(self._order), act))

    def run(self, seconds: float) -> None:
        """Let time pass, and execute the events that are due."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = until

    def number(self) -> int:
        """Return a unique number for a message."""
        return next(self._numbers)

    def start(
        self, machine: str, name: str, *, master: bool = False, life: int = 0
    ) -> SimProcess:
        """Start a process, or restart it in a new incarnation.

        life: its incarnation; 0 for one that rises with time.
        """
        # Journals identify a registration by its number alone.
        life = life or (int(self.now * 1e9) + next(self._order)) * _LIVES_APART
        process = SimProcess(self, machine, name, master=master, life=life)
        process.guest = name in self.guests.names
        self.processes[machine, name] = process
        process.say(lambda: f"starts as {'master' if master else 'slave'}, {life}")
        if master:
            self.masters[machine] = process
            if slaves := self._slaves(machine):
                process.event(lambda: process.remote.begin(self.now, slaves))
            self.introduce(process)
        else:
            process.event(lambda: process.remote.begin(self.now))
        return process

    def introduce(self, process: SimProcess) -> None:
        """Make a master and the masters of other machines known to one another."""
        if self.announcements is not None:
            self.announcements.begin(process)
            return
        for machine, other in self.masters.items():
            if other is not process and other.alive:
                here = process.key[0]
                for one, its, address in (
                    (process, machine, f"{machine}/Master"),
                    (other, here, f"{here}/Master"),
                ):
                    self._known(one, its, address)

    def _known(self, process: SimProcess, machine: str, address: str) -> None:
        patience_s = 0.0 if process.key[0] < machine else 3.0
        found = process.machines.on_found
        process.event(lambda: found(machine, (address,), self.now, patience_s))

    def promote(self, process: SimProcess) -> None:
        """Promote a slave to master, as if it had acquired the lock (OPEN-1)."""
        process.say(lambda: "becomes master")
        machine = process.key[0]
        self.masters[machine] = process
        slaves = self._slaves(machine)
        process.event(lambda: process.remote.become_master(self.now, slaves))
        self.introduce(process)

    def _slaves(self, machine: str) -> list[str]:
        """Return where the living processes of a machine listen."""
        return [each.name for each in self.living() if each.key[0] == machine]

    def remote_subscriptions(self, address: str) -> SimProcess | None:
        """Return the process that listens at an address; None if there is none."""
        machine, _, name = address.partition("/")
        if name == "Master":
            process = self.masters.get(machine)
        else:
            process = self.processes.get((machine, name))
        return process if process is not None and process.alive else None

    def living(self) -> list[SimProcess]:
        """Return the processes that are alive."""
        return [each for each in self.processes.values() if each.alive]

    def check(self, process: SimProcess) -> None:
        """Check all invariants after an event in a process."""
        self.checks.step(process)
        self.trace_sink.step(process)

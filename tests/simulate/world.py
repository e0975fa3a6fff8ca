"""`World`: the clock, the network, and all processes on it."""

from __future__ import annotations

import heapq
import itertools
from random import Random
from typing import TYPE_CHECKING

from bus.rights import Credentials, Rights
from tests.simulate.books import Books
from tests.simulate.checks import Checks
from tests.simulate.network import Network
from tests.simulate.process import LIMITS, SimProcess
from tests.simulate.recorded import Recorded
from tests.simulate.story import Story
from tests.simulate.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from bus.core.limits import Limits
    from bus.core.peer import Key
    from bus.core.wire import Frame
    from bus.message import Incoming

__all__ = ["World"]

_LIVES_APART = 1000  # more tasks than a process has in its life


class World:
    """All there is in a run.

    limits: of all processes.
    masters: who listens as master, by machine.
    reading: how long a task takes before it reads a message, at most, in seconds.
    frames: all that were put on links, by whom and for whom, if that is to be kept.
    recorded: the journals of all processes; None if they have none.
    shortcuts: how often a message that may go past the books does; struck: how often
      who puts it on its link is interrupted. went_short: how many went so.
    watched: whether tasks watch, and processes leave in order.
    guests: names of processes of another user. rights: what one of these may do, by its
      name, and by whose list; None for everything.
    """

    def __init__(
        self,
        seed: int,
        *,
        told: bool = False,
        ordered: bool = True,
        limits: Limits = LIMITS,
        recorded: bool = False,
        shortcuts: float = 0.0,
        struck: float = 0.0,
        watched: bool = False,
        guests: Container[str] = (),
        rights: Callable[[str, str], Rights | None] = lambda _who, _by: None,
    ) -> None:
        self.limits = limits
        self.watched = watched
        self.guests = guests
        self.rights = rights
        self.random = Random(seed)
        # Not out of what all else is drawn from, which is to stay as it was.
        self._short = Random(f"short {seed}")
        self._shortcuts = shortcuts
        self._struck = struck
        self.went_short = 0
        self.now = 1.0
        self.story = Story(told=told)
        self.books = Books(ordered=ordered)
        self.network = Network(self)
        self.checks = Checks(self)
        self.witness = Witness(self)
        self.recorded = Recorded(self) if recorded else None
        self.processes: dict[Key, SimProcess] = {}
        self.masters: dict[str, SimProcess] = {}
        self.lost_in_between: list[Incoming] = []
        self.reading = 0.01
        self.frames: list[tuple[SimProcess, SimProcess | None, Frame]] | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)

    def credentials(self, process: SimProcess, by: SimProcess) -> Credentials:
        """Return who a process is, as another one sees it."""
        rights = self.rights(process.key[1], by.key[1]) if process.guest else None
        return Credentials(int(process.guest), rights or Rights())

    def short(self) -> bool:
        """Draw whether a message is to go past the books, if it may."""
        return self._short.random() < self._shortcuts

    def struck(self) -> bool:
        """Draw whether who puts a message on its link is interrupted."""
        return self._short.random() < self._struck

    def at(self, after: float, act: Callable[[], None]) -> None:
        """Let something happen some seconds from now."""
        heapq.heappush(self._events, (self.now + after, next(self._order), act))

    def run(self, seconds: float) -> None:
        """Let time pass, and happen what does."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = until

    def number(self) -> int:
        """Return a number for a message."""
        return next(self._numbers)

    def start(self, machine: str, name: str, *, master: bool = False) -> SimProcess:
        """Start a process, again if it was there before."""
        # Journals know a registration by its number alone.
        life = (int(self.now * 1e9) + next(self._order)) * _LIVES_APART
        process = SimProcess(self, machine, name, master=master, life=life)
        process.guest = name in self.guests
        self.processes[machine, name] = process
        process.say(lambda: f"starts as {'master' if master else 'slave'}, {life}")
        if master:
            self.masters[machine] = process
            self.introduce(process)
        else:
            process.event(process.remote.dial_master)
        return process

    def introduce(self, process: SimProcess) -> None:
        """Let a master and those of other machines know of one another."""
        for machine, other in self.masters.items():
            if other is not process and other.alive:
                here = process.key[0]
                for one, its, address in (
                    (process, machine, f"{machine}/Master"),
                    (other, here, f"{here}/Master"),
                ):
                    self._known(one, its, address)

    @staticmethod
    def _known(process: SimProcess, machine: str, address: str) -> None:
        process.event(lambda: process.remote.machine_known(machine, (address,)))

    def promote(self, process: SimProcess) -> None:
        """Let a slave be master, since it has won the lock (OPEN-1)."""
        process.say(lambda: "becomes master")
        self.masters[process.key[0]] = process
        process.event(process.remote.become_master)
        self.introduce(process)

    def listening(self, address: str) -> SimProcess | None:
        """Return who listens at an address; None if nobody does."""
        machine, _, name = address.partition("/")
        if name == "Master":
            process = self.masters.get(machine)
        else:
            process = self.processes.get((machine, name))
        return process if process is not None and process.alive else None

    def living(self) -> list[SimProcess]:
        """Return the processes that live."""
        return [each for each in self.processes.values() if each.alive]

    def check(self, process: SimProcess) -> None:
        """See whether all is well in a process, after something happened there."""
        self.checks.step(process)
        self.witness.step(process)

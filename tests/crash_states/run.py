"""`Run`: several lives of one receiver, and the crash states of its disk.

A life opens the directory as a bus does, and receives batches from several senders. It
performs the actions in the order of `bus.process.exchange`: it stores a horizon, then
delivers the messages. Some calls are interrupted and repeated, and some fail. A kill or
a power cut ends each life.
"""

from __future__ import annotations

import _thread
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from bus.errors import HorizonError
from bus.features.durable.format import Owner
from bus.features.durable.horizons import Store
from bus.features.durable.storage import DiskStorage
from bus.features.durable.store import HorizonLog, HorizonStore
from bus.kernel.streams.incoming_streams import IncomingStreams

if TYPE_CHECKING:
    from tests.crash_states.disk import Disk
    from tests.crash_states.system import System

__all__ = ["Run", "ViolationError"]

# Messages on their way to a task: sender, epoch and last number.
_Batch: TypeAlias = tuple[str, int, int]

_FILE: Final = "horizons"
_FOLDER: Final = Path("/simulated/horizons")
_BYTES_MAX: Final = 256  # so that logs are rewritten within a life
_SENDERS: Final = ("m1/near", "m1/p-1", "other.machine/with-a-longer-name")
_ALL_SUBSETS_MAX: Final = 4  # with more pending operations, not every subset is checked


class ViolationError(AssertionError):
    """A state after a crash from which a message could be delivered again."""


@attrs.define
class _Stream:
    """The stream of one sender: its epoch, and the numbers of that epoch.

    arrived, delivered: the greatest numbers that arrived, and that were delivered.
    """

    epoch: int = 1
    arrived: int = 0
    delivered: int = 0


class Run:
    """One run, which counts and checks the states of its disk.

    Args:
        system: the system that the storage uses.
        seed: determines the run and its states.
        states_max: the run may end once it has checked this many states.

    states: the number of states checked so far.
    """

    def __init__(self, system: System, seed: int, states_max: int) -> None:
        self._system: Final = system
        self._draw: Final = random.Random(seed)
        self._states_max: Final = states_max
        self._ahead: Final = self._draw.choice((0, 1, 2, 5, 50))
        self._senders: Final = {sender: _Stream() for sender in _SENDERS}
        # Of each earlier epoch that had messages: sender, epoch and last delivered.
        self._past: Final[list[tuple[str, int, int]]] = []
        self._begun: int = -1  # the greatest incarnation of a life that has begun
        self._checking: bool = False
        self.states: int = 0

    def simulate(self) -> None:
        """Simulate some lives of the receiver.

        Raises:
            ViolationError: a message could be delivered again after a crash.
        """
        system, draw = self._system, self._draw
        system.on_call = self._on_call
        for _ in range(draw.randint(1, 4)):
            try:
                self._simulate_life()
            except (HorizonError, OSError):
                pass  # the storage has failed: the process ends
            except KeyboardInterrupt:
                pass  # an interrupt within `_open`: the process ends, too
            self._check_states()
            if draw.random() < 0.5:
                system.disk = system.disk.with_torn_writes(draw)
            system.kill()
            if self.states >= self._states_max:
                return

    def _simulate_life(self) -> None:
        store = self._open(self._draw.randrange(10**6))
        self._begun = store.incarnation
        lock = _thread.allocate_lock()
        for _ in range(self._draw.randint(1, 25)):
            todo, stored = self._receive(store), True
            while todo:
                action = todo.pop(0)
                if isinstance(action, Store):
                    stored = self._store(store, action, todo, lock) and stored
                elif stored:
                    self._deliver(*action)
            if not stored:
                break
            self._check_states()  # after the deliveries
            if self.states >= self._states_max:
                break
        if self._draw.random() < 0.3:
            store.close()

    def _open(self, clock: int) -> HorizonStore:
        owner = Owner("bus1", "m1", "me", clock)
        log = HorizonLog(DiskStorage(_FOLDER), owner, bytes_max=_BYTES_MAX)
        return HorizonStore(log, ahead=self._ahead)

    def _receive(self, store: HorizonStore) -> list[Store | _Batch]:
        """Return the actions of one round."""
        draw, todo = self._draw, list[Store | _Batch]()
        for _ in range(draw.randint(1, 3)):
            sender = draw.choice(_SENDERS)
            known = self._senders[sender]
            if draw.random() < 0.1:
                if known.delivered:
                    self._past.append((sender, known.epoch, known.delivered))
                known.epoch, known.arrived, known.delivered = known.epoch + 1, 0, 0
            # After a restart numbers up to the horizon are refused.
            horizon = store.horizons.of(sender)
            first = known.arrived + 1
            if horizon is not None and horizon.epoch == known.epoch:
                resumed = known.delivered < known.arrived or draw.random() < 0.05
                first = max(first, horizon.number + 1) if resumed else first
            known.arrived = first + draw.randrange(5)
            raised = store.horizons.raise_over(sender, known.epoch, known.arrived)
            if raised is not None:
                todo.append(raised)
            todo.append((sender, known.epoch, known.arrived))
        return todo

    def _deliver(self, sender: str, epoch: int, number: int) -> None:
        known = self._senders[sender]
        if epoch == known.epoch:
            known.delivered = number
        else:
            self._past.append((sender, epoch, number))

    def _store(
        self,
        store: HorizonStore,
        action: Store,
        queued: list[Store | _Batch],
        lock: _thread.LockType,
    ) -> bool:
        while True:
            try:
                store.store(action, queued, lock)
            except KeyboardInterrupt:
                continue  # as in `Exchange.act`, which repeats the action
            except HorizonError:
                return False
            return True

    # States.

    def _on_call(self, name: str) -> None:
        if self._checking:
            return
        self._check_states()
        if self._draw.random() < 0.01:
            raise KeyboardInterrupt
        if self._draw.random() < 0.005:
            raise OSError(5, f"{name} failed")

    def _check_states(self) -> None:
        """Check the states that a power cut at this moment could leave."""
        system, draw = self._system, self._draw
        here, on_call = system.disk, system.on_call
        before = dict(system._open)
        self._checking = True
        try:
            if len(here.pending) <= _ALL_SUBSETS_MAX:
                for state in here.subsets():
                    self._check(state)
            self._check(here.with_operations(()))
            for _ in range(2):
                torn = here.with_torn_writes(draw)
                self._check(torn.copy())
                if torn.names.get(_FILE) and torn.files[torn.names[_FILE]]:
                    self._check(torn.with_flipped_bit(_FILE, draw), flipped=True)
        finally:
            self._checking = False
            system.disk, system.on_call = here, on_call
            system._open.clear()
            system._open.update(before)

    def _check(self, disk: Disk, *, flipped: bool = False) -> None:
        """Restart the process from a state; it must refuse delivered messages."""
        self.states += 1
        self._system.disk = disk
        self._system.kill()
        try:
            store = self._open(0)
        except HorizonError as error:
            if flipped:
                return
            raise ViolationError(f"the horizons are not readable: {error}") from error
        if store.incarnation <= self._begun:
            raise ViolationError(f"incarnation {store.incarnation} after {self._begun}")
        streams: IncomingStreams[int] = IncomingStreams(
            store.incarnation,
            window=2**20,
            ranges_max=8,
            life_s=1.0,
            ended_max=8,
            horizons=store.horizons,
        )
        for sender, known in self._senders.items():
            self._check_sender(streams, store, sender, known, flipped=flipped)
        for sender, epoch, number in self._past:
            self._check_refused(streams, sender, epoch, number)

    def _check_sender(
        self,
        streams: IncomingStreams[int],
        store: HorizonStore,
        sender: str,
        known: _Stream,
        *,
        flipped: bool,
    ) -> None:
        horizon = store.horizons.of(sender)
        if known.delivered:
            self._check_refused(streams, sender, known.epoch, known.delivered)
        if horizon is None or horizon.epoch != known.epoch or flipped:
            return
        most = known.arrived + self._ahead
        if horizon.number > most:
            msg = f"{sender}: horizon {horizon.number} is above its bound {most}"
            raise ViolationError(msg)

    @staticmethod
    def _check_refused(
        streams: IncomingStreams[int], sender: str, epoch: int, number: int
    ) -> None:
        """Send a delivered message again, like a sender that missed the restart."""
        streams.open(sender, epoch)
        again = streams.accept(sender, epoch, streams.incarnation, number, [0], 1)
        if again == [0]:
            raise ViolationError(
                f"{sender}: number {number} of epoch {epoch} was delivered, "
                "and is accepted again"
            )

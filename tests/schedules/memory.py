"""Shared memory of an owner and its recipients, for scenarios.

`Links` are lists of frames, so that a scenario has no more threads than it spawns. A
`Reader` is a recipient with the rounds of its comm thread.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bus.features.memory.arena import Arena
from bus.features.memory.frames import MemoryFrame, Release
from bus.features.memory.link_memory import LinkMemory
from bus.kernel.hooks import OpenHooks
from bus.kernel.wire import Batch
from bus.process.comm_thread import CommThread
from bus.process.link_poller import ParkedPoller
from bus.process.memory_network import MemoryNetwork
from queuebroker import _sync
from queuebroker.waiting.parking import SharedParker
from tests.features.memory.memory_ends import (
    SIZE,
    Owner,
    Recipient,
    body_of,
    close_all,
    message,
)
from tests.kit.buses import PATIENT
from tests.kit.inspection import unbalanced_memory
from tests.kit.station import IDENTITY, Station

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterator, Sequence

    from bus.kernel.wire import Frame
    from bus.model.snapshot import SharedMemoryInfo
    from bus.process.inbox import Inbox
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["BODIES", "Links", "Reader", "info_of", "shared", "small_owner"]

BODIES: Final = (b"1" * SIZE, b"2" * SIZE)
LINK: Final = 7  # the number of the link to the owner, at a recipient


@contextmanager
def small_owner(bytes_max: int = 4 * SIZE) -> Iterator[Owner]:
    """Yield an owner for few recipients, whose slabs have one buffer each.

    To make such a slab takes a twentieth of the usual time.
    """
    try:
        owner = Owner()
        arena = Arena(bytes_max)
        owner.memory._shared._arena = arena  # type: ignore[misc]
        yield owner
    finally:
        close_all()  # not by the garbage collector, which does not run meanwhile


class Links:
    """The links of an owner, whose data stay there until a recipient reads.

    hold: as `Rounds.hold` of the owner, but held for one action alone: so anything that
      a round may do comes between two actions in some schedule.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner: Final = owner
        self._hold: Final[_thread.LockType] = _sync.Lock()
        self._data: Final[dict[int, deque[bytes]]] = {
            link: deque() for link in owner.recipients
        }

    def share(self, body: bytes, *links: int) -> None:
        """Share a body with the recipients at links, in one round."""
        memory = self._owner.memory
        for link in links:
            with self._hold:
                self._put(link, memory.pieces(link, message(body)))
        with self._hold:
            for link, data in memory.end_round():
                self._put(link, [data])

    def _put(self, link: int, data: Sequence[bytes]) -> None:
        if self._owner.process_ids.get(link, 0) is not None:  # not lost
            self._data[link] += data

    def read(self, link: int) -> list[Any]:
        """Let a recipient read all that has arrived; return the bodies."""
        data = self._data[link]
        return bodies_in(self._owner, link, [data.popleft() for _ in range(len(data))])

    def answer(self, link: int) -> None:
        """Let a recipient answer, and report the ends of leases, frame by frame."""
        for frame in list(self._owner.recipients[link].say()):
            with self._hold:
                self._owner.memory.on_frame(link, frame)

    def lose(self, link: int) -> None:
        """Lose a link; a recipient still reads the data that have arrived."""
        with self._hold:
            self._owner.process_ids[link] = None
            self._owner.memory.forget(link)


def shared(owner: Owner, link: int, count: int) -> list[Any]:
    """Share some of `BODIES`; return the views, each in a slab of its own."""
    bodies = BODIES[:count]
    for offered in (True, False):
        data = [
            piece
            for body in bodies
            for piece in owner.memory.pieces(link, message(body))
        ]
        owner.memory.end_round()
        views = bodies_in(owner, link, data)
        assert tuple(map(bytes, views)) == bodies
        if offered:
            owner.answers()
    assert info_of(owner).messages.shared == count
    return views


def bodies_in(owner: Owner, link: int, data: Sequence[bytes]) -> list[Any]:
    """Return the bodies of the messages that a recipient reads from its link."""
    recipient = owner.recipients[link]
    frames = [frame for piece in data for frame in recipient.read(piece)]
    return [body_of(frame) for frame in frames if isinstance(frame, Batch)]


def info_of(end: Owner | Recipient) -> SharedMemoryInfo:
    """Return the report of one end, whose accounts balance (MC-39)."""
    found = end.memory.info()
    assert unbalanced_memory(found) == []
    assert found.stray_releases == 0
    return found


class Reader(Recipient):
    """A recipient with the rounds of a comm thread, which the calling thread makes.

    lost: True once the link to the owner is lost; no frame is put on it then.
    reports: the reports that were put on the link, and not taken.
    """

    def __init__(self) -> None:
        station = Station(hooks=[OpenHooks(bodies=partial(LinkMemory, PATIENT))])
        comm = CommThread(
            station.exchange,
            IDENTITY,
            config=PATIENT,
            policy=MemoryNetwork("bus1"),
            poller=_Poller(),
            listens="here/p1",
            master="master of here",
        )
        station.exchange.comm = comm
        comm._relay_outbox.ident = _sync.get_ident()
        self.comm: Final = comm
        self.rounds: Final = comm._rounds
        self.rounds.watcher = self
        memory = self.rounds.bodies
        assert isinstance(memory, LinkMemory)
        memory._lent._process_id = lambda _: os.getpid()  # type: ignore[misc]
        super().__init__(memory=memory)
        self.lost: bool = False
        self.reports: Final[list[Release]] = []

    def on_frame(self, link: int, frame: Frame, *, out: bool) -> None:
        """Note a report; as the watcher of all frames."""
        assert out, f"{frame} was read"
        assert link == LINK
        assert not self.lost, f"{frame} is sent on a link that is lost"
        assert isinstance(frame, Release)
        self.reports.append(frame)

    def sleep(self) -> None:
        """Sleep as the comm thread does before a round."""
        self.comm._link_pool.wait(self.rounds.is_due, self.rounds.deadline(None))

    def make_round(self, *, loss: bool = False) -> None:
        """Make a round of the comm thread.

        loss: True if the loss of the link to the owner is taken in.
        """
        if loss:
            self.lost = True
            self.rounds.given.append((LINK, None))  # type: ignore[arg-type]
        with self.rounds.hold:
            self.rounds.run()

    def say(self) -> Iterator[MemoryFrame]:
        """Yield the frames for the owner."""
        yield from self._answers
        self._answers.clear()
        yield from self.reports
        self.reports.clear()


class _Poller(ParkedPoller):
    """A poller that any thread wakes without a lock.

    It sleeps on unless there is a reason to wake, as that of sockets.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parker: SharedParker | None = None

    def wait(
        self,
        inbox: Inbox,
        ready: Callable[[], bool],
        deadline: float | None,
        full: Sequence[MessageQueue] = (),  # see `LinkPoller.wait`
    ) -> None:
        woken = True
        while woken:
            self._parker = parker = SharedParker()
            with inbox.lock:
                inbox.arrived.enlist(parker)
            # Checked again: an earlier waker could not see this parker.
            woken = not ready() and _sync.park(parker.lock, ready, deadline)
            with inbox.lock:
                inbox.arrived.leave(parker)

    def wake(self) -> None:
        if self._parker is not None:
            self._parker.release()

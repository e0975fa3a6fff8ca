"""`LinkOwner`: the owner of some links, without a bus, and the far ends of these.

For the schedules of a link pool: those of a whole bus are too many to explore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.process.failures import PeerLog
from bus.process.inbox import Inbox
from bus.process.link_helpers import PORT
from bus.process.link_poller import ParkedPoller
from bus.process.link_pool import LinkPool
from bus.process.memory_network import MemoryNetwork
from bus.process.thread_manager import Request
from queuebroker.errors import DisconnectedError
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.queue_broker import QueueBroker
from queuebroker.testing import explore
from tests.depth import schedules
from tests.kit.constants import configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.testing import Run

__all__ = ["LinkOwner", "rest", "under_every_schedule", "under_some_schedules"]


class LinkOwner:
    """A link pool and its owner, driven by one test.

    received: frames by link; None for the loss of the link.
    made: numbers of the established links; None for a link that failed.
    far: the far ends of the accepted links.
    gave_up: links dropped because the peer did not read.
    rounds: how many rounds the owner has made.

    limit: the maximum length of a frame, in bytes.
    """

    def __init__(
        self,
        *,
        capacity: int = 8,
        timeout_s: float = 5.0,
        backlog: tuple[int, int] = (100, 1000),
        limit: int | None = None,
    ) -> None:
        self.inbox: Final = Inbox()
        self.gave_up: Final[list[int]] = []
        self.peer_log: Final = PeerLog()
        self.rounds: int = 0
        self.link_pool: Final = LinkPool(
            self.inbox,
            configured(
                connect_timeout_s=timeout_s,
                LINK_FRAMES=capacity,
                BACKLOG_FRAMES=backlog[0],
                BACKLOG_BYTES=backlog[1],
            ),
            MemoryNetwork("bus1"),
            poller=ParkedPoller(),
            peer_log=self.peer_log,
            on_aborted=self._on_aborted,
        )
        self.manager: Final = BrokerManager()
        self.here: Final = QueueBroker(
            "here", manager=self.manager, max_message_size=limit
        )
        self.there: Final = QueueBroker(
            "there", manager=self.manager, max_message_size=limit
        )
        self.received: Final[list[tuple[int, bytes | None]]] = []
        self.made: Final[list[int | None]] = []
        self.ready: Callable[[], bool] = lambda: False
        self.far: Final[list[MessageQueue]] = []

    def open(self) -> None:
        """Accept links."""
        self.link_pool.helpers.accept_links(self.here, self.made.append)

    def close(self) -> None:
        """Close everything, and serve the last requests."""
        self.link_pool.close()
        self.turn()
        self.there.close()
        for each in self.far:
            each.disconnect()

    def connected(self, links: int = 1) -> list[MessageQueue]:
        """Accept `links` connections one by one; return the far ends."""
        for _ in range(links):
            self.far.append(self.there.connect("here", PORT, required=True))
            self.until(lambda: len(self.made) == len(self.far))
        return self.far

    def until(self, so: Callable[[], object], deadline: float | None = None) -> None:
        """Serve until `so` holds, or until a deadline."""
        while not so():
            self.link_pool.wait(self._due, deadline)
            self.turn()
            if deadline is not None:
                return

    def turn(self) -> None:
        """Take the received frames, and serve the requests."""
        self.rounds += 1
        self.received.extend(self.link_pool.take())
        for request in self.inbox.take_now():
            request.run()
        self.link_pool.resume()

    def frames(self, number: int) -> list[bytes | None]:
        """Return the frames of one link."""
        return [frame for link, frame in self.received if link == number]

    @property
    def words(self) -> list[str]:
        """The lines for the log."""
        return [text for text, _ in self.peer_log._noted]

    def ask(self, request: Callable[[], object]) -> None:
        """Let the owner call `request`."""
        self.inbox.push(Request(request))

    def _on_aborted(self, number: int, why: str) -> None:
        self.gave_up.append(number)
        self.peer_log.note(why)

    def _due(self) -> bool:
        return bool(self.inbox.items) or self.ready()


def under_every_schedule(
    program: Callable[[Run], object], *, bound: int = 2, limit: int = 1_500
) -> None:
    explore(program, bound=bound, limit=schedules(limit), random=schedules(100), seed=1)


def under_some_schedules(program: Callable[[Run], object]) -> None:
    """Explore few schedules: the test needs the virtual clock, not an order."""
    explore(program, bound=1, limit=schedules(150), random=20, seed=1)


def rest(queue: MessageQueue) -> list[bytes]:
    """Return all frames received by a far end until the link is lost."""
    frames = []
    while True:
        try:
            frames.append(queue.receive())
        except DisconnectedError:
            return frames

"""How the owner of the links sleeps at the sockets, and the events that wake it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.process import link_pool
from bus.process.failures import PeerLog
from bus.process.inbox import Inbox
from bus.process.link_helpers import PORT
from bus.process.link_poller import SocketPoller
from bus.process.link_pool import LinkPool
from bus.process.memory_network import MemoryNetwork
from queuebroker import _net, _sync
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import Driver as SocketDriver
from queuebroker.sockets import SocketQueueBroker
from specs.clauses import clause
from tests.kit.constants import configured
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker.channel.message_queue import MessageQueue
    from tests.support import Running


class Driver:
    """A stand-in for a driver; each poll performs the next of the given acts."""

    def __init__(self, *polls: Callable[[], object]) -> None:
        self._polls = list(polls)
        self.waited: list[float | None] = []
        self.woken = 0

    def poll(self, timeout: float | None) -> int:
        self.waited.append(timeout)
        assert self._polls, "sleeps once more than it should"
        self._polls.pop(0)()
        return 0

    def call(self, function: Callable[[], object]) -> None:
        function()
        self.woken += 1


def sleep(driver: Driver, inbox: Inbox, deadline: float | None = None) -> None:
    polled = SocketPoller(cast("Any", driver))
    polled.wait(inbox, lambda: bool(inbox.items), deadline)


@clause("BUS-ROUTE-4")
def test_a_wake_up_for_nothing_does_not_cost_the_next_one() -> None:
    """It may concern an earlier event; a shared parker wakes only once per sleep."""
    inbox = Inbox()

    def stale() -> None:
        with inbox.lock:
            inbox.arrived.wake_one()

    driver = Driver(stale, lambda: inbox.push("item"))

    sleep(driver, inbox)

    assert driver.waited == [None, None]
    assert driver.woken == 2


@clause("BUS-ROUTE-4", "QB-ERR-9")
@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupted_wake_up_is_made_by_the_same_call_or_by_the_next(
    calls: int,
) -> None:
    """The item of the interrupted call is not in the inbox.

    calls: how many calls of the driver end in an error.
    """
    inbox, left = Inbox(), [calls]
    driver = Driver()
    call = driver.call

    def interrupted(function: Callable[[], object]) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        call(function)

    def push() -> None:
        driver.call = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            inbox.push("first")
        assert driver.woken == 2 - calls
        inbox.push("second")

    driver._polls[:] = [push]

    sleep(driver, inbox)

    assert driver.woken >= 1
    assert list(inbox.items) == ["second"]


def test_sockets_are_looked_at_though_there_is_something_to_do() -> None:
    inbox = Inbox()
    inbox.push("item")
    driver = Driver(lambda: None)

    sleep(driver, inbox)

    assert driver.waited == [0]


@pytest.mark.parametrize("late_s", [0.0, 5.0])
def test_time_that_is_up_ends_it(late_s: float) -> None:
    inbox = Inbox()
    driver = Driver(lambda: None)

    sleep(driver, inbox, deadline=-late_s)

    assert driver.waited == [0]


# With real sockets.


class Sockets:
    """The owner of some links between processes, and the far ends of these."""

    capacity = 1000  # frames in each direction of a link

    def __init__(self, folder: str) -> None:
        self._threads = Threads()
        self.driver = SocketDriver()
        self.inbox = Inbox()
        self.made: list[int] = []
        self.received: list[tuple[int, bytes | None]] = []
        self.looked: list[int] = []
        address = f"ipc://{folder}/here" if _net.HAS_UNIX else "tcp://127.0.0.1:0"
        here = SocketQueueBroker(
            "here", listen=address, driver=self.driver, manager=BrokerManager()
        )
        self._there = SocketQueueBroker("there", manager=BrokerManager())
        assert here.address is not None
        self._address = here.address
        looked = self.looked

        class Noted(SocketPoller):
            """Records which links are checked."""

            def take_ready(self) -> list[int]:
                ready = super().take_ready()
                looked.extend(ready)
                return ready

        self.link_pool = LinkPool(
            self.inbox,
            configured(
                LINK_FRAMES=self.capacity, BACKLOG_FRAMES=100, BACKLOG_BYTES=1000
            ),
            MemoryNetwork("bus1"),
            poller=Noted(self.driver),
            peer_log=PeerLog(),
            on_aborted=lambda _, __: None,
        )
        self.link_pool.helpers.accept_links(here, self.made.append)

    def connected(self, links: int = 1) -> list[MessageQueue]:
        """Accept links; return the far ends."""
        far = [self._result(self._connect()) for _ in range(links)]
        self.until(lambda: len(self.made) == links)
        self.turn()  # each is checked once, for frames that arrived before
        return far

    def connected_late(self, message: bytes) -> None:
        """Accept a link whose peer sends before the link is known here."""
        early = self._result(self._connect())
        early.send(message)
        self.driver.poll(0)

    def _connect(self) -> Running[MessageQueue]:
        connect = self._there.connect
        return self._threads.start(connect, self._address, PORT, required=True)

    def _result(self, running: Running[MessageQueue]) -> MessageQueue:
        while not running.done:
            self.driver.poll(0.01)
        return running.result()

    def turn(self) -> None:
        self.received += self.link_pool.take()
        for request in self.inbox.take_now():
            request.run()
        self.link_pool.resume()

    def until(self, so: Callable[[], object]) -> None:
        """Serve until `so` holds, or fail after a limit."""
        end = _sync.monotonic() + LIMIT_S
        while not so():
            self.link_pool.wait(lambda: bool(self.inbox.items), end)
            assert _sync.monotonic() < end
            self.turn()

    def close(self) -> None:
        self.link_pool.close()  # closes the driver, too
        self.turn()
        self._there.close()


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    # A short path, since the paths of sockets are limited.
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        sockets = Sockets(folder)
        yield sockets
        sockets.close()


def test_the_owner_examines_only_the_ready_ones_of_many_links(
    sockets: Sockets,
) -> None:
    """Else the cost of a message at a master would grow with its slaves."""
    far = sockets.connected(5)
    sockets.looked.clear()

    far[3].send(b"x")
    sockets.until(lambda: sockets.received)

    assert sockets.received == [(4, b"x")]
    assert sockets.looked == [4]


@clause("BUS-CHAN-5")
@pytest.mark.parametrize("count", [1, 256, 257, 700])
def test_all_frames_are_taken_before_the_loss_of_their_link(
    sockets: Sockets, count: int
) -> None:
    """Even more frames than one read returns: none of them is signalled again."""
    [far] = sockets.connected()

    far.send_many([b"x"] * count)
    sockets.until(lambda: len(sockets.received) == count)
    far.send_many([b"x"] * count)
    far.disconnect()
    sockets.until(lambda: sockets.received[-1:] == [(1, None)])

    assert sockets.received == [(1, b"x")] * 2 * count + [(1, None)]


def test_frames_that_arrive_before_their_link_is_known_are_taken(
    sockets: Sockets,
) -> None:
    """No later event signals those frames."""
    sockets.connected_late(b"early")

    sockets.until(lambda: sockets.received)

    assert sockets.received == [(1, b"early")]


@clause("BUS-CHAN-8")
def test_room_in_a_full_link_wakes_the_owner(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a long series of frames takes a pause for each window of the link."""
    monkeypatch.setattr(link_pool, "_ROOM_S", 2 * LIMIT_S)  # no pause ends in time
    [far] = sockets.connected()
    frames = [b"%d" % number for number in range(sockets.capacity + 50)]
    for frame in frames:
        sockets.link_pool.send(1, frame)
    assert sockets.link_pool.sending

    with Threads() as threads:
        reader = threads.start(lambda: [far.receive() for _ in frames])
        sockets.until(lambda: not sockets.link_pool.sending)
    assert reader.result() == frames

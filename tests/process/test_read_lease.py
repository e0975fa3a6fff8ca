"""The read lease of a link: a thread other than its owner waits there and reads it."""

from __future__ import annotations

import os
import select
import tempfile
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from bus.process.inbox import Inbox
from bus.process.link_poller import ParkedPoller
from queuebroker import _net, _sync
from queuebroker._platform import SYSTEM
from queuebroker.errors import DisconnectedError
from queuebroker.sockets import SocketMessageQueue
from queuebroker.sockets.read_lease import WatchedLease
from queuebroker.sockets.read_owner import LENT_S, ReadOwner
from specs.clauses import clause
from tests.kit.clock import Clock
from tests.kit.systems import needs_epoll
from tests.pairs import queue_pair
from tests.process.test_link_poller import Sockets
from tests.sockets.support import numbered
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.process.link_poller import ReadLease
    from queuebroker.channel.message_queue import MessageQueue
    from tests.strikes import Blow


class Led:
    """A link, its far end, its read lease, and the inbox of the lease holder."""

    def __init__(self, folder: str) -> None:
        self.sockets = Sockets(folder)
        self.far: MessageQueue
        (self.far,) = self.sockets.connected()
        self.inbox = Inbox()
        self.lease = self.other()

    def other(self) -> ReadLease:
        lease = self.sockets.link_pool.read_lease(1)
        assert lease is not None
        return lease

    @property
    def pending(self) -> int:
        """The number of messages that the owner has to receive."""
        return self.sockets.link_pool.queue(1).pending


@contextmanager
def new_link() -> Iterator[Led]:
    # A short path, since the paths of sockets are limited.
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        led = Led(folder)
        yield led
        led.sockets.close()


@pytest.fixture
def led() -> Iterator[Led]:
    with new_link() as led:
        yield led


@clause("QB-SOCK-8")
def test_the_lease_holder_reads_and_the_owner_does_not(led: Led) -> None:
    assert led.lease.take(led.inbox)
    led.far.send(b"x")
    led.sockets.driver.poll(0.01)
    assert led.pending == 0

    led.lease.sleep(None)

    assert led.lease.read() == [b"x"]


@clause("QB-SOCK-8")
@pytest.mark.parametrize("count", [1, 3])
def test_the_owner_reads_on_behind_all_frames_that_have_arrived(
    led: Led, count: int
) -> None:
    """A frame that the reader left in the queue would wake no thread."""
    frames = [bytes((each,)) for each in range(count)]
    assert led.lease.take(led.inbox)
    for each in frames:
        led.far.send(each)
    led.lease.sleep(None)

    assert led.lease.read() == frames
    assert led.pending == 0

    led.far.send(b"next")
    led.sockets.until(lambda: led.sockets.received)
    assert led.sockets.received == [(1, b"next")]


@clause("BUS-CHAN-7")
def test_a_message_is_sent_once_the_lease_is_taken(led: Led) -> None:
    assert led.lease.take(led.inbox, b"question")
    assert led.far.receive() == b"question"

    led.far.send(b"answer")
    led.sockets.driver.poll(0.01)
    assert led.pending == 0
    led.lease.sleep(None)
    assert led.lease.read() == [b"answer"]


@clause("QB-FIFO-1", "QB-SOCK-8")
@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_the_owner_writes_what_the_socket_has_not_taken_whoever_reads(
    led: Led, attached: bool, answered: bool
) -> None:
    """The message that is sent with the lease follows."""
    queue, long, sent = led.sockets.link_pool.queue(1), bytes(1 << 22), list[bytes]()
    assert isinstance(queue, SocketMessageQueue)
    link = queue._socket_connection.link
    if attached:  # the sleeper of the lease, by an earlier holder
        assert led.lease.take(led.inbox)
        led.lease.leave(led.inbox)
    while not link.read_owner.blocked:
        queue.send(long)
        sent.append(long)
    select.select([], [link.socket], [], LIMIT_S)  # there is room for a message by now

    assert led.lease.take(led.inbox, b"last")

    if answered:
        led.far.send(b"answer")
        led.lease.sleep(None)
        assert led.lease.read() == [b"answer"]
    with Threads() as threads:
        receiving = threads.start(lambda: [led.far.receive() for _ in [*sent, b""]])
        deadline = _sync.monotonic() + LIMIT_S / 2
        while not receiving.done:
            led.sockets.driver.poll(0.01)
            assert _sync.monotonic() < deadline
        assert receiving.result() == [*sent, b"last"]
    led.lease.leave(led.inbox)


@clause("BUS-CHAN-8", "QB-SOCK-3")
@pytest.mark.parametrize("why", ["full", "too long", "closed", "leased", "unread"])
def test_no_lease_is_taken_for_a_message_that_cannot_be_sent_at_once(
    led: Led, why: str
) -> None:
    """The other way round, no message is sent without the lease."""
    queue, message = led.sockets.link_pool.queue(1), b"x"
    if why == "full":
        queue.send_many([b""] * queue.capacity)
    elif why == "too long":
        message = bytes((1 << 28) + 1)
    elif why == "closed":
        queue.disconnect()
    elif why == "leased":
        assert led.lease.take(led.inbox)
    else:
        led.far.send(b"unread")
        while not led.pending:
            led.sockets.driver.poll(0.01)
    sent = queue.stats().sent

    assert not led.lease.take(Inbox(), message)

    assert queue.stats().sent == sent
    other = Inbox()
    assert led.lease.take(other) is (why in ("full", "too long"))
    led.lease.leave(led.inbox if why == "leased" else other)
    led.far.disconnect()


# On Windows an interrupt may leave a socket pair to its finalizer.
@pytest.mark.filterwarnings(
    *(["ignore:.*unclosed <socket"] if SYSTEM == "windows" else [])
)
@clause("QB-ERR-9")
@pytest.mark.parametrize("step", ["take", "read"])
def test_an_interrupted_thread_keeps_the_lease_from_no_other_thread(step: str) -> None:
    """At every point: another thread may take it, or the link has ended."""

    def case(interrupted: Blow) -> None:
        with new_link() as led:
            done, other = list[object](), Inbox()
            if step == "take":
                interrupted(lambda: done.append(led.lease.take(led.inbox, b"x")))
            else:
                assert led.lease.take(led.inbox)
                led.far.send(b"x")
                interrupted(lambda: done.append(led.lease.read()))
            if step == "read" or done:
                led.lease.leave(led.inbox)
            queue = led.sockets.link_pool.queue(1)
            assert led.lease.take(other) or queue.remote_disconnected
            led.lease.leave(other)
            led.far.disconnect()

    everywhere(case)


def test_a_long_message_is_finished_by_the_owner(led: Led) -> None:
    long = bytes(1 << 20)
    with Threads() as threads:
        assert led.lease.take(led.inbox)
        sending = threads.start(led.far.send, long)
        led.lease.sleep(None)
        read = led.lease.read()
        led.lease.leave(led.inbox)
        if not read:
            led.sockets.until(lambda: led.sockets.received)
            ((_, message),) = led.sockets.received
            assert message is not None
            read = [message]
        sending.result()
    assert read == [long]


def test_a_post_elsewhere_wakes_the_lease_holder(led: Led) -> None:
    with Threads() as threads:
        assert led.lease.take(led.inbox)
        sleeping = threads.start(led.lease.sleep, None)
        led.inbox.push("item")
        sleeping.result()

    assert led.lease.read() == []
    assert not led.lease.ended
    led.lease.leave(led.inbox)
    assert not led.inbox.arrived.asleep


def test_a_lease_holder_does_not_sleep_if_an_item_was_posted_elsewhere(
    led: Led,
) -> None:
    """It is on no wait list before its sleep, so the poster does not wake it."""
    assert led.lease.take(led.inbox)
    led.inbox.push("item")
    assert led.inbox.wakeups == 0

    with Threads() as threads:
        threads.start(led.lease.sleep, None).result()

    led.lease.leave(led.inbox)


@clause("QB-ERR-9")
def test_a_thread_interrupted_in_its_sleep_is_on_no_wait_list_once_it_has_left(
    led: Led,
) -> None:
    """At every point: else a later post wakes no thread."""

    def case(interrupted: Blow) -> None:
        assert led.lease.take(led.inbox)
        interrupted(lambda: led.lease.sleep(_sync.monotonic()))
        led.lease.leave(led.inbox)
        assert not len(led.inbox.arrived)

    everywhere(case)


def test_time_that_is_up_wakes_it(led: Led) -> None:
    assert led.lease.take(led.inbox)
    led.lease.sleep(_sync.monotonic() + 0.001)

    assert led.lease.read() == []
    led.lease.leave(led.inbox)


def test_no_lease_is_granted_while_the_owner_has_a_frame_to_receive(led: Led) -> None:
    led.far.send(b"x")
    while not led.pending:
        led.sockets.driver.poll(0.01)

    assert not led.lease.take(led.inbox)
    assert not led.inbox.arrived.asleep
    led.sockets.until(lambda: led.sockets.received)
    assert led.sockets.received == [(1, b"x")]


@clause("BUS-CHAN-5")
def test_the_owner_detects_that_the_peer_has_disconnected(led: Led) -> None:
    assert led.lease.take(led.inbox)
    led.far.disconnect()
    led.lease.sleep(None)

    assert led.lease.read() == []
    assert led.lease.ended
    led.lease.leave(led.inbox)
    assert not led.lease.take(led.inbox)
    led.sockets.link_pool.mark_ready(1)
    led.sockets.until(lambda: led.sockets.received)
    assert led.sockets.received == [(1, None)]


def test_the_end_of_the_driver_wakes_the_sleeping_lease_holder(led: Led) -> None:
    with Threads() as threads:
        assert led.lease.take(led.inbox)
        sleeping = threads.start(led.lease.sleep, None)
        led.sockets.link_pool.close()
        sleeping.result()

    assert led.lease.read() == []
    led.lease.leave(led.inbox)


def test_to_leave_twice_does_no_harm(led: Led) -> None:
    """An interrupted thread leaves the lease a second time."""
    assert led.lease.take(led.inbox)
    led.lease.leave(led.inbox)
    led.lease.leave(led.inbox)

    led.far.send(b"x")
    led.sockets.until(lambda: led.sockets.received)
    assert led.sockets.received == [(1, b"x")]


@clause("QB-ERR-9")
def test_to_leave_twice_takes_it_from_no_other_thread(led: Led) -> None:
    """At the second time, another thread may hold the lease."""
    other = Inbox()
    assert led.lease.take(led.inbox)
    led.lease.leave(led.inbox)
    assert led.lease.take(other)

    with Threads() as threads:
        sleeping = threads.start(led.lease.sleep, None)
        until(lambda: other.arrived.asleep, "the other thread sleeps")
        led.lease.leave(led.inbox)
        other.push("item")
        sleeping.result()
    other.take_now()

    assert not led.lease.take(led.inbox)
    led.far.send(b"x")
    led.lease.sleep(None)
    assert led.lease.read() == [b"x"]
    led.lease.leave(other)


@clause("QB-ERR-9", "BUS-CHAN-7")
def test_an_interrupted_thread_leaves_the_lease_of_the_thread_that_takes_it_meanwhile(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call of `leave` yielded the lease, and was interrupted."""
    other = Inbox()
    yields = ReadOwner.yield_locked

    def interrupted(read_owner: ReadOwner, *, wanted: bool) -> None:
        monkeypatch.setattr(ReadOwner, "yield_locked", yields)
        yields(read_owner, wanted=wanted)
        raise KeyboardInterrupt

    assert led.lease.take(led.inbox)
    monkeypatch.setattr(ReadOwner, "yield_locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        led.lease.leave(led.inbox)
    assert led.lease.take(other)
    led.lease.leave(led.inbox)

    assert not led.lease.take(Inbox())
    led.far.send(b"x")
    led.lease.sleep(None)
    assert led.lease.read() == [b"x"]
    led.lease.leave(other)


def test_between_threads_one_thread_has_it_at_a_time() -> None:
    with queue_pair() as (near, far):
        lease, one, other = ParkedPoller().read_lease(near), Inbox(), Inbox()
        assert lease.take(one)
        assert not lease.take(other)
        far.send(b"x")
        lease.sleep(None)
        assert lease.read() == [b"x"]
        lease.leave(one)
        lease.leave(one)
        assert lease.take(other)
        lease.leave(one)  # by the thread that was interrupted as it left
        assert not lease.take(one)
        lease.leave(other)
        assert lease.take(one)
        lease.leave(one)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_between_threads_a_send_that_fails_gives_the_lease_back(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the thread that owns the link would never read it again."""
    with queue_pair() as (near, far):
        lease, one, other = ParkedPoller().read_lease(near), Inbox(), Inbox()

        def fail(*_: object, **__: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(type(near), "send", fail)
            with pytest.raises(error):
                lease.take(one, b"question")

        assert not one.arrived.asleep
        assert lease.take(other, b"question")
        assert far.receive(timeout=0) == b"question"
        lease.leave(other)


@clause("BUS-CHAN-7")
def test_of_a_long_message_it_is_known_how_much_of_it_is_to_come(led: Led) -> None:
    # More than sixteen reads can take, however much each finds in the socket.
    message, lacks, received = bytes(2**26), list[int](), list[bytes]()
    assert led.lease.take(led.inbox)
    assert led.lease.missing_bytes == 0
    led.far.send(message)
    while not received:
        led.lease.sleep(None)
        received = led.lease.read()
        lacks.append(led.lease.missing_bytes)
    led.lease.leave(led.inbox)

    assert received == [message]
    assert lacks == sorted(lacks, reverse=True)
    assert len(lacks) > 1
    assert lacks[-1] == 0


# The lease of an event loop, which watches a poller.


class Lent(Led):
    """A link that an event loop reads; its poller."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.poller = _net.Poller()

    def lend(self) -> WatchedLease:
        lent = self.lease.lend(self.poller)
        assert lent is not None
        return lent

    @property
    def is_readable(self) -> bool:
        """True if the loop would be woken."""
        return bool(self.poller.poll(0))

    def owner_reads(self) -> None:
        """Run the owner until it has a message to receive."""
        until(lambda: self._polled() and self.pending > 0, "the owner reads")

    def _polled(self) -> bool:
        self.sockets.driver.poll(0.01)
        return True

    def closes(self) -> None:
        """Run the owner until it has closed the socket."""
        driver, before = self.sockets.driver, self.sockets.driver.sockets
        until(lambda: self._polled() and driver.sockets < before, "it has closed it")


@contextmanager
def new_lent() -> Iterator[Lent]:
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        lent = Lent(folder)
        yield lent
        lent.sockets.close()
        lent.poller.close()


@pytest.fixture
def lent() -> Iterator[Lent]:
    with new_lent() as lent:
        yield lent


@needs_epoll
@clause("QB-SOCK-8")
def test_a_loop_keeps_the_lease_from_one_message_to_the_next(lent: Lent) -> None:
    lease = lent.lend()
    assert lent.lease.lend(lent.poller) is None
    assert not lent.lease.take(lent.inbox)

    for message in numbered(3):
        lent.far.send(message)
        until(lambda: lent.is_readable, "the loop is woken")
        lent.sockets.driver.poll(0)
        assert lent.pending == 0
        assert lease.read() == [message]
        assert lease.held

    assert lease.read() == []
    lease.leave()


@needs_epoll
@clause("QB-SOCK-8")
def test_the_owner_takes_the_lease_back_from_a_loop_that_does_not_read(
    lent: Lent,
) -> None:
    lease = lent.lend()
    lent.far.send(b"x")

    lent.owner_reads()

    assert not lease.held
    assert lease.read() == []
    assert not lent.is_readable
    assert lent.sockets.link_pool.queue(1).receive(timeout=0) == b"x"
    again = lent.lend()
    lease.leave()  # an old one takes no new one away
    assert again.held


@needs_epoll
@clause("QB-SOCK-8")
def test_the_owner_takes_no_lease_from_a_loop_that_reads(
    lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock.installed(monkeypatch)
    lease = lent.lend()
    for _ in range(5):
        clock.now += 0.9 * LENT_S
        lease.read()
        lent.sockets.driver.poll(0)
        assert lease.held

    clock.now += 1.1 * LENT_S
    lent.sockets.driver.poll(0)

    assert not lease.held


@needs_epoll
@clause("QB-SOCK-8")
@pytest.mark.parametrize("end", ["hang_up", "abort"])
def test_a_link_that_ends_is_in_no_poller_of_a_loop(lent: Lent, end: str) -> None:
    lease = lent.lend()
    # As a child of a fork, which may keep the file open: then the close of the
    # descriptor does not remove it from the poller.
    kept = os.dup(lease.descriptor)

    getattr(lent.sockets.link_pool, end)(1)
    lent.closes()

    with suppress(DisconnectedError):
        lent.far.send(b"x")
    _net.wait_to_read(kept, LIMIT_S)
    assert not lent.is_readable
    os.close(kept)


@needs_epoll
@clause("QB-SOCK-8")
def test_a_loop_learns_that_the_peer_has_left(lent: Lent) -> None:
    lease = lent.lend()
    lent.far.disconnect()
    until(lambda: lent.is_readable, "the loop is woken")

    assert lease.read() == []

    assert lease.ended


@needs_epoll
@clause("QB-ERR-9")
@pytest.mark.parametrize("step", ["lend", "read", "leave"])
def test_an_interrupted_loop_keeps_the_lease_from_no_thread(step: str) -> None:
    """At every point: a thread may take it once it was left, or the link has ended."""

    def case(interrupted: Blow) -> None:
        with new_lent() as lent:
            if step == "lend":
                leases = list[WatchedLease]()
                interrupted(lambda: leases.append(lent.lend()))
            else:
                leases = [lent.lend()]
            if step == "read":
                lent.far.send(b"x")
                interrupted(leases[0].read)
            elif step == "leave":
                interrupted(leases[0].leave)
            for each in leases:
                each.leave()
            queue = lent.sockets.link_pool.queue(1)
            assert lent.lease.take(lent.inbox) or queue.remote_disconnected
            lent.far.send(b"y")
            assert not lent.is_readable
            lent.lease.leave(lent.inbox)
            lent.far.disconnect()

    everywhere(case)


@clause("QB-SOCK-8")
def test_between_threads_a_loop_gets_no_lease() -> None:
    with queue_pair() as (near, _), closing(_net.Poller()) as poller:
        assert ParkedPoller().read_lease(near).lend(poller) is None

"""Many short messages in quick succession: they share writes, and lose no promise.

`gathers` makes each short message one of many, from the first on. `keep` also takes
away the driver, so that only the end itself writes the gathered messages.
"""

from __future__ import annotations

import asyncio
import dis
import math
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker import (
    DisconnectedQueueError,
    SendTimeoutError,
    _sync,
    aio,
    receive_any,
)
from queuebroker.sockets import (
    Driver,
    SocketMessageQueue,
    SocketOptions,
    SocketQueueBroker,
    link_writer,
    quick_sends,
)
from specs.clauses import clause
from tests.kit.clock import Clock
from tests.kit.systems import needs_fork, needs_unix_sockets
from tests.sockets.support import PORT, Exhausted, ends, folder, numbered, take
from tests.strikes import CALLS, JUMPS_IF, LOOKS, everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.strikes import Blow

Ends = tuple[SocketMessageQueue, SocketMessageQueue]

SHARED = link_writer._GATHERED_MAX
LONG = bytes(link_writer.GATHERED_BYTES_MAX + 1)


@pytest.fixture
def gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    monkeypatch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)


@pytest.fixture
def pair(gathers: None) -> Iterator[Ends]:
    with ends(host={"capacity": 4 * SHARED}) as made:
        yield made


def keep(end: SocketMessageQueue) -> SocketMessageQueue:
    """Keep the driver from writing what this end gathers; return the end."""
    link = end._socket_connection.link
    link._quick_sends._due = link._flush_soon
    return end


def gathered(end: SocketMessageQueue) -> int:
    """Return how many messages of an end are not written yet."""
    return len(end._socket_connection.link.protocol.gathered)


class Writes:
    """A socket that counts its writes."""

    def __init__(self, end: SocketMessageQueue) -> None:
        link = end._socket_connection.link
        self._socket, self.count = link.socket, 0
        link.socket = self  # type: ignore[assignment]  # a stand-in

    def send(self, data: bytes, flags: int) -> int:
        self.count += 1
        return self._socket.send(data, flags)

    def __getattr__(self, name: str) -> object:
        return getattr(self._socket, name)


@clause("QB-SOCK-8")
def test_many_messages_in_quick_succession_share_a_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first ones are written at once, since few messages are no stream."""
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    alone = quick_sends._IN_A_ROW_MIN
    with ends(host={"capacity": 4 * SHARED}) as (far, near):
        writes = Writes(keep(near))

        for message in numbered(alone):
            near.send(message)
        assert (writes.count, gathered(near)) == (alone, 0)
        for message in numbered(SHARED, alone):
            near.send(message)
        assert (writes.count, gathered(near)) == (alone, SHARED)
        near.send(b"%d" % (alone + SHARED))
        assert (writes.count, gathered(near)) == (alone + 1, 1)

        assert near.ping(LIMIT_S)
        assert take(far, alone + SHARED + 1) == numbered(alone + SHARED + 1)


@clause("QB-SOCK-8")
def test_messages_that_come_slowly_are_written_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick_sends, "_QUICK_S", -1.0)
    with ends(host={"capacity": 4 * SHARED}) as (far, near):
        writes = Writes(near)
        for message in numbered(100):
            near.send(message)
        assert writes.count == 100
        assert take(far, 100) == numbered(100)


@clause("QB-SOCK-8")
def test_a_pause_ends_the_sharing_of_writes(
    pair: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message after a pause is written at once, and later ones are gathered."""
    _far, near = pair
    writes = Writes(keep(near))
    for message in numbered(3 * SHARED):
        near.send(message)
    near._socket_connection.link.recover_locked()  # writes the rest
    before = writes.count
    monkeypatch.setattr(quick_sends, "_QUICK_S", -1.0)
    near.send(b"after a pause")
    assert (writes.count, gathered(near)) == (before + 1, 0)
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    near.send(b"soon after")
    assert (writes.count, gathered(near)) == (before + 1, 1)


@clause("QB-SOCK-8")
def test_an_answer_is_written_at_once(pair: Ends) -> None:
    """Also if the messages there and back follow each other quickly."""
    far, near = pair
    keep(near)
    for _ in range(20):
        far.send(b"question")
        assert near.receive(timeout=LIMIT_S) == b"question"
        near.send(b"answer")
        assert gathered(near) == 0
        assert far.receive(timeout=LIMIT_S) == b"answer"


@clause("QB-SOCK-8")
def test_an_answer_in_two_messages_is_written_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few messages between two of the peer are no stream."""
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    with ends() as (far, near):
        for _ in range(20):
            far.send(b"question")
            assert near.receive(timeout=LIMIT_S) == b"question"
            for part in (b"head", b"body"):
                keep(near).send(part)
                assert gathered(near) == 0
                assert far.receive(timeout=LIMIT_S) == part


@clause("QB-SOCK-8")
def test_the_driver_writes_the_messages_of_a_sender_that_stops(pair: Ends) -> None:
    far, near = pair
    for count in (1, 5, SHARED + 1):
        for message in numbered(count):
            near.send(message)
        assert take(far, count) == numbered(count)


@clause("QB-SOCK-8")
def test_the_driver_leaves_the_writes_to_a_sender_that_goes_on(
    pair: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again a little later, and writes the rest when the sender stops."""
    _far, near = pair
    link = near._socket_connection.link
    calls: list[tuple[Callable[[], object], float]] = []

    def call(flush: Callable[[], object], delay_s: float = 0.0) -> None:
        calls.append((flush, delay_s))

    monkeypatch.setattr(type(link), "_flush_soon", lambda _, *call_: call(*call_))
    for message in numbered(1 + SHARED):
        near.send(message)
    [(review, delay_s)] = calls
    assert not delay_s
    review()
    assert gathered(near) == 1
    [_, (review, delay_s)] = calls
    assert delay_s
    review()
    assert (gathered(near), len(calls)) == (0, 2)
    near.send(b"later")
    assert len(calls) == 3


ACTS: dict[str, Callable[[SocketMessageQueue], object]] = {
    "ping": lambda end: end.ping(0),
    "a long message": lambda end: end.send(LONG),
    "several messages": lambda end: end.send_many([b"x", b"y"]),
    "a message of another type": lambda end: end.send(bytearray(b"x")),
    "a part of a message": lambda end: end.send(b"xyz", 1, 1),
    "disconnect": lambda end: end.disconnect(),
    "abnormal disconnect": lambda end: end.disconnect(ValueError("why")),
}


@clause("QB-SOCK-8", "QB-SOCK-4")
@pytest.mark.parametrize("act", ACTS)
def test_nothing_overtakes_the_gathered_messages(pair: Ends, act: str) -> None:
    far, near = pair
    keep(near)
    for message in numbered(5):
        near.send(message)
    ACTS[act](near)
    near.disconnect()
    assert take(far, 5) == numbered(5)


@clause("QB-SOCK-8")
def test_a_wait_writes_the_gathered_messages_first(pair: Ends) -> None:
    far, near = pair
    with Threads() as threads:
        answering = threads.start(lambda: far.send(far.receive(timeout=LIMIT_S)))
        keep(near).send(b"question")
        assert near.receive(timeout=LIMIT_S) == b"question"
        answering.result()


@clause("QB-SOCK-8", "QB-SOCK-3")
def test_a_wait_for_room_writes_the_gathered_messages_first(gathers: None) -> None:
    with ends(host={"capacity": 4}) as (far, near), Threads() as threads:
        keep(near)

        def send() -> None:
            for message in numbered(20):
                near.send(message, timeout=LIMIT_S)
            near.disconnect()

        sending = threads.start(send)
        assert take(far, 20) == numbered(20)
        sending.result()


@clause("QB-SOCK-8")
@pytest.mark.parametrize("waits_for", ["an answer", "room"])
def test_a_wait_beside_another_thread_writes_the_gathered_messages_first(
    gathers: None, waits_for: str
) -> None:
    """The other thread reads the socket."""
    with ends(host={"capacity": 2}) as (far, near), Threads() as threads:
        read_owner = near._socket_connection.link.read_owner
        reading = threads.start(near.receive, timeout=LIMIT_S)
        until(lambda: read_owner.leased, "it does not wait")
        keep(near)
        near.send(b"0")
        near.send(b"1")

        def wait() -> None:
            if waits_for == "room":
                near.send(b"2", timeout=LIMIT_S)
            else:
                near.receive(timeout=LIMIT_S)

        waiting = threads.start(wait)
        assert take(far, 2) == numbered(2)
        far.send_many([b"answer", b"answer"])
        waiting.result()
        assert reading.result() == b"answer"


@clause("QB-SOCK-8")
def test_a_wait_at_several_queues_writes_the_gathered_messages_first(
    pair: Ends,
) -> None:
    far, near = pair
    with Threads() as threads:
        answering = threads.start(lambda: far.send(far.receive(timeout=LIMIT_S)))
        keep(near).send(b"question")
        assert receive_any([near], timeout=LIMIT_S) == (near, b"question")
        answering.result()


@clause("QB-SOCK-8")
def test_a_coroutine_that_waits_writes_the_gathered_messages_first(pair: Ends) -> None:
    far, near = pair

    async def ask() -> bytes:
        queue = aio.wrap(near)
        await queue.send(b"question")
        return await queue.receive(timeout=LIMIT_S)

    with Threads() as threads:
        answering = threads.start(lambda: far.send(far.receive(timeout=LIMIT_S)))
        keep(near)
        assert asyncio.run(ask()) == b"question"
        answering.result()


@clause("QB-SOCK-8")
def test_a_message_that_arrives_ends_the_group(pair: Ends) -> None:
    """The next message may be its answer."""
    far, near = pair
    keep(near)
    near.send(b"0")
    near.send(b"1")
    far.send(b"question")
    assert near.receive(timeout=LIMIT_S) == b"question"
    near.send(b"answer")
    assert gathered(near) == 0
    assert take(far, 3) == [b"0", b"1", b"answer"]


@clause("QB-SOCK-8")
def test_a_caller_may_spin_after_gathered_messages(pair: Ends) -> None:
    _far, near = pair
    read_owner = near._socket_connection.link.read_owner
    keep(near)
    near.send(b"0")
    read_owner.sent_since_sleep = False
    near._socket_connection.critical(near._socket_connection.flush_locked)
    assert read_owner.sent_since_sleep


@clause("QB-SOCK-9")
@pytest.mark.parametrize("at_once", [False, True])
def test_a_peer_that_is_not_answered_may_send_many_messages(
    gathers: None, *, at_once: bool
) -> None:
    """Its limit is that of one message, not of those that share a write or a frame."""
    options = SocketOptions(unanswered_bytes_max=100)
    with ends(host={"options": options, "capacity": 400}) as (far, near):
        messages = [b"%100d" % number for number in range(400)]
        if at_once:
            near.send_many(messages)
        else:
            for message in messages:
                near.send(message)
        assert take(far, 400) == messages


@clause("QB-CONC-10")
@pytest.mark.parametrize("act", ["send", "send_many", "send_nowait"])
def test_a_signal_handler_within_a_send_uses_no_place_twice(
    gathers: None, act: str
) -> None:
    """Wherever it sends: the send that it interrupts has checked for room before."""

    def case(struck: Blow) -> None:
        with ends(host={"capacity": 4}) as (far, near):
            keep(near)
            sent = numbered(2 if act == "send_many" else 3)
            for message in sent:
                near.send(message)

            def handle() -> None:
                with suppress(RuntimeError, SendTimeoutError):
                    near.send(b"handler", timeout=0)
                    sent.append(b"handler")

            def send() -> None:
                with suppress(SendTimeoutError):
                    if act == "send_many":
                        near.send_many([LONG, LONG], timeout=0)
                    elif act == "send_nowait":
                        near.send_nowait(LONG)
                    else:
                        near.send(LONG, timeout=0)

            struck(send, handle)
            assert near.ping(LIMIT_S)
            received = far.receive_many(timeout=0)
            assert [each for each in received if each != LONG] == sent
            assert len(received) <= 4
            assert not near.remote_disconnected

    everywhere(case)


@clause("QB-CONC-1")
def test_no_other_thread_runs_while_a_send_gathers_its_message() -> None:
    """The interpreter changes threads only where it looks for signals."""
    steps = list(dis.get_instructions(SocketMessageQueue.send.__code__))
    [end] = [
        at
        for at, each in enumerate(steps)
        if (each.opname, each.argval) == ("STORE_ATTR", "sent")
    ]
    begin = max(
        at
        for at in range(end)
        if (steps[at].opname, steps[at].argval) == ("LOAD_ATTR", "sent")
    )
    between = {each.opname for each in steps[begin:end]}
    assert {each.argval for each in steps[begin:end]} >= {"gather_until", "gathered"}
    assert not between & (LOOKS | CALLS | JUMPS_IF)


@clause("QB-CONC-1", "QB-FIFO-1")
def test_threads_that_send_quickly_share_one_end(pair: Ends) -> None:
    far, near = pair
    near.send(b"begins")
    with Threads() as threads:

        def send(name: int) -> None:
            for number in range(2000):
                near.send(b"%d %d" % (name, number))

        sending = [threads.start(send, name) for name in range(4)]
        received = take(far, 1 + 4 * 2000)[1:]
        for each in sending:
            each.result()
    for name in range(4):
        own = [each for each in received if each.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, number) for number in range(2000)]


@clause("QB-ERR-10")
def test_a_send_without_memory_gathers_nothing(pair: Ends) -> None:
    far, near = pair
    protocol = keep(near)._socket_connection.link.protocol
    near.send(b"0")
    for _ in range(2):
        protocol.sent = Exhausted(protocol.sent)
        with pytest.raises(MemoryError):
            near.send(b"no memory")
        protocol.sent = int(protocol.sent)
        near.send(b"1")
    assert near.ping(LIMIT_S)
    assert take(far, 3) == [b"0", b"1", b"1"]


@clause("QB-SOCK-3")
def test_the_capacity_bounds_the_gathered_messages(gathers: None) -> None:
    with ends(host={"capacity": 6}) as (far, near):
        keep(near)
        for message in numbered(6):
            near.send(message, timeout=0)
        with pytest.raises(SendTimeoutError):
            near.send(b"one too many", timeout=0)
        assert near.ping(LIMIT_S)
        assert take(far, 6) == numbered(6)


@clause("QB-TIME-1")
@pytest.mark.parametrize("timeout", [-1, math.nan, "soon"])
def test_a_wrong_timeout_is_an_error_in_every_state(
    pair: Ends, timeout: object
) -> None:
    far, near = pair
    keep(near)
    near.send(b"0")
    near.send(b"1")
    with pytest.raises((TypeError, ValueError)):
        near.send(b"2", timeout=timeout)  # type: ignore[arg-type]
    assert near.ping(LIMIT_S)
    assert far.receive(timeout=LIMIT_S) == b"0"
    with pytest.raises((TypeError, ValueError)):
        far.receive(timeout=timeout)  # type: ignore[arg-type]
    assert far.receive(timeout=LIMIT_S) == b"1"


@clause("QB-SOCK-8")
def test_an_owner_of_a_driver_gets_each_message_written_at_once(gathers: None) -> None:
    """Nobody knows when the owner calls `Driver.poll` again."""
    driver, over = Driver(), threading.Event()

    def own() -> None:
        while not over.is_set():
            driver.poll(0.01)

    with Threads() as threads:
        owning = threads.start(own)
        with ends(guest={"driver": driver}) as (_, near):
            for message in numbered(3):
                near.send(message)
                assert gathered(near) == 0
        over.set()
        owning.result()
    driver.close()


@clause("QB-SOCK-9")
@needs_unix_sockets
def test_descriptors_stay_with_their_message(gathers: None) -> None:
    options = {"options": SocketOptions(descriptors_max=1)}
    with ends(host=options, guest=options) as (far, near):
        keep(near)
        near.send(b"before")
        near.send(b"described", fds=[0])
        near.send(b"after")
        assert near.ping(LIMIT_S)
        assert far.receive(timeout=LIMIT_S) == b"before"
        message, fds = far.receive_fds(timeout=LIMIT_S)
        for fd in fds:
            os.close(fd)
        assert (message, len(fds)) == (b"described", 1)
        assert far.receive(timeout=LIMIT_S) == b"after"


EXITS = """
import multiprocessing, sys, threading
from queuebroker.sockets import SocketQueueBroker
kept = []
def send():
    queue = SocketQueueBroker("child").connect(sys.argv[1], 7, required=True)
    if sys.argv[2] != "a local queue":
        kept.append(queue)
    if sys.argv[2] == "a daemon thread":
        threading.Thread(target=queue.receive, daemon=True).start()
    for number in range(300):
        queue.send(b"%d" % number)
if sys.argv[2] == "a forked process":
    child = multiprocessing.get_context("fork").Process(target=send)
    child.start()
    child.join()
else:
    send()
"""


@clause("QB-SOCK-8")
@pytest.mark.parametrize(
    "keeps",
    ["a local queue", "a global queue", "a daemon thread", "a forked process"],
)
@needs_unix_sockets
def test_a_program_that_ends_has_written_what_it_has_sent(keeps: str) -> None:
    with (
        folder() as place,
        SocketQueueBroker("host", listen=f"ipc://{place}/host", capacity=1000) as host,
        Threads() as threads,
    ):
        accepting = threads.start(host.accept, PORT)
        assert host.address is not None
        command = [sys.executable, "-c", EXITS, host.address, keeps]
        subprocess.run(command, check=True)
        with accepting.result() as queue:
            assert isinstance(queue, SocketMessageQueue)
            assert take(queue, 300) == numbered(300)


@clause("QB-SOCK-8")
def test_an_end_waits_for_a_driver_that_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of its turns comes long after its calls are due."""
    clock = Clock.installed(monkeypatch)
    driver, written = Driver(), list[bool]()
    sender = quick_sends.QuickSends(threading.RLock())

    def flush_soon(flush: Callable[[], object], delay_s: float = 0.0) -> None:
        driver.at(clock.now + delay_s, flush)

    def turn() -> None:
        clock.now += 10 * quick_sends.GATHERED_S
        driver.poll(0)

    def begin_group() -> None:
        sender.begin_group(flush_soon, lambda: written.append(True))

    def park(_: object, ready: Callable[[], bool], _until: float) -> None:
        while not ready():
            turn()

    monkeypatch.setattr(_sync, "park", park)
    for groups in (1, 2, 3):  # the driver looks after the second one, if there is one
        written.clear()
        for group in range(groups):
            if group == 2:
                turn()
            begin_group()

        driver.await_writes()

        assert written == [True]
    driver.close()


@clause("QB-SOCK-4")
@needs_fork
def test_a_child_of_a_fork_gathers_nothing(pair: Ends) -> None:
    """Its messages would never leave; the parent's connection is not affected."""
    far, near = pair
    keep(near)
    near.send(b"0")
    near.send(b"1")
    child = os.fork()
    if not child:
        try:
            near.send(b"of the child")
        except DisconnectedQueueError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    near.send(b"2")
    assert near.ping(LIMIT_S)
    assert take(far, 3) == numbered(3)


STEPS = st.lists(
    st.sampled_from(["send", "long", "several", "receive", "bulk", "driver", "back"]),
    max_size=60,
)


@clause("QB-FIFO-1", "QB-SOCK-3")
@settings(deadline=None)
@given(steps=STEPS, capacity=st.integers(1, 12))
def test_any_mixture_keeps_the_order(steps: list[str], capacity: int) -> None:
    """Each message arrives once, and in order; the counters of both sides agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_sends, "_QUICK_S", math.inf)
        patch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)
        with ends(host={"capacity": capacity}) as (far, near):
            keep(near)
            sent: list[bytes] = []
            received: list[bytes] = []
            link = near._socket_connection.link
            for step in steps:
                if step in {"send", "long"}:
                    message = b"%d" % len(sent) + LONG * (step == "long")
                    try:
                        near.send(message, timeout=0)
                    except SendTimeoutError:
                        assert len(sent) - len(received) >= capacity / 2
                    else:
                        sent.append(message)
                elif step == "several":
                    some = numbered(3, len(sent))
                    with suppress(SendTimeoutError):
                        sent += some[: near.send_many(some, timeout=0)]
                elif step == "driver":
                    link._flush()
                elif step == "back":
                    far.send(b"back", timeout=0)
                    assert near.receive(timeout=LIMIT_S) == b"back"
                elif len(received) < len(sent):
                    assert near.ping(LIMIT_S)
                    if step == "bulk":
                        received += far.receive_many(2, timeout=0)
                    else:
                        received.append(far.receive(timeout=0))
                    assert far.ping(LIMIT_S)
                assert near.stats().sent == len(sent)
            assert near.ping(LIMIT_S)
            received += take(far, len(sent) - len(received))
            assert received == sent

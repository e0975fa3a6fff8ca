"""The descriptor of an end, in a loop of `selectors`."""

from __future__ import annotations

import os
import selectors
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, MessageQueue, _platform
from queuebroker.waiting.readiness import Readiness
from specs.clauses import clause
from tests.meetings import queues
from tests.pairs import look_away, queue_pair
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator


def readable(*ends: MessageQueue) -> list[MessageQueue]:
    """Return the ends that a selector reports as readable."""
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ, end)
        found = [key.data for key, _ in selector.select(0)]
    return [end for end in ends if end in found]


@pytest.mark.parametrize("steps", [[True], [True, True], [True, False, False, True]])
def test_readable_is_level_triggered(steps: list[bool]) -> None:
    """A repeated signal counts once; a query does not change it."""
    readiness = Readiness()

    for step in steps:
        readiness.set_locked(readable=step)
        for _ in range(2):
            with selectors.DefaultSelector() as selector:
                selector.register(readiness.fd, selectors.EVENT_READ)
                assert bool(selector.select(0)) is step


def test_the_descriptor_is_closed_with_its_object() -> None:
    """No other call closes it, and no child process inherits it."""
    readiness = Readiness()
    descriptor = readiness.fd
    assert not os.get_inheritable(descriptor)

    del readiness

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_where_no_descriptor_is_left_one_error_tells_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end stays usable, and the call can be repeated."""

    def none_left(*_: int) -> int:
        raise OSError(24, "Too many open files")

    with queues() as (left, right):
        with monkeypatch.context() as patched:
            patched.setattr(os, "eventfd", none_left, raising=False)
            patched.setattr(os, "pipe", none_left)
            patched.setattr(_platform, "open_pair", none_left)
            with pytest.raises(OSError, match="Too many"):
                left.fileno()

        right.send(b"x")
        assert readable(left) == [left]
        assert left.receive_nowait() == b"x"


def test_each_end_has_one_descriptor_for_life() -> None:
    """The two ends have different ones; each is kept while its end drains."""
    with queues() as (left, right):
        mine, other = left.fileno(), right.fileno()
        right.send(b"x")
        right.disconnect()
        left.receive()

        assert mine != other
        assert left.fileno() == mine


def test_a_handler_within_an_observed_call_is_refused_a_descriptor() -> None:
    with queue_pair(observer=look_away) as (left, _):
        with (
            left._connection.lock,
            pytest.raises(RuntimeError, match="cannot make a descriptor: this signal"),
        ):
            left.fileno()

        assert left._connection.readiness == [None, None]


def test_a_new_descriptor_shows_earlier_messages_and_disconnects() -> None:
    """The descriptor has the right state from the start."""
    with queues() as (left, right):
        right.send(b"x")
        assert readable(left, right) == [left]
    with queues() as (left, right):
        left.disconnect()
        assert readable(left, right) == [left, right]


def test_it_follows_every_operation() -> None:
    """Single and bulk calls, of either direction."""
    with queues(capacity=4) as (left, right):
        assert readable(left, right) == []
        right.send_many([b"1", b"2", b"3"])
        assert readable(left, right) == [left]
        assert left.receive() == b"1"
        assert readable(left, right) == [left]
        assert left.receive_many() == [b"2", b"3"]
        assert readable(left, right) == []
        left.send(b"4")
        assert readable(left, right) == [right]
        assert right.receive_into(bytearray(1)) == 1
        assert readable(left, right) == []


@clause("QB-BOOK-5")
def test_a_loop_over_many_ends_receives_every_message_and_disconnect() -> None:
    """A loop that waits for readability alone receives everything, then stops."""
    with Threads() as threads, _many(8) as pairs:
        for number, (_, right) in enumerate(pairs):
            threads.start(_talk, right, number)
        received = _loop([left for left, _ in pairs])

    for number, (left, _) in enumerate(pairs):
        assert received[left] == [b"%d %d" % (number, turn) for turn in range(20)]


@contextmanager
def _many(count: int) -> Iterator[list[tuple[MessageQueue, MessageQueue]]]:
    with ExitStack() as stack:
        yield [stack.enter_context(queues(capacity=3)) for _ in range(count)]


def _talk(end: MessageQueue, number: int) -> None:
    for turn in range(20):
        end.send(b"%d %d" % (number, turn))
    end.disconnect()


def _loop(ends: list[MessageQueue]) -> dict[MessageQueue, list[bytes]]:
    """Receive, waiting only in select, until all ends are disconnected."""
    received: dict[MessageQueue, list[bytes]] = {end: [] for end in ends}
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ, end)
        while selector.get_map():
            events = selector.select(LIMIT_S)
            assert events, "a goodbye that makes nothing readable"
            for key, _ in events:
                end = key.data
                try:
                    received[end].append(end.receive_nowait())
                except DisconnectedQueueError:
                    selector.unregister(end)
    return received

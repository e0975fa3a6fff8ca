"""QB-BOOK-5: logging, the descriptor for event loops, receiving into a buffer."""

from __future__ import annotations

import array
import os
import selectors
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker import (
    DisconnectedQueueError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.depth import among
from tests.pairs import queue_pair
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from queuebroker import MessageQueue

NOISY = """
import logging, sys
from queuebroker import *

if sys.argv[1:]:
    logging.basicConfig(format="%(name)s %(levelname)s %(message)s")

def observer(*args):
    raise LookupError("no room")

manager = BrokerManager(observer=observer)
Broker("b", manager=manager)
"""


def run_noisy(*args: str) -> str:
    """Run a program whose observer raises; return its standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NOISY, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


@pytest.mark.deep
@clause("QB-BOOK-5")
def test_the_library_is_silent_unless_logging_is_set_up() -> None:
    """Messages go to the logger `queuebroker`; they appear only if it is set up."""
    assert run_noisy() == ""

    reported = run_noisy("set it up")
    assert reported.startswith(
        "queuebroker ERROR observer raised and is switched off: "
    )
    assert "LookupError: no room" in reported
    assert reported.count("queuebroker ERROR") == 1


# Of an event.
FDS = 1 if hasattr(os, "eventfd") else 2


def is_readable(end: MessageQueue) -> bool:
    """Return whether a selector reports the end as readable."""
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        return bool(selector.select(0))


@clause("QB-BOOK-5")
def test_the_descriptor_is_made_on_first_use() -> None:
    """Each end that asks gets one; other ends get none; the end closes it."""
    before = len(os.listdir("/proc/self/fd"))
    with queue_pair() as (left, right):
        left.send(b"x")
        right.receive()
        assert len(os.listdir("/proc/self/fd")) == before

        descriptor = left.fileno()

        assert left.fileno() == descriptor
        assert len(os.listdir("/proc/self/fd")) == before + FDS
        assert not os.get_inheritable(descriptor)
    del left, right
    assert len(os.listdir("/proc/self/fd")) == before


# Operations on one end; the state decides whether each has an effect.
ACTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(
            ["send", "send_many", "receive", "receive_many", "look", "disconnect"]
        ),
    ),
    max_size=12,
)


@clause("QB-BOOK-5")
@settings(max_examples=among(37, 150))
@given(ACTS)
def test_readable_is_exactly_when_a_receive_would_not_wait(
    acts: list[tuple[int, str]],
) -> None:
    """Readable means after every step: a message or an unreported disconnect."""
    with queue_pair(2) as ends:
        looked = [False, False]
        for side, act in acts:
            _perform(ends[side], act)
            looked[side] = looked[side] or act == "look"
            for number, end in enumerate(ends):
                if looked[number]:
                    assert is_readable(end) is (end.pending > 0 or end.closed)
        for end in ends:
            assert is_readable(end) is (end.pending > 0 or end.closed)


def _perform(end: MessageQueue, act: str) -> None:
    """Perform one operation; ignore that it cannot succeed now."""
    acts: dict[str, Any] = {
        "send": lambda: end.send_nowait(b"x"),
        "send_many": lambda: end.send_many([b"x", b"y", b"z"], timeout=0),
        "receive": end.receive_nowait,
        "receive_many": lambda: end.receive_many(timeout=0),
        "look": end.fileno,
        "disconnect": end.disconnect,
    }
    try:
        acts[act]()
    except (SendTimeoutError, ReceiveTimeoutError, DisconnectedQueueError):
        return


@clause("QB-BOOK-5")
@pytest.mark.parametrize("side", ["local", "remote"])
def test_a_disconnect_wakes_a_sleeping_event_loop(side: str) -> None:
    """A disconnect wakes a sleeping event loop, which would otherwise never wake."""
    with queue_pair() as (left, right), selectors.DefaultSelector() as selector:
        selector.register(left, selectors.EVENT_READ)
        with Threads() as threads:
            sleeper = threads.start(selector.select, LIMIT_S)

            (left if side == "local" else right).disconnect()

            assert len(sleeper.result()) == 1
        with pytest.raises(DisconnectedQueueError):
            left.receive_nowait()
        assert is_readable(left), "a later look gets it, too"


@clause("QB-BOOK-5")
@pytest.mark.parametrize("size", [3, 4, 100])
def test_receive_into_fills_the_beginning_of_a_buffer(size: int) -> None:
    """The message length is returned; the rest of the buffer stays unchanged."""
    with queue_pair() as (left, right):
        right.send(b"abc")
        buffer = bytearray(b"-" * size)

        assert left.receive_into(buffer) == 3

        assert buffer == b"abc" + b"-" * (size - 3)
        assert left.stats().received == 1


@clause("QB-BOOK-5")
@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_message_fits_into_any_buffer(size: int) -> None:
    """An empty buffer also receives an empty message, and it is counted."""
    with queue_pair() as (left, right):
        right.send(b"")

        assert left.receive_into(bytearray(size)) == 0

        assert left.stats().received == 1
        assert left.pending == 0


@clause("QB-BOOK-5")
def test_receive_into_takes_any_writable_run_of_bytes() -> None:
    """The buffer may have items of four bytes or be a slice of a larger buffer."""
    with queue_pair(2) as (left, right):
        right.send_many([b"abcd", b"ef"])
        numbers = array.array("I", [0, 7])
        whole = bytearray(6)

        assert left.receive_into(numbers) == 4
        assert left.receive_into(memoryview(whole)[2:]) == 2

        assert numbers.tobytes()[:4] == b"abcd"
        assert numbers[1] == 7
        assert whole == b"\0\0ef\0\0"


@clause("QB-BOOK-5")
@pytest.mark.parametrize(
    ("buffer", "error"),
    [
        (bytearray(2), ValueError),
        (bytearray(0), ValueError),
        (bytes(9), TypeError),
        ("text", TypeError),
        (None, TypeError),
        (memoryview(bytearray(18))[::2], TypeError),
    ],
)
def test_a_buffer_that_will_not_do_leaves_the_message_where_it_is(
    buffer: Any, error: type[Exception]
) -> None:
    """It is too small, read-only, or no buffer; the next receive gets the message."""
    with queue_pair() as (left, right):
        right.send(b"abc")

        with pytest.raises(error):
            left.receive_into(buffer)

        assert (left.pending, left.stats().received) == (1, 0)
        assert left.receive() == b"abc"


@clause("QB-BOOK-5")
def test_receive_into_raises_the_errors_of_receive() -> None:
    """It raises on a timeout, and on a disconnect once nothing is left."""
    with queue_pair() as (left, right):
        with pytest.raises(ReceiveTimeoutError):
            left.receive_into(bytearray(9), timeout=0)
        right.send(b"last")
        right.disconnect()

        assert left.receive_into(bytearray(9)) == 4
        with pytest.raises(DisconnectedQueueError):
            left.receive_into(bytearray(9))


@clause("QB-BOOK-5")
def test_a_receive_into_a_small_buffer_wakes_the_next_waiter() -> None:
    """If the woken waiter's buffer is too small, the second waiter is woken."""
    with queue_pair() as (left, right), Threads() as threads:
        small = threads.start(left.receive_into, bytearray(1))
        waiting = left._connection.flows[left._side].buffer.arrived
        _until_parked(waiting, 1)
        large = threads.start(left.receive_into, bytearray(9))
        _until_parked(waiting, 2)

        right.send(b"abc")

        assert isinstance(small.error(), ValueError)
        assert large.result() == 3


def _until_parked(waiting: Any, count: int) -> None:
    until(lambda: len(waiting) == count, "nobody waits")

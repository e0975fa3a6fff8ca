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
    """Run a program whose observer raises; return what it wrote on standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NOISY, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


@clause("QB-BOOK-5")
def test_the_library_is_silent_unless_logging_is_set_up() -> None:
    """What it has to say it says under `queuebroker`, to whoever asked."""
    assert run_noisy() == ""

    told = run_noisy("set it up")
    assert told.startswith("queuebroker ERROR observer raised and is switched off: ")
    assert "LookupError: no room" in told
    assert told.count("queuebroker ERROR") == 1


def is_readable(end: MessageQueue) -> bool:
    """Whether a selector calls the end readable now."""
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        return bool(selector.select(0))


@clause("QB-BOOK-5")
def test_the_descriptor_is_an_eventfd_made_on_first_use() -> None:
    """One for each end that asks, none for one that does not, closed in the end."""
    before = len(os.listdir("/proc/self/fd"))
    with queue_pair() as (left, right):
        left.send(b"x")
        right.receive()
        assert len(os.listdir("/proc/self/fd")) == before

        descriptor = left.fileno()

        assert os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:[eventfd]"
        assert left.fileno() == descriptor
        assert len(os.listdir("/proc/self/fd")) == before + 1
        assert not os.get_inheritable(descriptor)
    del left, right
    assert len(os.listdir("/proc/self/fd")) == before


# The acts of one end; whether each does something depends on the state.
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
@settings(max_examples=150)
@given(ACTS)
def test_readable_is_exactly_when_a_receive_would_not_wait(
    acts: list[tuple[int, str]],
) -> None:
    """After every step: a message is there, or the disconnect is to be told."""
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
    """Do one act; that it cannot be done now is no failure."""
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
def test_a_loop_that_sleeps_is_told_of_the_disconnect(side: str) -> None:
    """Nothing will ever come: a loop that were not told would sleep for ever."""
    with queue_pair() as (left, right), selectors.DefaultSelector() as selector:
        selector.register(left, selectors.EVENT_READ)
        with Threads() as threads:
            sleeper = threads.start(selector.select, LIMIT_S)

            (left if side == "local" else right).disconnect()

            assert len(sleeper.result()) == 1
        with pytest.raises(DisconnectedQueueError):
            left.receive_nowait()
        assert is_readable(left), "it is told to whoever looks later, too"


@clause("QB-BOOK-5")
@pytest.mark.parametrize("size", [3, 4, 100])
def test_receive_into_fills_the_beginning_of_a_buffer(size: int) -> None:
    """It returns the length of the message; the rest of the buffer stays as it was."""
    with queue_pair() as (left, right):
        right.send(b"abc")
        buffer = bytearray(b"-" * size)

        assert left.receive_into(buffer) == 3

        assert buffer == b"abc" + b"-" * (size - 3)
        assert left.stats().received == 1


@clause("QB-BOOK-5")
@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_message_fits_into_any_buffer(size: int) -> None:
    """Also into an empty one: it is received, and counts."""
    with queue_pair() as (left, right):
        right.send(b"")

        assert left.receive_into(bytearray(size)) == 0

        assert left.stats().received == 1
        assert left.pending == 0


@clause("QB-BOOK-5")
def test_receive_into_takes_any_writable_run_of_bytes() -> None:
    """Items of four bytes, part of a larger buffer."""
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
    """Too small, read-only, or no buffer; the next receive has the message."""
    with queue_pair() as (left, right):
        right.send(b"abc")

        with pytest.raises(error):
            left.receive_into(buffer)

        assert (left.pending, left.stats().received) == (1, 0)
        assert left.receive() == b"abc"


@clause("QB-BOOK-5")
def test_receive_into_raises_what_receive_raises() -> None:
    """A timeout, and a disconnect once nothing is left."""
    with queue_pair() as (left, right):
        with pytest.raises(ReceiveTimeoutError):
            left.receive_into(bytearray(9), timeout=0)
        right.send(b"last")
        right.disconnect()

        assert left.receive_into(bytearray(9)) == 4
        with pytest.raises(DisconnectedQueueError):
            left.receive_into(bytearray(9))


@clause("QB-BOOK-5")
def test_a_receive_into_that_cannot_take_it_leaves_it_to_who_can() -> None:
    """Two wait, the one that is woken first has too small a buffer."""
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

"""QB-BOOK-1 and 5 with QB-ERR-9: counters and descriptors are right after an interrupt.

The interrupt comes at every point at which the interpreter can deliver one.
"""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pairs import channel_pair, queue_pair
from tests.strikes import Blow, everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue, Stats


def balances(sender: Stats, receiver: Stats) -> bool:
    """Return whether the counters of one direction balance."""
    return sender.sent == receiver.received + sender.dropped + receiver.pending


def _hang_up(end: MessageQueue | Channel) -> bool:
    end.disconnect()
    return True


INTERRUPTED: dict[str, Callable[[MessageQueue, MessageQueue], object]] = {
    "send": lambda left, right: left.send(b"x"),
    "send_many": lambda left, right: left.send_many([b"x", b"y"]),
    "receive": lambda left, right: left.receive(),
    "receive_into": lambda left, right: left.receive_into(bytearray(4)),
    "receive_many": lambda left, right: left.receive_many(),
    "disconnect": lambda left, right: left.disconnect(),
    "send_many while half": lambda left, right: (
        _hang_up(right) and left.send_many([b"x", b"y"])
    ),
}


@pytest.mark.deep
@clause("QB-BOOK-1", "QB-ERR-9")
@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_does_not_upset_the_counters(name: str) -> None:
    """At every point of a call, both directions balance afterwards."""

    def case(interrupted: Blow) -> None:
        with queue_pair(4) as (left, right):
            right.send_many([b"1", b"2"])

            interrupted(lambda: INTERRUPTED[name](left, right))

            mine, theirs = left.stats(), right.stats()
            assert balances(mine, theirs)
            assert balances(theirs, mine)

    everywhere(case)


CHANNEL_CALLS: dict[str, Callable[[Channel], object]] = {
    "write": lambda left: left.write(b"abc"),
    "read": lambda left: left.read(bytearray(3)),
    "disconnect": _hang_up,
}


@clause("QB-BOOK-1", "QB-ERR-9")
@pytest.mark.parametrize("name", CHANNEL_CALLS)
def test_an_interrupt_does_not_upset_the_counters_of_a_channel(name: str) -> None:
    """At every point of a call, both directions balance afterwards."""

    def case(interrupted: Blow) -> None:
        with channel_pair(4) as (left, right):
            right.write(b"12")

            interrupted(lambda: CHANNEL_CALLS[name](left))

            mine, theirs = left.stats(), right.stats()
            assert balances(mine, theirs)
            assert balances(theirs, mine)

    everywhere(case)


@pytest.mark.deep
@clause("QB-BOOK-5", "QB-ERR-9")
@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_leaves_no_event_loop_asleep(name: str) -> None:
    """At every point of a call, both descriptors match the outcome of a receive."""

    def case(interrupted: Blow) -> None:
        with queue_pair(4) as (left, right), selectors.DefaultSelector() as selector:
            for end in (left, right):
                selector.register(end, selectors.EVENT_READ, end)
            right.send_many([b"1", b"2"])

            interrupted(lambda: INTERRUPTED[name](left, right))

            reported = {key.data for key, _ in selector.select(0)}
            assert reported == {
                end for end in (left, right) if end.closed or end.pending
            }
            for end in (left, right):
                end.disconnect()
            assert len(selector.select(0)) == 2

    everywhere(case)

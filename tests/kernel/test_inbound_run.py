"""Commands that arrived together are extracted once each, in their order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.kernel.streams.receipts import Receipt, Receipts
from bus.kernel.tasks.runs import InboundRun
from bus.model.message import Incoming, Kind
from specs.clauses import clause

PAYLOADS = [str(number).encode() for number in range(12)]
FIRST = 41
TO: Any = "f"
SOURCE: Any = "d"
RECEIPT = Receipt(None, 7, 3, Receipts())


def whole() -> InboundRun:
    run = InboundRun(TO, SOURCE, PAYLOADS, RECEIPT, FIRST, 9.5)
    run._account = "account"
    return run


@clause("BUS-MSG-15", "AMO-8")
@given(counts=st.lists(st.integers(0, 5), max_size=6))
def test_however_it_is_taken_apart_each_comes_once_and_in_order(
    counts: list[int],
) -> None:
    """Some as separate runs, which are not accounted for yet, and the rest."""
    run, out = whole(), list[Incoming]()
    for wanted in counts:
        left, count = len(run), min(wanted, len(run))
        some, rest = run.split(count)
        assert len(run) == left
        run.payloads, run.lengths, run._unread, run.number = rest
        assert (len(some), len(run)) == (count, left - count)
        assert (some.at, some.reported, run.at) == (0, 0, 0)
        assert some._account is None
        out += some.rest()
        assert not some
        assert [len(run.lengths), len(some.lengths)] == [len(run), 0]
    out += run.rest()

    assert not run
    assert [each.payload for each in out] == PAYLOADS
    assert [each._number for each in out] == [*range(FIRST, FIRST + len(PAYLOADS))]
    for each in out:
        assert each.kind is Kind.COMMAND
        assert (each._to, each._source, each._receipt) == (TO, SOURCE, RECEIPT)
        assert (each._deadline, each._size) == (9.5, len(each.payload))
        assert not each.wants_reply


@clause("BUS-RELAY-9")
def test_the_rest_of_a_run_does_not_count_as_read() -> None:
    """Otherwise its sender would take it for extracted."""
    run = whole()
    read = [next(run.read("reference")) for _ in range(3)]

    rest = run.rest()

    assert [each.payload for each in read] == PAYLOADS[:3]
    assert (run.at, len(run)) == (3, 0)
    assert [each.payload for each in rest] == PAYLOADS[3:]
    assert [each._number for each in rest] == [*range(FIRST + 3, FIRST + len(PAYLOADS))]
    assert {each._account for each in rest} == {"account"}
    assert run.rest() == []


@clause("BUS-MSG-3", "AMO-28")
@pytest.mark.parametrize("subscriptions", [(), ("first", "second")])
def test_a_message_that_is_read_has_what_a_callback_may_ask_for(
    subscriptions: tuple[str, ...],
) -> None:
    """A command is accounted for by its run; a notification knows its account."""
    run = InboundRun(TO, SOURCE, PAYLOADS, None, FIRST, 9.5, subscriptions)
    run._account = "account"

    message = next(run.read("reference"))

    assert message.kind is (Kind.NOTIFICATION if subscriptions else Kind.COMMAND)
    assert (message.payload, message.reference) == (PAYLOADS[0], "reference")
    assert (message._source, message._to) == (SOURCE, TO)
    assert (message.subscriptions, message.gap) == (subscriptions, 0)
    assert message._account == ("account" if subscriptions else None)
    assert (message._id, message._number, message._size) == (0, 0, 0)
    assert not message.wants_reply

"""Bulk calls are split into single ones that keep their order."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs.models.bulk import InOrder, singles
from specs.models.histories import queue_model
from tests.specs.models.recorded import Call, explained, one_by_one
from tests.specs.models.simulated import QueueWorld, simulate

ENDS = st.sampled_from([0, 1])
TURNS = st.lists(st.integers(0, 5), min_size=20, max_size=60)

HUNG_UP = ConnectionError("disconnected")
TIMED_OUT = TimeoutError("timed out")


def accepted(capacity: int, history: list[Call]) -> bool:
    return explained(InOrder(queue_model(capacity)), singles(history))


@st.composite
def programs(draw: st.DrawFn) -> list[list[Call]]:
    """Draw up to three callers with up to two operations each; all messages differ."""
    left = iter(range(100))
    calls = st.one_of(
        st.builds(
            lambda end, count, gives_up: Call(
                "send_many",
                (end, [b"%d" % next(left) for _ in range(count)]),
                gives_up=gives_up,
            ),
            ENDS,
            st.integers(0, 3),
            st.booleans(),
        ),
        st.builds(
            lambda end, limit, gives_up: Call(
                "receive_many", (end, limit), gives_up=gives_up
            ),
            ENDS,
            st.none() | st.integers(1, 3),
            st.booleans(),
        ),
        st.builds(lambda end: Call("send", (end, b"%d" % next(left))), ENDS),
        st.builds(lambda end: Call("disconnect", (end,)), ENDS),
    )
    return draw(st.lists(st.lists(calls, max_size=2), min_size=1, max_size=3))


@given(programs(), TURNS, st.integers(1, 2))
def test_the_checker_accepts_every_history_of_the_model(
    callers: list[list[Call]], turns: list[int], capacity: int
) -> None:
    history = simulate(QueueWorld(capacity), callers, turns)

    assert accepted(capacity, history)


GOODBYE = Call("disconnect", (1,))


def sent_many(count: int, *messages: bytes) -> Call:
    return Call("send_many", (0, messages), result=count)


def got_many(limit: int | None, *messages: bytes) -> Call:
    return Call("receive_many", (1, limit), result=list(messages))


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ((sent_many(2, b"a", b"b"), got_many(None, b"a", b"b")), True),
        ((sent_many(2, b"a", b"b"), got_many(1, b"a")), True),
        ((sent_many(2, b"a", b"b"), got_many(None, b"b", b"a")), False),
        # Less than the limit although there were more.
        ((sent_many(2, b"a", b"b"), got_many(None, b"a")), False),
        ((sent_many(0),), True),
        # Room for two, so a third cannot have been accepted nor a second rejected.
        ((sent_many(2, b"a", b"b", b"c"),), True),
        ((sent_many(3, b"a", b"b", b"c"),), False),
        ((sent_many(1, b"a", b"b"),), False),
        ((sent_many(0, b"a"),), False),
        ((Call("receive_many", (1, None), error=TIMED_OUT),), True),
        ((got_many(None),), False),
        ((sent_many(1, b"a"), Call("receive_many", (1, 2), error=TIMED_OUT)), False),
        ((got_many(1, b"a"),), False),
        ((sent_many(2, b"a", b"b"), got_many(1, b"a", b"b")), False),
        ((sent_many(2, b"a", b"b"), sent_many(0, b"c")), False),
        ((sent_many(2, b"a"),), False),
        ((GOODBYE, Call("send_many", (0, [b"a"]), error=HUNG_UP)), True),
        ((GOODBYE, sent_many(0)), True),
    ],
)  # fmt: skip
def test_one_caller_after_another(calls: tuple[Call, ...], right: bool) -> None:
    assert accepted(2, one_by_one(*calls)) == right


def test_others_may_come_in_between() -> None:
    many = Call("send_many", (0, [b"a", b"b"]), result=2, began=0, ended=3)
    single = Call("send", (0, b"x"), began=1, ended=2)
    received = attrs.evolve(got_many(None, b"a", b"x", b"b"), began=4, ended=5)

    assert accepted(3, [many, single, received])


def test_a_pending_bulk_call_may_have_done_any_part_in_order() -> None:
    pending = Call("send_many", (0, [b"a", b"b", b"c"]), began=0)

    def then(*messages: bytes) -> list[Call]:
        return [pending, attrs.evolve(got_many(3, *messages), began=1, ended=2)]

    assert accepted(3, then(b"a", b"b"))
    assert not accepted(3, then(b"b"))


def test_a_pending_receive_may_have_taken_the_missing_message() -> None:
    pending = Call("receive_many", (1, None), began=4)
    later = Call("receive", (1,), result=b"b", began=5, ended=6)

    history = [*one_by_one(sent_many(2, b"a", b"b")), pending, later]

    assert accepted(2, history)

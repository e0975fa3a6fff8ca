"""A checker with the model of a connection accepts right histories, and only those."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker.testing import NotLinearizableError, check_linearizable
from specs.models.histories import channel_model, queue_model
from tests.specs.models.recorded import Call, explained, one_by_one
from tests.specs.models.simulated import QueueWorld, simulate

ENDS = st.sampled_from([0, 1])
TURNS = st.lists(st.integers(0, 5), min_size=20, max_size=80)

HUNG_UP = ConnectionError("disconnected")
TIMED_OUT = TimeoutError("timed out")


@st.composite
def programs(draw: st.DrawFn) -> list[list[Call]]:
    """Draw up to three callers with up to three operations; all messages differ."""
    left = iter(range(100))
    calls = st.one_of(
        st.builds(
            lambda end, gives_up: Call(
                "send", (end, b"%d" % next(left)), gives_up=gives_up
            ),
            ENDS,
            st.booleans(),
        ),
        st.builds(
            lambda end, gives_up: Call("receive", (end,), gives_up=gives_up),
            ENDS,
            st.booleans(),
        ),
        st.builds(
            lambda name, end: Call(name, (end,)),
            st.sampled_from(["disconnect", "disconnected"]),
            ENDS,
        ),
    )
    return draw(st.lists(st.lists(calls, max_size=3), min_size=1, max_size=3))


@given(programs(), TURNS, st.integers(1, 2))
def test_the_checker_explains_every_history_of_the_model(
    callers: list[list[Call]], turns: list[int], capacity: int
) -> None:
    history = simulate(QueueWorld(capacity), callers, turns)

    assert explained(queue_model(capacity), history)


@given(programs(), TURNS, st.integers(1, 2), st.data())
def test_the_checker_does_not_explain_a_result_that_no_caller_sent(
    callers: list[list[Call]], turns: list[int], capacity: int, data: st.DataObject
) -> None:
    history = simulate(QueueWorld(capacity), callers, turns)
    received = [
        place
        for place, call in enumerate(history)
        if call.name == "receive" and not call.pending and call.error is None
    ]
    if received:
        place = data.draw(st.sampled_from(received))
        history[place] = attrs.evolve(history[place], result=b"foreign")

        assert not explained(queue_model(capacity), history)


@given(programs(), TURNS, st.integers(1, 2), st.data())
def test_without_any_disconnect_none_can_be_seen(
    callers: list[list[Call]], turns: list[int], capacity: int, data: st.DataObject
) -> None:
    talking = [
        [call for call in caller if call.name != "disconnect"] for caller in callers
    ]
    history = simulate(QueueWorld(capacity), talking, turns)
    ended = [place for place, call in enumerate(history) if not call.pending]
    if ended:
        place = data.draw(st.sampled_from(ended))
        wrong = attrs.evolve(history[place], result=None, error=HUNG_UP)
        history[place] = wrong

        assert not explained(queue_model(capacity), history)


@given(programs(), TURNS, st.integers(1, 2), st.data())
def test_the_shipped_checker_agrees(
    callers: list[list[Call]], turns: list[int], capacity: int, data: st.DataObject
) -> None:
    # With two outcomes exchanged, and checked by a model of perhaps another capacity,
    # about one history in three is wrong.
    history = simulate(QueueWorld(capacity), callers, turns)
    if len(history) > 1:
        one, other = data.draw(st.permutations(range(len(history))))[:2]
        first, second = history[one], history[other]
        history[one] = attrs.evolve(first, result=second.result, error=second.error)
        history[other] = attrs.evolve(second, result=first.result, error=first.error)
    judge = data.draw(st.integers(1, 2))

    try:
        check_linearizable(cast("Any", history), cast("Any", queue_model(judge)))
        agreed = True
    except NotLinearizableError:
        agreed = False

    assert agreed == explained(queue_model(judge), history)


def sent(message: bytes, end: int = 0) -> Call:
    return Call("send", (end, message))


def got(message: bytes, end: int = 1) -> Call:
    return Call("receive", (end,), result=message)


HALF = (sent(b"unread", 1), Call("disconnect", (1,)))
"""After these, end 0 is half-disconnected."""


@pytest.mark.parametrize(
    "calls",
    [
        (sent(b"a"), sent(b"b"), got(b"a"), got(b"b")),
        (sent(b""), got(b"")),
        (sent(b"a"), sent(b"b"), Call("send", (0, b"c"), error=TIMED_OUT)),
        (Call("send_nowait", (0, b"a")), Call("receive_nowait", (1,), result=b"a")),
        (Call("receive", (1,), error=TIMED_OUT), sent(b"a"), got(b"a")),
        (*HALF, sent(b"dropped"), Call("receive", (0,), result=b"unread")),
        (*HALF, Call("disconnected", (0,), result=False)),
        (*HALF, got(b"unread", 0), Call("closed", (0,), result=True)),
        (*HALF, Call("remote_disconnected", (0,), result=True)),
        (*HALF, Call("pending", (0,), result=1)),
        (Call("send", (0, b"a"), error=ValueError()), sent(b"b"), got(b"b")),
        (Call("send", (0, b"a"), error=KeyboardInterrupt()), sent(b"b"), got(b"b")),
        (Call("send", (0, b"a"), error=KeyboardInterrupt()), got(b"a")),
    ],
)
def test_the_checker_explains_a_possible_history(calls: tuple[Call, ...]) -> None:
    assert explained(queue_model(2), one_by_one(*calls))


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((sent(b"a"), sent(b"b"), got(b"b")), id="overtaken"),
        pytest.param((sent(b"a"), got(b"a"), got(b"a")), id="twice"),
        pytest.param((sent(b"a"), got(b"a", 0)), id="own end"),
        pytest.param((sent(b"a"), got(None)), id="nothing"),  # type: ignore[arg-type] # wrong on purpose
        pytest.param((sent(b"a"), sent(b"b"), sent(b"c")), id="over capacity"),
        pytest.param((Call("send", (0, b"a"), error=TIMED_OUT),), id="false full"),
        pytest.param(
            (sent(b"a"), Call("receive", (1,), error=TIMED_OUT)), id="false empty"
        ),
        pytest.param((*HALF, Call("receive", (0,), error=HUNG_UP)), id="undrained"),
        pytest.param((*HALF, Call("disconnected", (0,), result=True)), id="too early"),
        pytest.param(
            (*HALF, got(b"unread", 0), Call("disconnected", (0,), result=False)),
            id="too late",
        ),
        pytest.param((*HALF, got(b"unread", 0), sent(b"a")), id="sent when over"),
        pytest.param(
            (Call("disconnect", (1,)), Call("send", (0, b"a"))), id="dropped when over"
        ),
        pytest.param(
            (sent(b"a"), Call("disconnect", (1,)), got(b"a")), id="after own goodbye"
        ),
        pytest.param(
            (*HALF, Call("send", (0, b"a"), error=TIMED_OUT)), id="timeout in half"
        ),
    ],
)
def test_the_checker_does_not_explain_an_impossible_history(
    calls: tuple[Call, ...],
) -> None:
    assert not explained(queue_model(2), one_by_one(*calls))


DROPPED = Call("send", (0, b"late"))
RAISED = Call("send", (0, b"late"), error=HUNG_UP)


@pytest.mark.parametrize("outcome", [DROPPED, RAISED])
def test_a_send_that_overlaps_the_goodbye_may_end_either_way(outcome: Call) -> None:
    # Called before the peer's disconnect, returned after it, with a full buffer.
    start = one_by_one(sent(b"fills"), sent(b"unread", 1))
    overlapping = attrs.evolve(outcome, began=10, ended=13)
    goodbye = Call("disconnect", (1,), began=11, ended=12)

    assert explained(queue_model(1), [*start, overlapping, goodbye])


def test_a_send_called_after_the_goodbye_is_dropped() -> None:
    start = [sent(b"fills"), *HALF]

    assert explained(queue_model(1), one_by_one(*start, DROPPED))
    assert not explained(queue_model(1), one_by_one(*start, RAISED))


def test_the_first_goodbye_that_returned_counts() -> None:
    # Of two disconnects one takes its time; the other returned before the send.
    slow = Call("disconnect", (1,), began=10, ended=20)
    quick = Call("disconnect", (1,), began=11, ended=12)
    late = attrs.evolve(RAISED, began=13, ended=14)
    start = one_by_one(sent(b"fills"), sent(b"unread", 1))

    assert not explained(queue_model(1), [*start, slow, quick, late])


def test_a_pending_disconnect_may_have_happened_or_not() -> None:
    pending = Call("disconnect", (1,), began=0)
    seen = Call("disconnected", (0,), result=True, began=1, ended=2)
    unseen = attrs.evolve(seen, result=False)

    assert explained(queue_model(1), [pending, seen])
    assert explained(queue_model(1), [pending, unseen])


def test_strict_half_is_explained_by_the_strict_model_only() -> None:
    history = one_by_one(*HALF, RAISED)

    assert explained(queue_model(2, strict_half=True), history)
    assert not explained(queue_model(2), history)


def test_another_exception_may_stand_for_a_disconnect() -> None:
    history = one_by_one(
        Call("disconnect", (1,)), Call("receive", (0,), error=EOFError())
    )

    assert explained(queue_model(1, disconnected_error=EOFError), history)
    # Without that, the model takes it for an interrupt, which explains it too.
    after = one_by_one(Call("receive", (0,), error=EOFError()))
    assert not explained(queue_model(1, disconnected_error=EOFError), after)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="no operation of the model: 'shout'"):
        explained(queue_model(1), one_by_one(Call("shout", (0,))))


def wrote(data: bytes, count: int) -> Call:
    return Call("write", (0, data), result=count)


def read(length: int, data: bytes) -> Call:
    return Call("read", (1, length), result=data)


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ((wrote(b"abc", 2), read(9, b"a")), True),
        ((wrote(b"abc", 0),), False),
        ((wrote(b"abc", 3),), False),
        ((wrote(b"", 0),), True),
        ((read(0, b""),), True),
        ((wrote(b"ab", 2), read(1, b"ab")), False),
        ((wrote(b"ab", 2), read(2, b"b")), False),
        ((wrote(b"a", 1), read(2, b"")), False),
        ((Call("read", (1, 2), error=TIMED_OUT),), True),
        ((Call("disconnect", (1,)), Call("write", (0, b"a"), error=HUNG_UP)), True),
    ],
)
def test_partial_writes_and_reads_are_explained(
    calls: tuple[Call, ...], right: bool
) -> None:
    assert explained(channel_model(2), one_by_one(*calls)) == right

"""`IncomingStream`, compared with `specs.models.stream`, which stores every number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bus.errors import WireError
from bus.kernel.streams.incoming_stream import NUMBERS, IncomingStream
from specs.clauses import clause
from specs.models.stream import Stream
from tests.depth import among

WINDOW = 6
RANGES = 3


class IncomingStreamMachine(RuleBasedStateMachine):
    """Runs arrive in any order and repeatedly, from a sender that may be faulty."""

    @initialize(first=st.integers(1, 4), ordered=st.booleans())
    def open(self, first: int, ordered: bool) -> None:
        self.stream: IncomingStream[int] = IncomingStream(
            first, window=WINDOW, ranges_max=RANGES, ordered=ordered
        )
        self.model = Stream(first, WINDOW, RANGES, ordered=ordered)
        self.handed: list[int] = []
        self.highest_floor = 0

    @rule(
        ahead=st.integers(-20, 20),
        count=st.integers(0, 5),
        lag=st.integers(-2, 10),
    )
    def a_run_comes(self, ahead: int, count: int, lag: int) -> None:
        first = max(1, self.model.next + ahead)
        floor = max(0, self.model.next - lag)
        messages = range(first, first + count)

        handed = self.stream.accept(first, messages, floor)

        assert handed == self.model.accept(first, count, floor)
        self.handed += handed

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        stream, model = self.stream, self.model
        assert stream.next == model.next
        assert stream.acknowledgement.missing == tuple(model.gaps())
        assert stream.accepted == len(model.accepted)
        assert stream.given_up == len(model.given_up)
        assert stream.held == len(model.waiting)

    @invariant()
    def nothing_twice_and_in_order(self) -> None:
        if not hasattr(self, "model"):
            return
        assert len(set(self.handed)) == len(self.handed)
        if self.model.ordered:
            assert self.handed == sorted(self.handed)


@clause("AMO-3", "AMO-4", "AMO-5", "AMO-9", "AMO-10", "AMO-12", "AMO-14")
def test_the_stream_accepts_the_same_messages_as_the_model() -> None:
    run_state_machine_as_test(IncomingStreamMachine)


def _state(stream: IncomingStream[int]) -> tuple[object, ...]:
    return (
        *(stream.next, stream.acknowledgement, stream.accepted, stream.given_up),
        *(stream.held, stream.refused),
    )


@clause("AMO-3", "AMO-5", "AMO-9", "AMO-10", "AMO-14", "AMO-15")
@settings(max_examples=among(30, 300))
@given(
    first=st.sampled_from([1, 3, NUMBERS - 9]),
    ordered=st.booleans(),
    strict=st.booleans(),
    runs=st.lists(
        st.tuples(st.integers(-4, 4), st.integers(0, 2 * WINDOW + 1), st.integers()),
        max_size=12,
    ),
)
def test_a_run_that_follows_is_accepted_at_once_as_it_would_be_one_by_one(
    first: int,
    runs: list[tuple[int, int, int]],
    *,
    ordered: bool,
    strict: bool,
) -> None:
    """After any history; a run that does not follow leaves the stream unchanged."""
    quick, slow = (
        IncomingStream[int](
            first, window=WINDOW, ranges_max=RANGES, ordered=ordered, strict=strict
        )
        for _ in range(2)
    )
    for ahead, count, lag in runs:
        # Mostly the next number, and mostly a correct floor.
        start = max(1, slow.next + (ahead if ahead % 3 else 0))
        floor = start - lag % 9 + 2
        messages = range(start, start + count)
        try:
            handed = slow.accept(start, messages, floor)
        except WireError:
            before = _state(quick)
            assert not quick.accept_next(start, count, floor)
            assert _state(quick) == before
            continue
        before = _state(quick)
        if quick.accept_next(start, count, floor):
            assert handed == [*messages]
        else:
            assert _state(quick) == before
            assert quick.accept(start, messages, floor) == handed
        assert _state(quick) == _state(slow)


@clause("AMO-14", "AMO-11")
@pytest.mark.parametrize("ordered", [False, True])
def test_only_every_second_number_comes(ordered: bool) -> None:
    """Nothing is accepted twice, gaps are bounded, abandoned numbers are counted."""
    window, ranges_max = 64, 16
    stream: IncomingStream[int] = IncomingStream(
        window=window, ranges_max=ranges_max, ordered=ordered
    )
    handed: list[int] = []

    for number in range(2, 20_000, 2):
        handed += stream.accept(number, [number], 1)
        handed += stream.accept(max(number - 30, 1), [max(number - 30, 1)], 1)
        assert len(stream.acknowledgement.missing) <= ranges_max
        assert stream.held <= 2 * window

    assert len(set(handed)) == len(handed)
    assert stream.given_up > 9_000
    assert stream.accepted == len(handed) + stream.held


@clause("AMO-14")
def test_a_strict_stream_refuses_a_jump_and_stays_as_it_is() -> None:
    """A jump of up to twice the window abandons nothing."""
    stream: IncomingStream[int] = IncomingStream(
        window=WINDOW, ranges_max=RANGES, strict=True
    )
    assert stream.accept(2 * WINDOW, [0], 1) == []

    with pytest.raises(WireError, match=r"^number 25 is too far above 13$"):
        stream.accept(25, [0], 2)

    assert (stream.next, stream.given_up) == (1 + 2 * WINDOW, 0)
    assert stream.accept(1, range(1, 2 * WINDOW), 1) == [*range(1, 2 * WINDOW), 0]


@clause("AMO-15")
def test_numbers_end_below_two_to_the_64th() -> None:
    """The last is accepted; a run beyond it is an error as a whole."""
    last = NUMBERS - 1
    stream: IncomingStream[str] = IncomingStream(
        last - 1, window=WINDOW, ranges_max=RANGES
    )

    with pytest.raises(WireError, match=f"^numbers {last} to {last + 1}, "):
        stream.accept(last, ["y", "z"], 1)
    assert stream.accept(last - 1, ["x", "y"], 1) == ["x", "y"]

    assert stream.next == NUMBERS
    for first, messages, floor in ((NUMBERS, ["z"], 1), (0, ["w"], 0), (9, [], 2**65)):
        with pytest.raises(WireError):
            stream.accept(first, messages, floor)


@clause("AMO-5", "AMO-10")
@pytest.mark.parametrize("strict", [False, True])
def test_messages_that_follow_without_a_gap_are_accepted_at_once(strict: bool) -> None:
    """If there is a gap below it, or the floor abandons a message, it is checked."""
    stream: IncomingStream[int] = IncomingStream(
        window=WINDOW, ranges_max=RANGES, strict=strict
    )
    assert stream.accept_next(1, 0, 1)
    assert stream.accept_next(1, 4, 1)
    assert stream.accept_next(5, 3, 5)
    assert not stream.accept_next(7, 3, 5)  # already accepted
    assert not stream.accept_next(9, 3, 5)
    assert not stream.accept_next(8, 3, 9)
    assert (stream.next, stream.accepted, stream.given_up) == (8, 7, 0)

    assert stream.accept(9, [9], 5) == []
    assert not stream.accept_next(10, 1, 5)
    assert stream.accept(8, [8], 5) == [8, 9]
    assert stream.accept_next(10, 1, 5)


@clause("AMO-3", "BUS-FLOW-7")
def test_each_message_that_comes_again_is_counted_as_refused() -> None:
    stream = IncomingStream[int](window=WINDOW, ranges_max=RANGES)
    assert stream.accept(1, [1, 2, 3], 1) == [1, 2, 3]

    assert stream.accept(2, [2, 3, 4], 1) == [4]

    assert (stream.refused, stream.accepted) == (2, 4)


@clause("AMO-15")
def test_the_last_number_is_accepted_as_the_next_one() -> None:
    stream = IncomingStream[int](NUMBERS - 1, window=WINDOW, ranges_max=RANGES)

    assert stream.accept_next(NUMBERS - 1, 1, 1)

    assert stream.next == NUMBERS

"""`LoopGuard` accepts each message once, by however many paths it arrives."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.pattern.inbound_messages import LoopGuard
from bus.pattern.message_run import MessageRun
from specs.clauses import clause

OWN = 7
WINDOW = 1 << 16
RANGES = 1024
ORIGINS = 4096


@given(st.lists(st.tuples(st.sampled_from([1, 2, OWN]), st.integers(1, 300))))
@clause("BP-16")
def test_the_guard_behaves_as_a_set(messages: list[tuple[int, int]]) -> None:
    guard = LoopGuard(OWN)
    seen: set[tuple[int, int]] = set()
    for message in messages:
        new = message not in seen and message[0] != OWN
        assert guard.accepts(*message) is new, message
        seen.add(message)


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, OWN]), st.integers(1, 40), st.integers(1, 5))
    )
)
@clause("BP-16")
def test_the_messages_of_a_run_are_accepted_as_single_ones_are(
    runs: list[tuple[int, int, int]],
) -> None:
    guard = LoopGuard(OWN)
    seen: set[tuple[int, int]] = set()
    for origin, first, count in runs:
        messages = [(origin, first + more) for more in range(count)]
        bodies = [b"%d" % number for _, number in messages]

        fresh = guard.without_duplicates(MessageRun(origin, first, bodies))

        accepted = [
            (run.origin, run.first + at, body)
            for run in fresh
            for at, body in enumerate(run.bodies)
        ]
        assert accepted == [
            (*message, b"%d" % message[1])
            for message in messages
            if message not in seen and origin != OWN
        ]
        seen |= {*messages}


@clause("BP-16")
def test_consecutive_messages_stay_together() -> None:
    guard = LoopGuard(OWN)
    guard.accepts(1, 1)
    run = MessageRun(1, 2, [b"2", b"3", b"4"])

    [fresh] = guard.without_duplicates(run)

    assert fresh is run
    assert guard.without_duplicates(run) == []
    assert guard.without_duplicates(MessageRun(1, 4, [b"4", b"5"])) == [
        MessageRun(1, 5, [b"5"])
    ]


@clause("BP-16")
@pytest.mark.parametrize("seed", range(5))
def test_of_messages_on_three_paths_each_is_accepted_once(seed: int) -> None:
    """One path is in order; the second lags behind it; the third also mixes them."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    first = [(index, number) for index, number in enumerate(range(1, 1001))]
    second = [(index + rng.randrange(900), number) for index, number in first]
    third = [(index + 500, number) for index, number in first]
    guard = LoopGuard(OWN)

    accepted = [
        number
        for _, number in sorted([*first, *second, *third])
        if guard.accepts(1, number)
    ]

    assert accepted == [number for _, number in first]


@clause("BP-16")
def test_a_node_never_accepts_its_own_messages() -> None:
    guard = LoopGuard(OWN)

    assert not any(guard.accepts(OWN, number) for number in (1, 2, 99, 1))
    assert guard.accepts(OWN + 1, 1)


@clause("BP-16")
@pytest.mark.parametrize("first", [2, 70_000, 1 << 63, (1 << 64) - 1])
def test_earlier_messages_of_an_origin_may_come_by_a_slower_path(first: int) -> None:
    guard = LoopGuard(OWN)
    lowest = max(1, first - WINDOW)

    assert guard.accepts(1, first)
    assert guard.accepts(1, lowest)
    assert guard.accepts(1, first - 1) is (first - 1 != lowest)
    assert not any(guard.accepts(1, each) for each in (first, lowest, first - 1))
    if lowest > 1:
        assert not guard.accepts(1, lowest - 1)


@clause("BP-16")
def test_a_message_that_falls_too_far_behind_is_not_accepted() -> None:
    """The guard forgets that it is missing; it never accepts a message twice."""
    guard = LoopGuard(OWN)
    assert guard.accepts(1, 1)
    assert guard.accepts(1, 2 * WINDOW + 10)

    assert not guard.accepts(1, 2)
    assert not guard.accepts(1, 1)
    assert guard.accepts(1, WINDOW + 10)


@clause("BP-16")
def test_the_gaps_that_are_remembered_are_bounded() -> None:
    guard = LoopGuard(OWN)
    numbers = range(1, 2 * (RANGES + 10), 2)
    assert all(guard.accepts(1, number) for number in numbers)

    late = [guard.accepts(1, number + 1) for number in numbers][:-1]

    forgotten = len(late) - RANGES
    assert forgotten > 0
    assert late == [False] * forgotten + [True] * RANGES


@clause("BP-16")
def test_the_origin_silent_for_longest_is_forgotten_first() -> None:
    guard = LoopGuard(OWN)
    origins = range(OWN + 1, OWN + 1 + ORIGINS)
    assert all(guard.accepts(origin, 1) for origin in origins)
    assert guard.accepts(origins[0], 2)
    run = MessageRun(origins[1], 2, [b"x", b"y"])  # the common case
    assert guard.without_duplicates(run) == [run]

    assert guard.accepts(1, 1)  # one more

    assert not guard.accepts(origins[0], 1)
    assert not guard.accepts(origins[1], 1)
    assert not guard.accepts(origins[3], 1)
    assert guard.accepts(origins[2], 1)


@clause("BP-16")
def test_the_most_active_origin_is_not_forgotten() -> None:
    guard = LoopGuard(7)
    for number in range(1, 5000):
        guard.without_duplicates(MessageRun(1, number, [b""]))
        guard.without_duplicates(MessageRun(1000 + number, 1, [b""]))
    assert not guard.accepts(1, 4000)

"""`RepeatFilter` drops messages whose bytes have arrived a short time before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.pattern.inbound_messages import RepeatFilter
from bus.pattern.message_run import MessageRun
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.clock import Clock

REMEMBERED = 1 << 16


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.installed(monkeypatch)


@clause("BP-16")
def test_a_repeat_within_the_time_is_found(clock: Clock) -> None:
    repeats = RepeatFilter(2.0).repeats
    assert not repeats(b"a")
    assert not repeats(b"b")

    clock.now += 1.5
    assert repeats(b"a")
    assert not repeats(b"c")
    assert not repeats(b"")
    assert repeats(b"")


@clause("BP-16")
def test_of_a_run_the_repeats_are_dropped(clock: Clock) -> None:
    found = RepeatFilter(2.0)
    assert not found.repeats(b"a")

    fresh = found.without_repeats(MessageRun(1, 5, [b"b", b"a", b"c", b"b"]))

    assert fresh == [MessageRun(1, 5, [b"b"]), MessageRun(1, 7, [b"c"])]
    assert found.without_repeats(MessageRun(1, 9, [b"a"])) == []


@clause("BP-16")
def test_a_repeat_after_the_time_is_accepted(clock: Clock) -> None:
    repeats = RepeatFilter(2.0).repeats
    assert not repeats(b"a")

    clock.now += 2.0
    assert not repeats(b"a")
    assert repeats(b"a")


@clause("BP-16")
def test_a_message_in_a_loop_stays_filtered(clock: Clock) -> None:
    """Each repeat counts anew: a loop that takes less than the time ends for good."""
    repeats = RepeatFilter(2.0).repeats
    assert not repeats(b"a")

    for _ in range(10):
        clock.now += 1.5
        assert repeats(b"a")


@clause("BP-16")
def test_without_a_time_nothing_is_filtered() -> None:
    found = RepeatFilter(0.0)
    run = MessageRun(1, 1, [b"a", b"a"])

    assert not any(found.repeats(b"a") for _ in range(3))
    assert found.without_repeats(run) == [run]


@clause("BP-16")
def test_the_messages_that_are_remembered_are_bounded(clock: Clock) -> None:
    repeats = RepeatFilter(1e9).repeats
    for number in range(REMEMBERED):
        assert not repeats(number.to_bytes(4))
    assert repeats((0).to_bytes(4))  # and is the newest now

    assert not repeats(b"one more")

    assert repeats((0).to_bytes(4))
    assert repeats((2).to_bytes(4))
    assert not repeats((1).to_bytes(4))


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"b"]), st.integers(0, 3))))
@clause("BP-16")
def test_the_filter_behaves_as_its_model(steps: list[tuple[bytes, int]]) -> None:
    """A body arrives so many seconds after the previous one; repeats last 2 s."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock.installed(patch)
        assert _sync.monotonic() == clock.now
        repeats = RepeatFilter(2.0).repeats
        arrived_at: dict[bytes, float] = {}
        for body, later_s in steps:
            clock.now += later_s
            expected = clock.now - arrived_at.get(body, float("-inf")) < 2.0
            assert repeats(body) is expected
            arrived_at[body] = clock.now

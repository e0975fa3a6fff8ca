"""`Schedule`: when a replay sends each message. No clock is read."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bus.journal.replay import Schedule

FIRST_NS = 1_700_000_000 * 10**9  # too many nanoseconds for a float
NOW = 50.0


@given(
    rate=st.sampled_from([0.25, 1.0, 4.0, 1000.0]),
    delays=st.lists(st.integers(0, 10**6), min_size=1, max_size=20),
)
def test_delays_of_the_sender_do_not_add_up(rate: float, delays: list[int]) -> None:
    """Each message is due at its recorded distance from the first one."""
    schedule = Schedule(rate, FIRST_NS, NOW)

    for number, delay_us in enumerate(delays):
        at_ns = FIRST_NS + number * 10**9
        due = NOW + number / rate
        assert math.isclose(due, NOW + schedule.wait_s(at_ns, NOW), abs_tol=1e-6)
        schedule.on_sent(at_ns, due + delay_us / 1e6)

    assert math.isclose(schedule.lag_s, max(delays) / 1e6, abs_tol=1e-6)


def test_a_message_recorded_before_its_predecessor_is_due_at_once() -> None:
    schedule = Schedule(1.0, FIRST_NS, NOW)

    assert schedule.wait_s(FIRST_NS - 10**9, NOW) == -1.0


def test_an_infinite_rate_is_never_late_and_cannot_be_changed() -> None:
    schedule = Schedule(math.inf, FIRST_NS, NOW)

    schedule.scale(0.5, NOW)
    schedule.on_sent(FIRST_NS, NOW + 9)

    assert schedule.wait_s(FIRST_NS + 10**18, NOW) == schedule.lag_s == 0.0


def test_a_pause_shifts_all_later_messages() -> None:
    schedule = Schedule(2.0, FIRST_NS, NOW)
    at_ns = FIRST_NS + 10 * 10**9  # due after 5 s

    schedule.pause(NOW + 1)
    assert schedule.wait_s(at_ns, NOW + 100) == math.inf
    schedule.resume(NOW + 101)

    assert schedule.wait_s(at_ns, NOW + 101) == 4.0
    assert schedule.lag_s == 0.0


def test_a_step_pauses_sends_one_message_and_resumes_at_its_time() -> None:
    schedule = Schedule(1.0, FIRST_NS, NOW)
    at_ns = FIRST_NS + 60 * 10**9

    schedule.step(NOW)
    assert schedule.wait_s(at_ns, NOW) == 0.0
    schedule.on_sent(at_ns, NOW)

    assert schedule.wait_s(at_ns, NOW) == math.inf
    schedule.resume(NOW + 5)
    assert schedule.wait_s(at_ns + 10**9, NOW + 5) == 1.0
    assert schedule.lag_s == 0.0


@given(st.lists(st.sampled_from([0.5, 2.0]), max_size=30))
def test_a_change_of_the_rate_keeps_the_time_reached(factors: list[float]) -> None:
    schedule = Schedule(1.0, FIRST_NS, NOW)

    for factor in factors:
        schedule.scale(factor, NOW + 3)

    assert schedule.wait_s(FIRST_NS + 3 * 10**9, NOW + 3) == 0.0
    ahead_s = schedule.wait_s(FIRST_NS + 4 * 10**9, NOW + 3)
    assert math.isclose(ahead_s, 1 / schedule.rate)
    assert schedule.rate >= 2**-10


def test_a_restart_begins_at_the_first_message() -> None:
    schedule = Schedule(1.0, FIRST_NS, NOW)
    schedule.on_sent(FIRST_NS + 10**9, NOW + 1)

    schedule.restart(FIRST_NS, NOW + 1)

    assert schedule.wait_s(FIRST_NS, NOW + 1) == 0.0

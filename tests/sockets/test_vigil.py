"""A `Sleeper` that stays awake where what it waits for comes soon."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

from queuebroker import _net, _sync
from queuebroker.vigil import AWAKE_S
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.define
class Made:
    """A poller and a clock that are made up: each look takes a hundredth of a vigil.

    comes_after: how many looks it takes until something is there; None for never.
    nap_s: how long it takes until something wakes who sleeps.
    """

    comes_after: int | None = None
    nap_s: float = 0.0
    now: float = 0.0
    looks: int = 0
    naps: list[float | None] = attrs.field(factory=list)

    def poll(self, timeout_ms: float | None = None) -> list[Any]:
        if timeout_ms == 0:
            self.looks += 1
            self.now += AWAKE_S / 100
            there = self.comes_after is not None and self.looks > self.comes_after
            return [there] * there
        self.naps.append(timeout_ms)
        rest_s = self.nap_s if timeout_ms is None else timeout_ms / 1000
        self.now += min(self.nap_s, rest_s)
        return [True] * (self.nap_s <= rest_s)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    monkeypatch.setattr(select, "poll", lambda: cast("Any", made))
    monkeypatch.setattr(Made, "register", lambda *_: None, raising=False)
    monkeypatch.setattr(_sync, "monotonic", lambda: made.now)
    return made


@pytest.fixture
def sleeper(made: Made) -> Iterator[_net.Sleeper]:
    sleeper = _net.Sleeper()
    yield sleeper
    sleeper.close()


@clause("QB-SOCK-8", "QB-TIME-2")
def test_what_came_soon_is_awaited_awake_the_next_time(
    made: Made, sleeper: _net.Sleeper
) -> None:
    sleeper.sleep(None)
    made.comes_after = 5

    sleeper.sleep(None)

    assert (len(made.naps), made.looks) == (1, 6)


@clause("QB-SOCK-8", "QB-TIME-2")
def test_a_vigil_in_vain_is_short_and_ends_in_sleep(
    made: Made, sleeper: _net.Sleeper
) -> None:
    sleeper.sleep(None)

    sleeper.sleep(None)

    assert len(made.naps) == 2
    assert made.looks <= 101


@clause("QB-SOCK-8", "QB-TIME-2")
def test_no_vigil_lasts_longer_than_the_caller_would_wait(
    made: Made, sleeper: _net.Sleeper
) -> None:
    sleeper.sleep(None)
    deadline = made.now + AWAKE_S / 2
    made.nap_s = 1.0

    sleeper.sleep(deadline)

    assert deadline <= made.now < deadline + 3 * AWAKE_S / 100


@clause("QB-SOCK-8", "QB-TIME-2")
def test_that_time_was_up_soon_is_no_reason_to_stay_awake(
    made: Made, sleeper: _net.Sleeper
) -> None:
    made.nap_s = 1.0
    for _ in range(10):
        sleeper.sleep(made.now + AWAKE_S / 2)

    assert made.looks == 0


@clause("QB-SOCK-8", "QB-TIME-2")
def test_after_a_long_sleep_the_next_one_is_a_sleep(
    made: Made, sleeper: _net.Sleeper
) -> None:
    made.nap_s = 2 * AWAKE_S
    for _ in range(10):
        sleeper.sleep(None)

    assert (len(made.naps), made.looks) == (10, 0)

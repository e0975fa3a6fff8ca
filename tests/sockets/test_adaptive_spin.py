"""A `Sleeper` that spins if the awaited data tends to come soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

from queuebroker import ReceiveTimeoutError, _net, _sync
from queuebroker._net import sleeper as sleeper_module
from queuebroker._net.sleeper import AWAKE_S
from specs.clauses import clause
from tests.sockets.support import ends

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.define
class Made:
    """A fake poller and clock: each poll takes a hundredth of a spin.

    comes_after: number of polls until data arrives; None for never.
    processors: number of processors.
    look_s: duration of a poll.
    nap_s: time until data wakes the sleeper.
    """

    comes_after: int | None = None
    processors: int = 2
    nap_s: float = 0.0
    now: float = 0.0
    looks: int = 0
    look_s: float = AWAKE_S / 100
    naps: list[float | None] = attrs.field(factory=list)

    def poll(self, timeout_ms: float | None = None) -> list[Any]:
        if timeout_ms == 0:
            self.looks += 1
            self.now += self.look_s
            there = self.comes_after is not None and self.looks > self.comes_after
            return [there] * there
        self.naps.append(timeout_ms)
        rest_s = self.nap_s if timeout_ms is None else timeout_ms / 1000
        self.now += min(self.nap_s, rest_s)
        return [True] * (self.nap_s <= rest_s)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    monkeypatch.setattr(sleeper_module, "WaitSet", lambda: cast("Any", made))
    monkeypatch.setattr(Made, "register", lambda *_: None, raising=False)
    monkeypatch.setattr(_sync, "monotonic", lambda: made.now)
    monkeypatch.setattr(sleeper_module, "processors", lambda: made.processors)
    return made


@pytest.fixture
def sleeper(made: Made) -> Iterator[_net.Sleeper]:
    sleeper = _net.Sleeper()
    yield sleeper
    sleeper.close()


def wait(
    sleeper: _net.Sleeper, deadline: float | None, *, answered: bool = False
) -> None:
    """Wait as the reader of a socket does; answered: after it has sent a message."""
    began = None
    if answered and sleeper.spin_is_due:
        began = _sync.monotonic()
        if sleeper.spin(began, deadline):
            return
    sleeper.sleep(deadline, began, alone=True)


@clause("QB-SOCK-8", "QB-TIME-2")
def test_after_a_short_sleep_the_next_wait_spins(
    made: Made, sleeper: _net.Sleeper
) -> None:
    wait(sleeper, None, answered=True)
    made.comes_after = 5

    wait(sleeper, None, answered=True)

    assert (len(made.naps), made.looks) == (1, 6)


@clause("QB-SOCK-8", "QB-TIME-2")
def test_an_adaptive_spin_in_vain_is_short_and_ends_in_sleep(
    made: Made, sleeper: _net.Sleeper
) -> None:
    wait(sleeper, None, answered=True)

    wait(sleeper, None, answered=True)

    assert len(made.naps) == 2
    assert made.looks <= 101


def test_an_adaptive_spin_ends_once_the_caller_has_another_reason_to_wake(
    made: Made, sleeper: _net.Sleeper
) -> None:
    wait(sleeper, None, answered=True)

    assert sleeper.spin(made.now, None, lambda: made.looks == 3)
    assert made.looks == 3


@clause("QB-SOCK-8", "QB-TIME-2")
def test_no_adaptive_spin_lasts_longer_than_the_caller_would_wait(
    made: Made, sleeper: _net.Sleeper
) -> None:
    wait(sleeper, None, answered=True)
    deadline = made.now + AWAKE_S / 2
    made.nap_s = 1.0

    wait(sleeper, deadline, answered=True)

    assert deadline <= made.now < deadline + 3 * AWAKE_S / 100


@clause("QB-SOCK-8", "QB-TIME-2")
def test_that_time_was_up_soon_is_no_reason_to_stay_awake(
    made: Made, sleeper: _net.Sleeper
) -> None:
    made.nap_s = 1.0
    for _ in range(10):
        wait(sleeper, made.now + AWAKE_S / 2, answered=True)

    assert made.looks == 0


@clause("QB-SOCK-8", "QB-TIME-2")
def test_after_a_long_sleep_the_next_one_is_a_sleep(
    made: Made, sleeper: _net.Sleeper
) -> None:
    made.nap_s = 2 * AWAKE_S
    for _ in range(10):
        wait(sleeper, None, answered=True)

    assert (len(made.naps), made.looks) == (10, 0)


@clause("QB-SOCK-8")
def test_a_sleeper_that_expects_no_answer_does_not_spin(
    made: Made, sleeper: _net.Sleeper
) -> None:
    """In a one-way stream of messages a spin would only burn a processor."""
    for _ in range(10):
        wait(sleeper, None)

    assert (len(made.naps), made.looks) == (10, 0)


@clause("QB-SOCK-8")
def test_a_sleeper_on_one_processor_does_not_spin(made: Made) -> None:
    """The peer that has to answer cannot run during a spin."""
    made.processors = 1
    sleeper = _net.Sleeper()
    for _ in range(10):
        wait(sleeper, None, answered=True)
    sleeper.close()

    assert (len(made.naps), made.looks) == (10, 0)


@clause("QB-SOCK-8")
def test_a_look_that_takes_too_long_is_in_vain_whatever_it_finds(
    made: Made, sleeper: _net.Sleeper
) -> None:
    """Other threads have the interpreter: a sleep would have been as quick."""
    wait(sleeper, None, answered=True)
    made.comes_after, made.look_s = 0, 2 * AWAKE_S
    wait(sleeper, None, answered=True)
    assert made.looks == 1

    wait(sleeper, None, answered=True)

    assert made.looks == 1


@clause("QB-SOCK-8")
def test_a_receiver_expects_an_answer_only_once_after_a_send() -> None:
    with ends() as (left, right):
        link = left._socket_connection.link
        said = [link.read_owner.sent_since_sleep]
        left.send(b"question")
        said.append(link.read_owner.sent_since_sleep)
        right.receive()
        with pytest.raises(ReceiveTimeoutError):
            left.receive(timeout=0.01)
        said.append(link.read_owner.sent_since_sleep)

    assert said == [False, True, False]

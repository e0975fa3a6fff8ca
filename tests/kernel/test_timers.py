"""`Timers`: the alarms of the parts of the remote manager."""

from __future__ import annotations

import pytest

from bus.kernel.timers import Alarm, Timers


class Part:
    """A part with one deadline at a time, which records its calls."""

    def __init__(self, timers: Timers, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls
        self.then: float | None = None
        self.sets: Alarm | None = None
        self.fails = False
        self.alarm = timers.alarm(self.on_due)

    def on_due(self, now: float) -> float | None:
        self.calls.append(self.name)
        if self.fails:
            raise MemoryError
        if self.sets is not None:
            self.sets.by(now)
        return self.then


def parts(names: str) -> tuple[Timers, list[Part], list[str]]:
    timers, calls = Timers(), list[str]()
    return timers, [Part(timers, name, calls) for name in names], calls


def test_an_alarm_keeps_the_earliest_of_its_deadlines() -> None:
    timers, [part], calls = parts("a")
    assert timers.next() is None

    part.alarm.by(3.0)
    part.alarm.by(5.0)
    part.alarm.by(None)
    assert timers.next() == 3.0
    part.alarm.by(2.0)
    assert timers.next() == 2.0

    timers.run(1.9)
    assert calls == []
    part.then = 5.0
    timers.run(2.0)
    assert (calls, timers.next()) == (["a"], 5.0)
    part.then = None
    timers.run(9.0)
    assert timers.next() is None
    timers.run(99.0)
    assert calls == ["a", "a"]


def test_parts_that_are_due_at_once_are_called_in_the_order_of_creation() -> None:
    timers, [early, late], calls = parts("ab")
    late.alarm.by(1.0)
    early.alarm.by(2.0)

    timers.run(2.0)

    assert calls == ["a", "b"]


def test_a_part_that_becomes_due_meanwhile_is_called_in_its_turn() -> None:
    """A later part in the same call, an earlier one in the next."""
    timers, [one, two, three], calls = parts("abc")
    two.alarm.by(1.0)
    two.sets = three.alarm
    three.sets = one.alarm

    timers.run(1.0)
    assert calls == ["b", "c"]
    assert timers.next() == 1.0
    timers.run(1.0)
    assert calls == ["b", "c", "a"]


def test_a_part_that_fails_stays_due() -> None:
    timers, [one, two], calls = parts("ab")
    one.alarm.by(1.0)
    two.alarm.by(1.0)
    one.fails = True
    with pytest.raises(MemoryError):
        timers.run(1.0)

    one.fails = False
    timers.run(1.0)
    assert calls == ["a", "a", "b"]

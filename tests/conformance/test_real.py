"""The driver of real threads: detecting waits, and handling hangs."""

from __future__ import annotations

import itertools
import threading

import pytest

from queuebroker.waiting.parking import taken_lock
from specs.conformance import real
from specs.conformance.call import Call
from specs.conformance.level import Level
from specs.conformance.real import RealDriver
from specs.conformance.scenario import Scenario, Style
from specs.conformance.stage import Driver, Stage
from tests.support import LIMIT_S, until

LEVEL = Level("test", 0, 0, limit=1, rounds=3, seconds=60.0, volume=1)


class Gate(threading.Event):
    """An event that records that a thread is about to wait for it, or waits."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as the base class does."""
        self.reached.set()
        return super().wait(timeout)


class World:
    """A world with a gate that blocks callers until it is opened."""

    def __init__(self) -> None:
        self.gate = Gate()

    def wait_at_the_gate(self) -> None:
        """Wait until the gate is opened."""
        self.gate.wait()


def start(driver: Driver, function: object, *args: object) -> Call:
    """Start a call."""
    assert callable(function)
    call = Call(function, args, {})
    driver.start(call)
    return call


class Walk:
    """A clock in place of `time`, and a thread that takes a step every second sleep.

    A sleep takes no real time and ends after the step, so that a busy machine changes
    nothing.
    """

    def __init__(self, steps: int) -> None:
        self.now = 0.0
        self.left = steps
        self._sleeps = itertools.count()
        self._door, self._arrived = taken_lock(), taken_lock()

    def start(self, driver: Driver) -> Call:
        """Start the thread, and wait until it stands before its first step."""
        call = start(driver, self._walk, self.left)
        self._arrived.acquire()
        return call

    def _walk(self, steps: int) -> None:
        # A frame for each step: on some systems only the frames show that it moves.
        self._arrived.release()
        if steps:
            self._door.acquire()
            self._walk(steps - 1)

    def perf_counter(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        if self.left and next(self._sleeps) % 2:
            self.left -= 1
            self._door.release()
            self._arrived.acquire()


@pytest.mark.parametrize(
    "picture_s", [0.0, 2 * real.QUIET_S], ids=["idle machine", "busy machine"]
)
def test_settle_waits_for_a_thread_that_makes_progress(
    monkeypatch: pytest.MonkeyPatch, picture_s: float
) -> None:
    """A thread that makes progress does not count as waiting, however slow it is.

    On a busy machine, even a picture of the threads takes longer than `QUIET_S`.
    """
    monkeypatch.setattr(real, "SETTLE_S_MAX", 3600.0)
    walk = Walk(steps=50)
    monkeypatch.setattr(real, "time", walk)

    class Looking(RealDriver):
        def _picture(self) -> list[real._Place]:
            picture = super()._picture()
            walk.now += picture_s
            return picture

    driver = Looking()
    call = walk.start(driver)
    driver.settle()

    assert walk.left == 0
    driver.join(call)


def test_settle_does_not_wait_for_a_blocked_thread() -> None:
    """A thread that makes no progress for 50 ms counts as waiting."""
    driver, world = RealDriver(), World()
    call = start(driver, world.wait_at_the_gate)

    before = driver.now()
    driver.settle()

    assert not call.done
    assert driver.now() - before >= real.QUIET_S
    world.gate.set()
    driver.join(call)


def test_settle_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A polling thread never stands still, and counts as waiting after a while."""
    monkeypatch.setattr(real, "SETTLE_S_MAX", 0.2)
    driver, world = RealDriver(), World()

    def poll() -> None:
        while not world.gate.wait(0.001):
            pass

    call = start(driver, poll)
    driver.settle()

    assert not call.done
    world.gate.set()
    driver.join(call)


def test_settle_waits_for_a_thread_that_gets_no_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stands still like one that waits, but it is runnable."""
    starved = [True] * 5
    monkeypatch.setattr(real, "SETTLE_S_MAX", 0.0)
    monkeypatch.setattr(
        real, "_turns", lambda _: (b"", bool(starved and starved.pop()))
    )
    driver, world = RealDriver(), World()
    call = start(driver, world.wait_at_the_gate)
    world.gate.reached.wait(LIMIT_S)

    driver.settle()

    assert not starved
    world.gate.set()
    driver.join(call)


def test_join_tells_where_a_call_hangs() -> None:
    """The message names the call and shows its stack."""
    driver, world = RealDriver(hang_s=0.1), World()
    call = start(driver, world.wait_at_the_gate)
    world.gate.reached.wait(LIMIT_S)

    with pytest.raises(AssertionError) as caught:
        driver.join(call)

    text = str(caught.value)
    assert "hangs: wait_at_the_gate() still waits after 0.1 s" in text
    assert "in wait_at_the_gate: self.gate.wait()" in text
    world.gate.set()
    driver.join(call)


def test_a_program_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a program that waits itself, outside of any call."""
    monkeypatch.setattr(real, "HANG_S", 0.1)
    worlds: list[World] = []

    def program(stage: Stage) -> None:
        """Block forever."""
        worlds.append(stage.world)
        stage.world.wait_at_the_gate()

    scenario = Scenario("test.hangs", ("QB-RDV-1",), program)

    with pytest.raises(AssertionError, match=r"hangs: the program test\.hangs"):
        real.perform(scenario, lambda driver: Stage(World, driver), LEVEL)

    until(lambda: bool(worlds), "the program has begun")
    worlds[0].gate.set()


def test_a_race_is_run_again_and_again() -> None:
    """On real threads the schedule is random; other programs run once."""
    runs: list[Style] = []
    for style in Style:

        def program(stage: Stage, style: Style = style) -> None:
            runs.append(style)

        scenario = Scenario(f"test.{style.value}", ("QB-RDV-1",), program, style=style)
        real.perform(scenario, lambda driver: Stage(World, driver), LEVEL)

    assert [runs.count(style) for style in (Style.STEPS, Style.RACE, Style.CROWD)] == [
        1,
        3,
        1,
    ]


def test_perform_raises_the_exception_of_the_program() -> None:
    """Any exception of the implementation is the outcome."""

    def program(stage: Stage) -> None:
        """Raise."""
        raise KeyError("from within")

    scenario = Scenario("test.raises", ("QB-RDV-1",), program)

    with pytest.raises(KeyError, match="from within"):
        real.perform(scenario, lambda driver: Stage(World, driver), LEVEL)


def test_an_interrupt_is_for_the_explorer_only() -> None:
    """A thread that waits in C cannot be interrupted."""
    driver = RealDriver()
    call = start(driver, int)

    with pytest.raises(NotImplementedError, match=r"cannot interrupt int\(\)"):
        driver.interrupt(call, KeyError())

    driver.join(call)

"""The driver of real threads, for primitives that the explorer cannot control.

"Still waiting" means that for 50 ms nothing moved: no call ended, no frame of a
spawned thread went on, and none was about to. Every thread is a daemon and every wait
has a limit. So a program that hangs is a failure with the stacks of its threads, never
a hang of the suite. Threads that hang are abandoned: nothing can end them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from specs.conformance.call import Call
from specs.conformance.scenario import Scenario, Style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from specs.conformance.level import Level
    from specs.conformance.stage import Stage

    MakeStage = Callable[["RealDriver"], Stage]

__all__ = ["NAME", "RealDriver", "perform", "try_program"]

NAME = "real threads"

# Longer where no file shows whether a thread runs: a thread that gets no processor must
# not count as waiting.
_TASK = Path(f"/proc/self/task/{threading.get_native_id()}")
QUIET_S = 0.05 if _TASK.exists() else 0.25
# An implementation that polls moves for ever; after this time it counts as waiting.
SETTLE_S_MAX = 0.3
SAMPLE_S = 0.005
HANG_S = 5.0
CROWD_HANG_S = 60.0
STRIKE_S = 1.0
SWITCH_INTERVAL_S = 1e-5

HERE = Path(__file__).parent


class _Place(NamedTuple):
    """The place of a thread; equal places mean that it has not run in between."""

    frame: int
    instruction: int
    turns: bytes
    runs: bool


class RealDriver:
    """A driver of real daemon threads with a watchdog. Satisfies `stage.Driver`."""

    name = NAME

    def __init__(self, hang_s: float = HANG_S) -> None:
        self.hang_s = hang_s
        self._threads: dict[Call, threading.Thread] = {}
        # Time of the program's last call of the driver, read by the watchdog.
        self.beat = time.perf_counter()

    def start(self, call: Call) -> None:
        """Begin the call in a daemon thread."""
        self.beat = time.perf_counter()
        thread = threading.Thread(target=call.run, name=call.text, daemon=True)
        self._threads[call] = thread
        thread.start()

    def join(self, call: Call) -> None:
        """Wait for the call, at most ``hang_s``."""
        self.beat = time.perf_counter()
        if not self.wait(call, self.hang_s):
            raise AssertionError(self.hung(f"{call.told()} after {self.hang_s:g} s"))
        self.beat = time.perf_counter()

    def wait(self, call: Call, seconds: float) -> bool:
        """Wait for the call at most that long; return True if it is done."""
        thread = self._threads[call]
        thread.join(seconds)
        return not thread.is_alive()

    def settle(self) -> None:
        """Wait until nothing has moved for `QUIET_S`."""
        self.beat = began = time.perf_counter()
        before = self._picture()
        quiet_since = time.perf_counter()
        while True:
            time.sleep(SAMPLE_S)
            now, after = time.perf_counter(), self._picture()
            running = {place for place in after if place.runs}
            if now - began >= SETTLE_S_MAX and running.isdisjoint(before):
                break  # else a thread waits for a processor, and does not poll
            if after != before or running:
                # The time after the picture. On a busy machine a picture may take
                # longer than `QUIET_S`, since it stops all threads, and the next one
                # follows after `SAMPLE_S`.
                before, quiet_since = after, time.perf_counter()
            elif now - quiet_since >= QUIET_S:
                break
        self.beat = time.perf_counter()

    def now(self) -> float:
        """Return the time of the monotonic clock, in seconds."""
        return time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Sleep; programs use it to let time pass, not to order threads."""
        time.sleep(seconds)
        self.beat = time.perf_counter()

    def interrupt(self, call: Call, error: BaseException) -> None:
        """Fail: no exception can be raised in a thread that waits in C."""
        raise NotImplementedError(f"cannot interrupt {call.text}: it is a real thread")

    def hung(self, what: str) -> str:
        """Return ``what`` and the stack of each thread of this driver."""
        frames = _frames()
        lines = [f"hangs: {what}"]
        for call, thread in self._threads.items():
            frame = frames.get(thread.ident or 0)
            if thread.is_alive() and frame is not None:
                lines.append(f"thread {call.text}:")
                lines += _stack(traceback.extract_stack(frame))
        return "\n".join(lines)

    def _picture(self) -> list[_Place]:
        """Return the place of each live thread but the caller's."""
        frames = _frames()
        frames.pop(threading.get_ident())
        return [
            _Place(id(frame), frame.f_lasti, *_turns(thread))
            for thread in self._threads.values()
            if (frame := frames.get(thread.ident or 0)) is not None
        ]


# Guards the switch of the garbage collector while frames are read.
_looking = threading.Lock()


def _frames() -> dict[int, FrameType]:
    """Return the current frame of each thread.

    The garbage collector is off meanwhile: CPython 3.11 holds a lock of the interpreter
    there that a thread needs to end. If the collector ran Python code in the middle of
    it, both would wait for ever.
    """
    with _looking:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _turns(thread: threading.Thread) -> tuple[bytes, bool]:
    """Return how often and how long the thread has run, and if it is runnable now.

    On a busy machine a runnable thread may stand still for long. Linux distinguishes
    it from one that waits; on other systems only the frames are available.
    """
    try:
        task = Path(f"/proc/self/task/{thread.native_id}")
        state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
        return (task / "schedstat").read_bytes(), state in (b"R", b"D")
    except OSError:
        return b"", False


def _stack(frames: Iterable[traceback.FrameSummary]) -> list[str]:
    """Return the frames of the program and of the implementation, innermost last."""
    own = (str(HERE), threading.__file__)
    return [
        f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in frames
        if frame.filename not in own and str(Path(frame.filename).parent) not in own
    ]


def perform(scenario: Scenario, make_stage: MakeStage, level: Level) -> None:
    """Run the scenario on real threads; repeat a race to meet its fault.

    Raises:
        AssertionError: a clause is broken, or the program hangs.
        Exception: an error that the implementation raised in the program's own thread.
    """
    races = scenario.style is Style.RACE
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S if races else interval)
    try:
        end = time.perf_counter() + level.seconds
        for _ in range(level.rounds if races else 1):
            _perform_once(scenario, make_stage)
            if time.perf_counter() >= end:
                break
    finally:
        sys.setswitchinterval(interval)


def try_program(program: Callable[[RealDriver], None]) -> None:
    """Run a program that makes no assertion, and ignore its outcome."""
    driver = RealDriver()
    call = Call(program, (driver,), {})
    driver.start(call)
    with contextlib.suppress(AssertionError):
        _watch(driver, call)


def _perform_once(scenario: Scenario, make_stage: MakeStage) -> None:
    crowd = scenario.style is Style.CROWD
    driver = RealDriver(CROWD_HANG_S if crowd else HANG_S)
    stages: list[Stage] = []

    def program() -> None:
        stages.append(make_stage(driver))
        scenario.program(stages[0])

    call = Call(program, (), {})
    call.text = scenario.name
    driver.start(call)
    _watch(driver, call)
    if stages:
        strike = Call(stages[0].strike, (), {})
        driver.start(strike)
        driver.wait(strike, STRIKE_S)
    if call.error is not None:
        raise call.error
    if not call.done:
        raise AssertionError(f"the program {call.text} was killed in its thread")


def _watch(driver: RealDriver, call: Call) -> None:
    """Wait for the program; fail if it hangs between two of its own steps."""
    while not driver.wait(call, SAMPLE_S):
        if time.perf_counter() - driver.beat > driver.hang_s + HANG_S:
            raise AssertionError(driver.hung(f"the program {call.text}"))

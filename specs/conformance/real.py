"""The driver of real threads, for what the explorer cannot control.

"Still waiting" means that for 50 ms nothing moved: no call ended, no frame of a
spawned thread went on, and none was about to. Every thread is a daemon and every wait
has a limit, so that a program that hangs is a failure with the stacks of its threads,
never a hang of the suite. Threads that hang are left behind: nothing can end them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

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

QUIET_S = 0.05
# An implementation that polls moves for ever; after this it counts as waiting.
SETTLE_S_MAX = 0.3
SAMPLE_S = 0.005
HANG_S = 5.0
CROWD_HANG_S = 60.0
STRIKE_S = 1.0
SWITCH_INTERVAL_S = 1e-5

HERE = Path(__file__).parent


class RealDriver:
    """Real daemon threads under a watchdog. Satisfies `stage.Driver`."""

    name = NAME

    def __init__(self, hang_s: float = HANG_S) -> None:
        self.hang_s = hang_s
        self._threads: dict[Call, threading.Thread] = {}
        # The last time the program asked for anything; the watchdog's measure.
        self.beat = time.monotonic()

    def start(self, call: Call) -> None:
        """Begin the call in a daemon thread."""
        self.beat = time.monotonic()
        thread = threading.Thread(target=call.run, name=call.text, daemon=True)
        self._threads[call] = thread
        thread.start()

    def join(self, call: Call) -> None:
        """Wait for the call, `HANG_S` at most."""
        self.beat = time.monotonic()
        if not self.wait(call, self.hang_s):
            raise AssertionError(self.hung(f"{call.told()} after {self.hang_s:g} s"))
        self.beat = time.monotonic()

    def wait(self, call: Call, seconds: float) -> bool:
        """Wait for the call that long; whether it is done."""
        thread = self._threads[call]
        thread.join(seconds)
        return not thread.is_alive()

    def settle(self) -> None:
        """Wait until nothing has moved for `QUIET_S`."""
        self.beat = began = quiet_since = time.monotonic()
        before = self._picture()
        while True:
            time.sleep(SAMPLE_S)
            now, after = time.monotonic(), self._picture()
            if after != before or None in after:
                before, quiet_since = after, now
            if now - quiet_since >= QUIET_S or now - began >= SETTLE_S_MAX:
                break
        self.beat = time.monotonic()

    def now(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep; programs use it to let time pass, not to order threads."""
        time.sleep(seconds)
        self.beat = time.monotonic()

    def interrupt(self, call: Call, error: BaseException) -> None:
        """Nothing can raise in a thread that waits in C."""
        raise NotImplementedError(f"cannot interrupt {call.text}: it is a real thread")

    def hung(self, what: str) -> str:
        """``what`` and where each thread of this driver stands."""
        frames = _frames()
        lines = [f"hangs: {what}"]
        for call, thread in self._threads.items():
            frame = frames.get(thread.ident or 0)
            if thread.is_alive() and frame is not None:
                lines.append(f"thread {call.text}:")
                lines += _stack(traceback.extract_stack(frame))
        return "\n".join(lines)

    def _picture(self) -> list[tuple[int, int, bytes] | None]:
        """Where each live thread but the caller's stands, None if it is on its way."""
        frames = _frames()
        frames.pop(threading.get_ident())
        picture: list[tuple[int, int, bytes] | None] = []
        for thread in self._threads.values():
            frame = frames.get(thread.ident or 0)
            if frame is not None:
                turns = _turns(thread)
                place = id(frame), frame.f_lasti
                picture.append(None if turns is None else (*place, turns))
        return picture


# Guards whether the collector runs while frames are looked at.
_looking = threading.Lock()


def _frames() -> dict[int, FrameType]:
    """Where each thread stands.

    Without the garbage collector: CPython 3.11 holds a lock of the interpreter there
    that a thread needs to end; were the collector to begin in the middle of it, and to
    run Python code, both would wait for ever.
    """
    with _looking:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _turns(thread: threading.Thread) -> bytes | None:
    """How often the thread was given a processor; None for one that wants one now.

    On a busy machine a thread that could go on may stand still for long. Linux tells
    it from one that waits; elsewhere the frames alone must do.
    """
    try:
        task = Path(f"/proc/self/task/{thread.native_id}")
        state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
        return None if state in (b"R", b"D") else (task / "schedstat").read_bytes()
    except OSError:
        return b""


def _stack(frames: Iterable[traceback.FrameSummary]) -> list[str]:
    """The frames of the program and of the implementation, innermost last."""
    own = (str(HERE), threading.__file__)
    return [
        f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in frames
        if frame.filename not in own and str(Path(frame.filename).parent) not in own
    ]


def perform(scenario: Scenario, make_stage: MakeStage, level: Level) -> None:
    """Run the scenario on real threads; a race again and again, to meet its fault.

    Raises:
        AssertionError: a clause is broken, or the program hangs.
        Exception: what the implementation raised in the program's own thread.
    """
    races = scenario.style is Style.RACE
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S if races else interval)
    try:
        end = time.monotonic() + level.seconds
        for _ in range(level.rounds if races else 1):
            _perform_once(scenario, make_stage)
            if time.monotonic() >= end:
                break
    finally:
        sys.setswitchinterval(interval)


def try_program(program: Callable[[RealDriver], None]) -> None:
    """Run a program that judges nothing, whatever becomes of it."""
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
    """Wait for the program; a failure if it hangs between two of its own steps."""
    while not driver.wait(call, SAMPLE_S):
        if time.monotonic() - driver.beat > driver.hang_s + HANG_S:
            raise AssertionError(driver.hung(f"the program {call.text}"))

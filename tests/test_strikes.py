"""The interrupt kit: the number and places of points on each interpreter."""

from __future__ import annotations

import _thread
import dis
import functools
import itertools
import signal
import sys
import traceback
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from tests.strikes import everywhere, strike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.strikes import Blow

_FOLDER = "/struck"
_MODULE = """\
def rounds(number):
    for each in range(number):
        yield each

class Sum:
    def __init__(self, of):
        self.of = list(of)

    def __del__(self):
        len("not a point: nobody would see the exception")

def known(lock):
    with lock:
        total = len("ab")
    for each in rounds(2):
        total += abs(each)
    while total < 5:
        total += 1
    return Sum(max(*[total, 0]) * [0])
"""

# A start, a call, or one round of a loop: of `known`, `rounds` and `Sum.__init__`.
# `rounds` resumes twice, after each `yield`. The calls of `known`: `len`, `__exit__`,
# `abs` twice, `max` and `Sum`.
_BEGINNINGS = 1 + (1 + 2) + 1
_CALLS = 6 + 1 + 1
_ROUNDS = 2 + 2
# Until 3.13 a `while` loop repeats by a jump at its end that is made once here; the
# last test of its condition falls through.
_WHILE_ROUNDS = 2 if sys.version_info >= (3, 14) else 1
# Another call of `known`: `__enter__`.
_LOOKS_IN_WITH = sys.version_info[:2] == (3, 14)
# When a generator is created, a trace function cannot see that no C is called.
_MAKES = sys.version_info < (3, 12)

_POINTS = _BEGINNINGS + _CALLS + _ROUNDS + _WHILE_ROUNDS + _LOOKS_IN_WITH + _MAKES
_LINES = {2, 3, 7, 13, 14, 16, 19}

_ENOUGH = 10  # more than the points of a function below


class _Package(ModuleType):
    """A package of one module, which is in no file."""

    known: Callable[[object], object]

    def __init__(self, text: str = _MODULE) -> None:
        super().__init__("interrupted")
        self.__path__ = [_FOLDER]
        exec(compile(text, f"{_FOLDER}/module.py", "exec"), self.__dict__)


def _places(package: _Package, act: Callable[[], object]) -> Iterator[int | None]:
    """Interrupt a call at one point after another; yield the line of each."""
    met: list[KeyboardInterrupt] = []

    def watched() -> None:
        try:
            act()
        except KeyboardInterrupt as error:
            met.append(error)
            raise

    for point in range(100):
        if not strike(watched, point, packages=[package]):
            return
        steps = traceback.walk_tb(met.pop().__traceback__)
        lines = [
            line
            for frame, line in steps
            if frame.f_code.co_filename.startswith(_FOLDER)
        ]
        yield lines[-1]
    pytest.fail("no end of points")


def test_a_call_that_has_raised_is_no_point() -> None:
    """The exception would count as being handled for as long as the thread lives."""
    package = _Package("""\
class Sum:
    def __init__(self):
        self.of = []

def known(empty):
    try:
        return empty.pop()
    except IndexError:
        return Sum()
""")
    for point in range(_ENOUGH):
        if not strike(lambda: package.known([]), point, packages=[package]):
            break
        assert sys.exception() is None
    assert 0 < point < _ENOUGH - 1


def test_each_point_of_a_known_function_is_interrupted() -> None:
    package = _Package()

    lines = list(_places(package, lambda: package.known(_thread.allocate_lock())))

    assert len(lines) == _POINTS
    assert set(lines) >= _LINES


def test_a_function_interrupted_before_has_the_same_points() -> None:
    """The first call after the code's creation has the same points as later calls."""
    package = _Package()

    def act() -> None:
        package.known(_thread.allocate_lock())

    first = list(_places(package, act))

    assert list(_places(package, act)) == first


def test_only_the_thread_that_makes_the_call_is_interrupted() -> None:
    package = _Package()
    ended = []

    def other() -> None:
        package.known(_thread.allocate_lock())
        ended.append(True)
        lock.release()

    def act() -> None:
        _thread.start_new_thread(other, ())
        lock.acquire()

    for point in range(3):
        lock = _thread.allocate_lock()
        lock.acquire()
        assert not strike(act, point, packages=[package])
    assert ended == [True] * 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")
def test_a_strike_gives_its_tool_back() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # of 3.12
    package = _Package()
    seen = []

    def act() -> None:
        seen.append([each for each in range(6) if monitoring.get_tool(each)])

    assert not strike(act, 0, packages=[package])

    assert len(seen[0]) == 1
    assert not any(monitoring.get_tool(each) for each in range(6))


# Each rings a bell while a lock is held: `-bell` is an operator written in C, after
# which the interpreter does not check for signals; it does so at the next point.
_RINGING = """\
def as_it_is_entered(lock, bell):
    with bell:
        pass

def before_a_call(lock, bell):
    with lock:
        -bell
        len("")

def at_the_end(lock, bell):
    with lock:
        -bell

def in_a_for_loop(lock, bell):
    with lock:
        for _ in (1, 2):
            -bell

def in_a_while_loop(lock, bell):
    with lock:
        number = 0
        while number < 2:
            -bell
            number += 1

def in_an_endless_loop(lock, bell):
    with lock:
        number = 0
        while True:
            -bell
            number += 1
            if number > 2:
                break
"""


@pytest.mark.parametrize(
    "name",
    [
        "as_it_is_entered",
        "before_a_call",
        "at_the_end",
        "in_a_for_loop",
        "in_a_while_loop",
        "in_an_endless_loop",
    ],
)
def test_a_strike_leaves_a_lock_taken_where_a_real_signal_does(name: str) -> None:
    """Up to 3.14 some places in a `with` statement are not covered by its exit."""
    package = _Package(_RINGING)
    act = getattr(package, name)

    def run(
        ring: Any, enter: Any, call: Callable[[Callable[[], None]], object]
    ) -> bool:
        """Make `call` run it; return whether the lock is taken afterwards."""
        lock = _thread.allocate_lock()
        body = {
            "__neg__": staticmethod(ring),
            "__enter__": staticmethod(enter or lock.acquire),
            "__exit__": staticmethod(lock.__exit__),
        }
        bell = type("Bell", (), body)()
        if enter and name == "as_it_is_entered":
            lock.acquire()
        call(lambda: act(lock, bell))
        return lock.locked()

    def raises(act: Callable[[], None]) -> None:
        with pytest.raises(KeyboardInterrupt):
            act()

    ring = functools.partial(_thread.interrupt_main, signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        left = run(ring, ring, raises)
    finally:
        signal.signal(signal.SIGUSR1, before)
    interrupted = []
    for point in range(_ENOUGH):
        rings = itertools.count()
        blow = functools.partial(strike, point=point, packages=[package])
        locked = run(rings.__next__, None, blow)
        if next(rings) or name == "as_it_is_entered":
            interrupted.append(locked)

    assert any(interrupted) is left


def test_an_interrupted_instruction_without_a_line_can_be_shown() -> None:
    """Pytest shows the line of each step of a traceback, and needs one."""
    met: list[BaseException] = []

    def case(interrupted: Blow) -> None:
        with pytest.raises(ValueError) as caught:
            int("x")
        error = caught.value
        frame = caught.tb.tb_frame
        steps = [
            TracebackType(None, frame, each.offset, -1)
            for each in dis.get_instructions(frame.f_code)
        ]
        lines: list[int | None] = [step.tb_lineno for step in steps]
        error.__traceback__ = steps[lines.index(None)]
        met.append(error)
        raise RuntimeError from error

    with pytest.raises(RuntimeError):
        everywhere(case)

    [error] = met
    step = error.__traceback__
    assert step is not None
    assert step.tb_lineno == step.tb_frame.f_code.co_firstlineno

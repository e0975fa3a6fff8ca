"""Interrupts in code whose instructions are switch points."""

from __future__ import annotations

import re
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import explore
from tests.testing.failing import failure_of
from tests.testing.lost_update import Counter, LostUpdateError

if TYPE_CHECKING:
    from queuebroker.testing import Run


class Interrupted(Counter):
    """Counts its interrupts."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = False
        self.handled = False

    def work(self) -> None:
        try:
            self.begin()
        except KeyboardInterrupt:
            self.n += 1
            self.handled = True

    def begin(self) -> None:
        self.begun = True


def test_an_interrupt_strikes_in_named_code_and_its_handler_is_split_too() -> None:
    """Tracing resumes after the interrupt; code that is not named is not split."""

    def program(run: Run) -> None:
        interrupted = Interrupted()
        victim = run.spawn(interrupted.work)
        run.spawn(interrupted.add)
        run.interrupt(victim, KeyboardInterrupt)
        run.join()
        if interrupted.n != 1 + interrupted.handled:
            raise LostUpdateError

    assert explore(program, bytecode=[Interrupted.begin], bound=2, random=0).exhausted
    found = failure_of(
        program, bytecode=[Interrupted.begin, Interrupted.work], bound=3, random=0
    )

    assert "KeyboardInterrupt is thrown here" in found.story
    assert re.search(r"work +comes to (BINARY_OP \+=|STORE_ATTR n)", found.story)


def _python(state: Any = None) -> None:
    """No call into C: an interrupt comes before it has done anything."""
    if state is not None:
        state.steps = 1


@pytest.mark.deep
@pytest.mark.parametrize(
    ("line", "strikes"),
    [
        ("self.steps = 1; self.steps = 2", {0}),
        ("self.steps = 1; x = len('a'); self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = python() or 1; self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = python(self) or 1; self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = (lambda: 1)(); self.steps = 2", {0, (1, 0)}),
        ("for _ in 'ab': self.steps += 1", {0, (1, 0), (2, 0)}),
        # From 3.14 on a loop jumps back to its condition once more.
        (
            "while self.steps < 2: self.steps += 1",
            {0, (1, 0)} | ({(2, 0)} if sys.version_info >= (3, 14) else set()),
        ),
        ("for self.steps in iter([1, 2].pop, 1): break", {0, (0, 0)}),
        ("self.steps = 1; lock.release(); self.steps = 2", {0, (1, 0)}),
    ],
)
def test_an_interrupt_strikes_only_where_the_interpreter_looks_for_one(
    line: str, strikes: set[object]
) -> None:
    """After calls into C, and jumps backwards; at the start of a function.

    Each line of the result has the number of completed steps and the value of x; 0 if
    the function itself had not begun.
    """
    text = f"""def work(self, lock):
        x = 0
        try:
            {line}
        except KeyboardInterrupt:
            self.interrupted = self.steps, x
    """
    names: dict[str, Any] = {"python": _python}
    exec(text, names)
    seen: set[object] = set()

    def program(run: Run) -> None:
        state = types.SimpleNamespace(steps=0, interrupted=None)
        lock = threading.Lock()
        lock.acquire()
        victim = run.spawn(names["work"], state, lock)
        run.interrupt(victim, KeyboardInterrupt)
        run.join()
        if victim.error is not None:
            seen.add(state.steps)
        elif state.interrupted:
            seen.add(state.interrupted)

    explore(program, bytecode=[names["work"]], bound=2, random=100)

    assert seen == strikes

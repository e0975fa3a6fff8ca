"""`Task`: one thread of a run, with its obstacle.

A task that is not running can go on as soon as its ``obstacle`` is not taken or its
deadline has passed. The scheduler needs no other facts of locks, sleeps and joins. A
task is itself an obstacle to the tasks that join it.
"""

from __future__ import annotations

import _thread
import math
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

__all__ = ["FREE", "NEVER", "OTHERS", "TIME", "Obstacle", "Task"]

# Bound when this module is loaded: the explorer replaces the public name.
_allocate_lock = _thread.allocate_lock

NEVER: Final = math.inf  # the deadline of a task without one


class Obstacle(Protocol):
    """An object that a task may have to wait for."""

    @property
    def taken(self) -> bool:
        """True while the task must wait."""

    def wait_text(self, task: Task) -> str:
        """Return the text in a story for a ``task`` that waits for this obstacle."""


class _Constant:
    """An obstacle that never changes."""

    __slots__ = ("_text", "taken")

    def __init__(self, text: str, *, taken: bool) -> None:
        self._text = text
        self.taken: bool = taken

    def wait_text(self, _task: Task) -> str:
        return self._text


# The task can go on at any time.
FREE: Final = _Constant("could go on", taken=False)
# The task waits only for a deadline.
TIME: Final = _Constant("sleeps", taken=True)
# The task waits until no other can go on.
OTHERS: Final = _Constant("waits until nobody else can go on", taken=True)


class Task:
    """One thread of a run. It is internal; the writers are named per group.

    Its identity, written once:

    number: position in the order of creation in this run, 0 for the main task.
    key: the same in every schedule: built from the parent's key and this task's number
      among the parent's children.
    context: the context of its context variables.
    gate: the lock on which it waits for the baton: released to let it run.

    Its life cycle, written by the scheduler and by ``ending``:

    ident: number of its real thread, 0 before that exists. handle: to join that thread,
      without the interpreter lock only.
    taken: False once it has ended.
    error: the exception it ended with, if any.
    children: number of tasks it has created.
    unwinding: True once it must end. passes: primitives it has used since.

    Its waits, written by the modules that it calls:

    obstacle, deadline: it can go on once the obstacle is free or the deadline passed.
    yields: True while it lets other tasks run first (``primitives``).
    asleep: True while it waits for a wake-up, as opposed to a lock (``primitives``).
    predicate: the condition it sleeps for, if given (``primitives``, ``stand_ins``).
    spurious_wake: wakes it without cause; None while that is impossible
      (``primitives``, ``stand_ins``). spurious: True after such a wake-up
      (``primitives``).
    locks: number of locks it has created (``primitives``).
    importing: number of nested imports it is in (``stand_ins``).
    thread: its `Thread`, if any caller needed it (``threads``, ``ending``).

    The actions of its test, written by ``run``:

    thrown: an exception to raise where it waits; the scheduler clears it.
    awaited: the same exception, kept: if it escapes, that is no failure.
    error_known: True once the test has read ``error``.
    """

    __slots__ = (
        "asleep",
        "awaited",
        "body",
        "children",
        "context",
        "daemon",
        "deadline",
        "error",
        "error_known",
        "gate",
        "handle",
        "ident",
        "importing",
        "key",
        "locks",
        "name",
        "number",
        "obstacle",
        "passes",
        "predicate",
        "spurious",
        "spurious_wake",
        "taken",
        "thread",
        "thrown",
        "unwinding",
        "yields",
    )

    def __init__(
        self,
        number: int,
        key: int,
        name: str,
        body: Callable[[], object],
        *,
        daemon: bool,
    ) -> None:
        self.number: int = number
        self.key: int = key
        self.name: str = name
        self.body: Callable[[], object] | None = body
        self.daemon: bool = daemon
        self.context: Context = Context()
        self.gate: _thread.LockType = _allocate_lock()
        self.gate.acquire()

        self.ident: int = 0
        self.handle: Any = None
        self.taken: bool = True
        self.error: BaseException | None = None
        self.children: int = 0
        self.unwinding: bool = False
        self.passes: int = 0

        self.obstacle: Obstacle = FREE
        self.deadline: float = NEVER
        self.yields: bool = False
        self.asleep: bool = False
        self.predicate: Callable[[], object] | None = None
        self.spurious_wake: Callable[[], None] | None = None
        self.spurious: bool = False
        self.locks: int = 0
        self.importing: int = 0
        self.thread: threading.Thread | None = None

        self.thrown: BaseException | None = None
        self.awaited: BaseException | None = None
        self.error_known: bool = False

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def wait_text(self, _task: Task) -> str:
        """Return in words how a task waits for the end of this one."""
        return f"waits for the end of {self.name}"

    def wake_spuriously(self) -> None:
        """End its sleep although its lock was not released."""
        self.spurious = True

"""A `Task`: one thread of a run, and what stands in its way.

A task that is not running can go on as soon as its ``obstacle`` is not taken or its
deadline has come. That is all the scheduler knows of locks, sleeps and joins; a task
is itself an obstacle to those who join it.
"""

from __future__ import annotations

import _thread
import math
from contextvars import Context
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from queuebroker.testing.scheduler import Scheduler

__all__ = ["FREE", "NEVER", "OTHERS", "TIME", "Obstacle", "Task"]

# Taken when this module is loaded: the explorer exchanges the public name.
_allocate_lock = _thread.allocate_lock

NEVER: Final = math.inf  # the deadline of who has none


class Obstacle(Protocol):
    """What a task may have to wait for."""

    @property
    def taken(self) -> bool:
        """Whether it is in the way."""


class _Constant:
    """An obstacle that never changes."""

    __slots__ = ("taken",)

    def __init__(self, *, taken: bool) -> None:
        self.taken: bool = taken


FREE: Final = _Constant(taken=False)  # of who can go on at any time
TIME: Final = _Constant(taken=True)  # of who waits for a deadline and nothing else
OTHERS: Final = _Constant(taken=True)  # of who waits until nobody else can go on


class Task:
    """One thread of a run. A user never sees one; who writes is said of each group.

    What it is, never written again:

    number: position in the order of creation in this run, 0 for the main task.
    key: the same in every schedule: built from the parent's key and the how-manieth
      child this is.
    context: what its context variables hold.
    gate: the baton: released to let it run.

    Its life, written by the scheduler and by ``ending``:

    ident: of its real thread, 0 before that exists.
    taken: False once it has ended.
    error: what it ended with, if that was an exception.
    children: how many tasks it has made.
    unwinding: it has been told to end. passes: primitives it has used since.

    What it waits for, written by those that it calls:

    obstacle, deadline: it can go on when one is free or the other has come.
    yields: it lets others go first (``primitives``).
    asleep: it waits to be woken by somebody, as opposed to waiting for a lock
      (``primitives``).
    predicate: what it sleeps for, if it said so (``primitives``, ``stand_ins``).
    spurious_wake: wakes it though nobody has; None where that cannot be
      (``primitives``, ``stand_ins``). spurious: that was done (``primitives``).
    locks: how many it has made (``primitives``).
    importing: how many imports it is in (``stand_ins``).
    thread: its `Thread`, if anybody asked for that (``threads``, ``ending``).

    What its test does to it, written by ``run``:

    thrown: an exception to be raised where it waits; the scheduler takes it away.
    awaited: the same, kept: that it escapes is no failure.
    error_known: the test has looked at ``error``.
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
        "ident",
        "importing",
        "key",
        "locks",
        "name",
        "number",
        "obstacle",
        "passes",
        "predicate",
        "scheduler",
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
        scheduler: Scheduler,
        number: int,
        key: int,
        name: str,
        body: Callable[[], object],
        *,
        daemon: bool,
    ) -> None:
        self.scheduler: Scheduler = scheduler
        self.number: int = number
        self.key: int = key
        self.name: str = name
        self.body: Callable[[], object] | None = body
        self.daemon: bool = daemon
        self.context: Context = Context()
        self.gate: _thread.LockType = _allocate_lock()
        self.gate.acquire()

        self.ident: int = 0
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

    def wake_spuriously(self) -> None:
        """Let its sleep end though nobody has released what it sleeps on."""
        self.spurious = True

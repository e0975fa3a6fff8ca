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
    """One thread of a run. Only the scheduler and the primitives touch its fields.

    number: position in the order of creation in this run, 0 for the main task.
    key: the same in every schedule: built from the parent's key and the how-manieth
      child this is.
    taken: False once it has ended.
    asleep: it waits to be woken by somebody, as opposed to waiting for a lock.
    predicate: what it sleeps for, if it said so.
    thrown: an exception to be raised where it waits.
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
        "phantom",
        "predicate",
        "rouse",
        "run",
        "taken",
        "thread",
        "thrown",
        "unwinding",
        "yields",
    )

    def __init__(
        self,
        run: Scheduler,
        number: int,
        key: int,
        name: str,
        body: Callable[[], object],
        *,
        daemon: bool,
    ) -> None:
        self.run: Scheduler = run
        self.number: int = number
        self.key: int = key
        self.name: str = name
        self.body: Callable[[], object] | None = body
        self.daemon: bool = daemon
        self.context: Context = Context()
        self.thread: threading.Thread | None = None
        self.gate: _thread.LockType = (
            _thread.allocate_lock()
        )  # the baton: released to let it run
        self.gate.acquire()
        self.ident: int = 0  # of its real thread, 0 before that exists
        self.obstacle: Obstacle = FREE
        self.deadline: float = NEVER
        self.taken: bool = True
        self.asleep: bool = False
        self.predicate: Callable[[], object] | None = None
        self.rouse: Callable[[], None] | None = None  # wakes it for no reason
        self.phantom: bool = False  # it was
        self.yields: bool = False  # at a switch point that lets others go first
        self.thrown: BaseException | None = None
        self.awaited: BaseException | None = None  # thrown by a test, so no failure
        self.error: BaseException | None = None
        self.error_known: bool = False
        self.children: int = 0
        self.locks: int = 0
        self.importing: int = 0
        self.unwinding: bool = False
        self.passes: int = 0

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def wake_for_no_reason(self) -> None:
        """Let its sleep end though nobody has released what it sleeps on."""
        self.phantom = True

"""`REFUSALS`: objects that the explorer cannot control, and so refuses to tasks.

Each of them waits, or makes others wait, outside Python code: in C, in the kernel, in
another process. Threads that are no tasks of a run may still use them.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import importlib
import os
import queue
import select
import socket
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any, Final

from queuebroker.testing import ending
from queuebroker.testing.scheduler import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["REFUSALS", "Imitation", "refusals"]


class Imitation(type):
    """A stand-in for real classes; calling it returns the result of ``make``.

    ``isinstance`` works with it, and so does access to attributes of the class.
    """

    def __new__(
        cls, name: str, kinds: tuple[type, ...], make: Callable[..., Any]
    ) -> Imitation:
        return super().__new__(cls, name, (), {"_kinds": kinds, "_make": make})

    def __init__(
        cls, name: str, kinds: tuple[type, ...], make: Callable[..., Any]
    ) -> None:
        super().__init__(name, (), {})
        cls._kinds: tuple[type, ...] = kinds
        cls._make: Callable[..., Any] = make

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._make(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._kinds)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._kinds[0], name)

    def __getitem__(cls, item: Any) -> Any:
        return types.GenericAlias(cls, item)


# Owner, attribute, name in the error. A method stands for the whole class.
REFUSALS: Final[list[tuple[Any, str, str]]] = [
    (queue, "SimpleQueue", "queue.SimpleQueue (ThreadPoolExecutor waits in one, too)"),
    (socket.socket, "__init__", "socket.socket"),
    (socket, "socketpair", "socket.socketpair"),
    (select, "select", "select.select"),
    (select, "poll", "select.poll"),
    (select, "epoll", "select.epoll"),
    (subprocess.Popen, "__init__", "subprocess.Popen"),
    (os, "fork", "os.fork"),
    (os, "forkpty", "os.forkpty"),
    (_thread, "start_new_thread", "_thread.start_new_thread"),
    (_thread, "start_joinable_thread", "_thread.start_joinable_thread"),
]

# The same, only if multiprocessing is loaded: module, class or "", attribute, name.
_OF_PROCESSES: Final[list[tuple[str, str, str, str]]] = [
    ("process", "BaseProcess", "start", "multiprocessing.Process"),
    ("synchronize", "SemLock", "__init__", "a lock of multiprocessing"),
    ("connection", "", "Pipe", "multiprocessing.Pipe (its queues have one, too)"),
]


def refusals() -> Iterator[tuple[Any, str, Any]]:
    """Yield owner, attribute and stand-in of every refused object that exists here."""
    table = list(REFUSALS)
    if "multiprocessing" in sys.modules:
        for path, kind, attribute, what in _OF_PROCESSES:
            with contextlib.suppress(ImportError):  # not every platform has them all
                module = importlib.import_module(f"multiprocessing.{path}")
                owner = getattr(module, kind) if kind else module
                table.append((owner, attribute, what))
    for owner, attribute, what in table:
        real = getattr(owner, attribute, None)  # not every platform has them all
        if real is not None:
            yield owner, attribute, _refusing(real, what)


def _refusing(real: Any, what: str) -> Any:
    @functools.wraps(real, updated=())
    def refuse(*args: Any, **kwargs: Any) -> Any:
        called = caller()
        if called is not None and not called[1].importing:
            ending.refuse(
                called[0],
                f"{what} cannot be explored: it waits where the explorer cannot look",
            )
        return real(*args, **kwargs)

    return (
        Imitation(real.__name__, (real,), refuse) if isinstance(real, type) else refuse
    )

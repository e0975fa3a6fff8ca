"""`renew`: new locks, conditions and queues for a module, in every run.

A lock in a module's namespace, or in that of one of its classes, is older than any run.
It is real, and its state would pass from one run to the next. In the modules that a
user has named, the main task replaces it with a new one at the start of every run.
The explorer controls the new one. Other data is left alone: the program must reset it.
"""

from __future__ import annotations

import _thread
import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from queuebroker.testing.primitives import SimulatedLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

__all__ = ["renew", "renewable"]

_Renewed = dict[int, Any]  # by identity of the old object: two may share a lock


def _lock(old: Any, _renewed: _Renewed) -> Any:
    new = threading.Lock()
    if old.locked():
        new.acquire()
    return new


def _event(old: Any, _renewed: _Renewed) -> threading.Event:
    event = threading.Event()
    event._flag = old._flag  # type: ignore[attr-defined] # no waiter is there yet
    return event


def _queue(old: Any, _renewed: _Renewed) -> Any:
    new = type(old)(old.maxsize)
    new.queue.extend(old.queue)
    new.unfinished_tasks = old.unfinished_tasks
    return new


def _condition(old: Any, renewed: _Renewed) -> threading.Condition:
    return threading.Condition(_new(old._lock, renewed))


def _semaphore(old: Any, _renewed: _Renewed) -> Any:
    new = type(old)(getattr(old, "_initial_value", old._value))
    new._value = old._value
    return new


def _barrier(old: Any, _renewed: _Renewed) -> threading.Barrier:
    return threading.Barrier(old._parties, old._action, old._timeout)


# Only these types: the constructor of a user's own class is unknown.
_MAKERS: Final[dict[type, Callable[[Any, _Renewed], Any]]] = {
    _thread.LockType: _lock,
    type(threading.RLock()): lambda _old, _renewed: threading.RLock(),
    threading.Condition: _condition,
    threading.Event: _event,
    threading.Semaphore: _semaphore,
    threading.BoundedSemaphore: _semaphore,
    threading.Barrier: _barrier,
    queue.Queue: _queue,
    queue.LifoQueue: _queue,
    queue.PriorityQueue: _queue,
}


def renewable(modules: Iterable[ModuleType]) -> list[tuple[Any, str, Any]]:
    """Return owner, name and value of every object that `renew` replaces."""
    return [
        (owner, name, value)
        for module in modules
        for owner in _owners(module)
        for name, value in vars(owner).items()
        if type(value) in _MAKERS
    ]


def renew(old: Iterable[tuple[Any, str, Any]]) -> None:
    """Replace old objects with new ones; called by a task of the run."""
    renewed: _Renewed = {}
    for owner, name, value in old:
        new = _new(value, renewed)
        _label(new, name)
        setattr(owner, name, new)


def _owners(module: ModuleType) -> Iterator[Any]:
    yield module
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value


def _new(old: Any, renewed: _Renewed) -> Any:
    if id(old) not in renewed:
        make = _MAKERS.get(type(old))
        renewed[id(old)] = old if make is None else make(old, renewed)
    return renewed[id(old)]


def _label(new: Any, name: str) -> None:
    """Set the label of a lock in stories to its name in the module."""
    lock = new
    for part in ("_cond", "mutex", "_lock"):
        lock = getattr(lock, part, lock)
    if isinstance(lock, SimulatedLock) and lock.label:
        lock.label = name

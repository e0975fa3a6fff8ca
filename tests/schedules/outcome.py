"""Outcomes of calls in threads, in a form that a scenario can compare.

Scenarios state the allowed outcomes; any other, above all an exception of another type,
fails the schedule with that exception as the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queuebroker import QueueBrokerError

if TYPE_CHECKING:
    from queuebroker.testing import Spawned

__all__ = ["failed", "finish", "outcome", "result"]

T = TypeVar("T")


def finish(*calls: Spawned[Any]) -> None:
    """Wait until each of the calls has returned or raised."""
    for call in calls:
        call.join()


def result(call: Spawned[T]) -> T:
    """Return the result of a call, once it has ended; raise its exception."""
    call.join()
    return call.result


def outcome(call: Spawned[Any], *expected: type[BaseException]) -> object:
    """Return the result of a call, or the class of its exception, once it has ended.

    Raises:
        AssertionError: it raised something else than ``expected``.
    """
    call.join()
    error = call.error
    if error is None:
        return call.result
    if type(error) in expected:
        return type(error)
    names = " or ".join(one.__name__ for one in expected) or "no exception"
    raise AssertionError(f"{call.name} raised {error!r}, not {names}") from error


def failed(call: Spawned[Any]) -> bool:
    """Wait for a call; return whether it raised. Only our own errors are allowed."""
    call.join()
    error = call.error
    if error is not None and not isinstance(error, QueueBrokerError):
        raise AssertionError(f"{call.name} raised {error!r}") from error
    return error is not None

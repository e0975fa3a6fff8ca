"""What calls in threads came to, as a scenario compares it.

Scenarios say which ends are allowed; anything else, an exception of another type
above all, fails the schedule with that exception as the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queuebroker import QueueBrokerError

if TYPE_CHECKING:
    from queuebroker.testing import Spawned

__all__ = ["failed", "finish", "outcome", "result"]

T = TypeVar("T")


def finish(*calls: Spawned[Any]) -> None:
    """Wait until each of the calls has ended, well or badly."""
    for call in calls:
        call.join()


def result(call: Spawned[T]) -> T:
    """Return what a call returned, once it has ended; raise what it raised."""
    call.join()
    return call.result


def outcome(call: Spawned[Any], *expected: type[BaseException]) -> object:
    """Return what a call returned, or the class of what it raised, once it has ended.

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
    """Tell, once a call has ended, whether it raised; only our own errors may be."""
    call.join()
    error = call.error
    if error is not None and not isinstance(error, QueueBrokerError):
        raise AssertionError(f"{call.name} raised {error!r}") from error
    return error is not None

"""The outcomes of operations, and the form of a recorded operation.

Models return an `Answer` and never raise: an exception is one of the outcomes they
describe. Exceptions of an implementation are classified by Python's own base classes,
or by the class names that QB-ERR-1 fixes, so nothing is imported for that.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Answer", "Ending", "Operation", "answer_of", "changed"]

Recorded = TypeVar("Recorded", bound="Operation")


class Ending(enum.Enum):
    """The ways in which an operation can end, or not have ended yet."""

    DONE = enum.auto()
    WAITS = enum.auto()  # not enabled: only an operation of another caller can end it
    DISCONNECTED = enum.auto()
    TIMED_OUT = enum.auto()
    BROKER_CLOSED = enum.auto()
    UNKNOWN_BROKER = enum.auto()
    NAME_IN_USE = enum.auto()
    PORT_IN_USE = enum.auto()
    REFUSED = enum.auto()  # wrong arguments: nothing happened
    BROKEN = enum.auto()  # interrupted from outside: it took effect, or it did not


@attrs.frozen
class Answer:
    """The end of an operation; `value` is what it returned if it is DONE."""

    kind: Ending
    value: object = None


class Operation(Protocol):
    """One recorded call; `queuebroker.testing.Call` is one.

    name, args: the call; each model defines those it accepts.
    result, error: its outcome; both None if it is `pending`: it never returned.
    began, ended: the points of call and return, in one order of events over the whole
      history; infinite if it never returned.
    """

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> tuple[object, ...]: ...
    @property
    def result(self) -> object: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def pending(self) -> bool: ...
    @property
    def began(self) -> float: ...
    @property
    def ended(self) -> float: ...


# By class name, nearest class first, so that an implementation with the classes of
# QB-ERR-1 is classified without an import.
_ENDINGS: Mapping[str, Ending] = {
    "ConnectionError": Ending.DISCONNECTED,
    "TimeoutError": Ending.TIMED_OUT,
    "BrokerClosedError": Ending.BROKER_CLOSED,
    "UnknownBrokerError": Ending.UNKNOWN_BROKER,
    "BrokerNameInUseError": Ending.NAME_IN_USE,
    "PortInUseError": Ending.PORT_IN_USE,
    "TypeError": Ending.REFUSED,
    "ValueError": Ending.REFUSED,
}


def answer_of(
    operation: Operation,
    disconnected_error: type[BaseException] = ConnectionError,
) -> Answer | None:
    """Return the outcome of a recorded operation, None if it never returned.

    disconnected_error: the implementation's exception class for a disconnected end.
    """
    if operation.pending:
        return None
    error = operation.error
    if error is None:
        return Answer(Ending.DONE, operation.result)
    if isinstance(error, disconnected_error):
        return Answer(Ending.DISCONNECTED)
    for each in type(error).__mro__:
        if each.__name__ in _ENDINGS:
            return Answer(_ENDINGS[each.__name__])
    return Answer(Ending.BROKEN)


def changed(operation: Recorded, **changes: object) -> Recorded:
    """Return a changed copy of a recorded operation, which must be an attrs object."""
    if not attrs.has(type(operation)):
        raise TypeError(f"operation must be an attrs object, got {operation!r}")
    evolve: Callable[..., Recorded] = attrs.evolve
    return evolve(operation, **changes)

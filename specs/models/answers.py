"""How an operation ends, and what a recorded operation looks like.

Models answer with an `Answer` and never raise: to raise is one of the outcomes they
describe. Exceptions of an implementation are read by what they are in Python's own
terms, or by the class names that QB-ERR-1 fixes, so nothing is imported for that.
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
    """The ways in which an operation can end, or not end yet."""

    DONE = enum.auto()
    WAITS = enum.auto()  # not enabled: only somebody else's operation can end it
    DISCONNECTED = enum.auto()
    TIMED_OUT = enum.auto()
    BROKER_CLOSED = enum.auto()
    UNKNOWN_BROKER = enum.auto()
    NAME_IN_USE = enum.auto()
    PORT_IN_USE = enum.auto()
    REFUSED = enum.auto()  # wrong arguments: nothing happened
    BROKEN = enum.auto()  # struck from outside: it happened, or it did not


@attrs.frozen
class Answer:
    """The end of an operation; `value` is what it returned if it is DONE."""

    kind: Ending
    value: object = None


class Operation(Protocol):
    """One recorded call; `queuebroker.testing.Call` is such.

    name, args: what was called; each model says what it expects.
    result, error: how it ended; both None while `pending`, it then never returned.
    began, ended: when it was called and when it returned, as points of one order of
      events over the whole history; infinite if it never returned.
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


# By class name, nearest class first, so that an implementation that has the classes of
# QB-ERR-1 is understood without being imported.
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
    """How a recorded operation ended, None if it never returned.

    disconnected_error: what the implementation raises on a disconnected end.
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
    """A copy of a recorded operation, which must be an attrs object, with changes."""
    if not attrs.has(type(operation)):
        raise TypeError(f"operation must be an attrs object, got {operation!r}")
    evolve: Callable[..., Recorded] = attrs.evolve
    return evolve(operation, **changes)

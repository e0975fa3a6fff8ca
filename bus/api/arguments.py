"""Argument checks: one check and one error for each kind of argument.

Every function checks its arguments first, so that a call that raises `TypeError` or
`ValueError` has changed nothing.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from bus.address import Address
from bus.registration import Visibility
from bus.threads.account import Overflow
from queuebroker.arguments import (
    check_callable,
    check_instance,
    deadline_after,
    positive,
    wrong_type,
)

if TYPE_CHECKING:
    from bus.config import BusConfig

__all__ = [
    "UNSET",
    "Unset",
    "addressees",
    "answer_timeout",
    "check_callback",
    "check_instance",
    "check_optional_callback",
    "check_thread_name",
    "check_visibility",
    "deadline_after",
    "duration",
    "new_account_limits",
    "wrong_type",
]


class Unset(enum.Enum):
    """The default of an argument for which None has a meaning of its own."""

    UNSET = "as configured"

    def __repr__(self) -> str:
        """Return the text that signatures show."""
        return self.value


UNSET: Final = Unset.UNSET

_OVERFLOWS: Final[tuple[str, ...]] = get_args(Overflow)


def check_callback(what: str, value: object) -> None:
    """Check a callback; coroutine functions are refused, since they would never run."""
    check_callable(what, value)
    called = type(value).__call__ if callable(value) else None
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(called):
        msg = f"{what} is a coroutine function: a thread of the bus runs no event loop"
        raise TypeError(msg)


def check_optional_callback(what: str, value: object) -> None:
    """Check a callback that may be None."""
    if value is not None:
        check_callback(what, value)


def check_thread_name(name: object) -> None:
    """Check the name of a thread: None, or a string that can be encoded as UTF-8."""
    if name is None:
        return
    if not isinstance(name, str):
        raise wrong_type("name of a thread", "a str or None", name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        msg = f"name of a thread holds a lone surrogate: at {error.start}"
        raise ValueError(msg) from None


def check_visibility(value: object) -> None:
    """Check the visibility of a task."""
    check_instance("visibility", value, Visibility)


def duration(what: str, value: object) -> float:
    """Return a duration in seconds, at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(what, "a number", value)
    if not value >= 0:  # NaN is not >= 0 either
        msg = f"{what} must be >= 0, got {value}"
        raise ValueError(msg)
    return float(value)


def answer_timeout(config: BusConfig, timeout: float | Unset | None) -> float | None:
    """Return the timeout of a question in seconds; None for no limit."""
    return config.command_timeout_s if timeout is UNSET else timeout


def new_account_limits(
    config: BusConfig, overflow: object, capacity: object
) -> dict[str, Any]:
    """Return the keyword arguments of an `Account`: its bounds and its policy."""
    if overflow not in _OVERFLOWS:
        msg = f"overflow must be one of {', '.join(_OVERFLOWS)}, got {overflow!r}"
        raise ValueError(msg)
    limit = config.task_fifo_messages
    return {
        "messages_max": limit if capacity is None else positive("capacity", capacity),
        "bytes_max": config.task_fifo_bytes,
        "overflow": overflow,
    }


def addressees(to: object) -> tuple[str | Address, ...]:
    """Return the addressees of a command: a single one, or each of a sequence."""
    if isinstance(to, (str, Address)):
        return (to,)
    wanted = "a name, an Address or a sequence of these"
    if not isinstance(to, Sequence) or isinstance(to, (bytes, bytearray, memoryview)):
        raise wrong_type("to", wanted, to)
    if not to:
        msg = "to must name at least one addressee, got none"
        raise ValueError(msg)
    for each in to:
        if not isinstance(each, (str, Address)):
            raise wrong_type("to", wanted, each)
    return tuple(to)

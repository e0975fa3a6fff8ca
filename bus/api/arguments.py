"""Argument checks: one check and one error for each kind of argument.

Every function checks its arguments first, so that a call that raises `TypeError` or
`ValueError` has changed nothing.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import attrs

from bus.model.address import ANY_MACHINE, SYSTEM, Address, check_module_name, is_system
from bus.model.config import BusConfig
from bus.model.message import Incoming
from bus.model.registration import Visibility
from bus.process.account import Overflow
from queuebroker.arguments import (
    check_callable,
    check_instance,
    deadline_after,
    positive,
    wrong_type,
)

if TYPE_CHECKING:
    from bus.kernel.tasks.routing_table import Entry

__all__ = [
    "UNSET",
    "OnFull",
    "Unset",
    "addressees",
    "answer_timeout",
    "check_addressee",
    "check_callback",
    "check_instance",
    "check_optional_callback",
    "check_received",
    "check_task_name",
    "check_thread_name",
    "check_visibility",
    "config_or_default",
    "deadline_after",
    "duration",
    "new_account_limits",
    "new_address",
    "wrong_type",
]


# What to do if there is no room for a loan.
OnFull: TypeAlias = Literal["error", "wait"]


class Unset(enum.Enum):
    """The default of an argument for which None has a meaning of its own."""

    UNSET = "as configured"

    def __repr__(self) -> str:
        """Return the text that signatures show."""
        return self.value


UNSET: Final = Unset.UNSET

_OVERFLOWS: Final[tuple[str, ...]] = get_args(Overflow)


def check_addressee(to: object) -> None:
    """Check the addressee of a call: a name, or an `Address`."""
    if not isinstance(to, (str, Address)):
        raise wrong_type("to", "a name or an Address", to)


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


def check_received(message: Incoming, task: Entry) -> None:
    """Check a message that a task answers: the task has received it."""
    check_instance("message", message, Incoming)
    if message._to is not task:
        msg = f"cannot respond: {task.name!r} did not receive that message"
        raise ValueError(msg)


def check_task_name(name: str) -> None:
    """Check the name of a new task; those that begin with `SYSTEM` are reserved."""
    check_module_name(name)
    if is_system(name):
        msg = f"names that begin with {SYSTEM}/ belong to the bus, got {name!r}"
        msg = f"{msg}; choose another name"
        raise ValueError(msg)


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


def config_or_default(config: BusConfig | None) -> BusConfig:
    """Return a configuration; the default one for None."""
    if config is None:
        return BusConfig()
    check_instance("config", config, BusConfig)
    return config


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


def new_address(entry: Entry, moved_to: str | Address | None, *, final: bool) -> str:
    """Return the address of a task that moves to another machine; "" for None.

    final: the other argument of `Task.deregister`, which excludes an address.
    """
    if moved_to is None:
        return ""
    new = moved_to if isinstance(moved_to, Address) else Address.parse(moved_to)
    own = entry.address
    if entry.visibility is Visibility.PRIVATE:
        raise ValueError(
            f"moved_to is for public tasks, {entry.name!r} is private: leave it out"
        )
    if new.machine in {None, ANY_MACHINE, own.machine} or new.bus not in {
        None,
        own.bus,
    }:
        raise ValueError(
            "moved_to must be an address of another machine on this bus, such as "
            f"'ism://machine/{new.module}', got {str(new)!r}"
        )
    if final:
        raise ValueError("moved_to and final exclude each other: give one of them")
    return str(attrs.evolve(new, bus=None))

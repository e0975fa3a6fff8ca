"""The errors of bounded memory, which the caller avoids by waiting or sending less."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = [
    "ArenaFullError",
    "BusError",
    "BusFullError",
    "DemoError",
    "JournalError",
    "PipelineError",
    "StaleLeaseError",
    "WireError",
]

Error = TypeVar("Error", bound="BusError")


class BusError(Exception):
    """Root of every exception this package defines."""

    def __init__(self, *args: object) -> None:
        # `inspect.signature` finds none in a constructor of the interpreter.
        super().__init__(*args)

    # `Exception.__reduce__` would call the class with `args`, which is the text; these
    # constructors take the data.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    """Rebuild an error that was pickled or copied, notes included."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


class BusFullError(BusError):
    """A bounded buffer has no room left; the message was not sent (BUS-FLOW-1, 2).

    Under the policy ``block`` it is raised after `BusConfig.send_timeout_s`, but
    immediately for a cooperative task, which must not wait. Not raised for
    notifications whose subscribers drop the excess.

    what: the full buffer, such as ``task 'f'``.
    limit, unit: its bound, and the unit: "messages", "bytes" or another.
    """

    def __init__(self, what: str, limit: int, unit: str = "messages") -> None:
        super().__init__(f"cannot send: {what} is full: {limit} {unit}")
        self.what: str = what
        self.limit: int = limit
        self.unit: str = unit


class ArenaFullError(BusError):
    """The shared memory has no room for a message, and the sender may not wait.

    Not raised under the policies that wait, drop, or send it over the ordinary link.

    needed, limit: bytes of the message, bytes of the arena.
    """

    def __init__(self, needed: int, limit: int) -> None:
        if needed > limit:  # to wait would be in vain
            why = f"they exceed the arena of {limit} bytes; make the arena larger"
        else:
            why = (
                f"the arena of {limit} bytes is full; wait until recipients have "
                f"released messages"
            )
        super().__init__(f"cannot send {needed} bytes: {why}, or send through a link")
        self.needed: int = needed
        self.limit: int = limit


class StaleLeaseError(BusError):
    """The leased memory was released, and may now hold other bytes.

    lease: the number of the lease; numbers are never reused.
    """

    def __init__(self, lease: int) -> None:
        super().__init__(
            f"cannot use a message: its lease has ended: {lease}; use it before the "
            f"release, or copy it"
        )
        self.lease: int = lease


class JournalError(BusError):
    """A folder holds no readable journal, or a file of one is unreadable.

    Not raised for a journal that is merely incomplete: that is a verdict (J1).
    """


class PipelineError(BusError):
    """Spark cannot run here, or cannot write its output; one line names the remedy."""


class DemoError(BusError):
    """The demo cannot start, read its input or write; the text gives the reason."""


class WireError(BusError):
    """A peer violated the protocol; the text names the violation. No state changed."""

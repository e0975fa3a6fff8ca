"""The root of all errors, and those of bounded memory, of tools and of operators."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = [
    "AccessDeniedError",
    "ArenaFullError",
    "BusError",
    "BusFullError",
    "DemoError",
    "DuplicateSenderError",
    "HorizonError",
    "JournalError",
    "MachineNameConflictError",
    "PipelineError",
    "StaleLeaseError",
    "VersionMismatchError",
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


class AccessDeniedError(BusError):
    """The access list, or the system's permissions, forbid the operation (BUS-INIT-5).

    act: the requested operation, such as ``join bus 'bus1'``.
    fact: the reason, as far as the other side reports it.
    """

    def __init__(self, act: str, fact: str) -> None:
        super().__init__(f"cannot {act}: access is denied: {fact}")
        self.act: str = act
        self.fact: str = fact


class VersionMismatchError(BusError):
    """Two processes have no version of the protocol in common (BUS-WIRE-3).

    ours, theirs: lowest and highest version that each supports.
    """

    def __init__(self, ours: tuple[int, int], theirs: tuple[int, int]) -> None:
        super().__init__(
            f"cannot join: no version in common: ours {ours[0]} to {ours[1]}, "
            f"theirs {theirs[0]} to {theirs[1]}"
        )
        self.ours: tuple[int, int] = ours
        self.theirs: tuple[int, int] = theirs


class MachineNameConflictError(BusError):
    """This machine name is used by a master on another host (BUS-DISC-8).

    machine: the name.
    """

    def __init__(self, machine: str) -> None:
        super().__init__(
            f"cannot join as machine {machine!r}: a master on another host has that "
            "name; choose another one"
        )
        self.machine: str = machine


class DuplicateSenderError(BusError):
    """Two living processes claim one identity; the later one is rejected (AMO-18).

    sender: the identity.
    """

    def __init__(self, sender: str) -> None:
        super().__init__(f"cannot open a stream: another process sends as: {sender!r}")
        self.sender: str = sender


class HorizonError(BusError):
    """The horizons of this process cannot be read or stored (AMO-20).

    path: their file. fact: the fault.
    offset: the position of the fault in the file, in bytes; None if there is none.
    """

    def __init__(
        self, path: str, fact: str, remedy: str, offset: int | None = None
    ) -> None:
        where = "" if offset is None else f" at byte {offset}"
        super().__init__(f"cannot use the horizons in {path}{where}: {fact}; {remedy}")
        self.path: str = path
        self.fact: str = fact
        self.offset: int | None = offset

"""The errors that an operator must fix: access, versions, identities."""

from __future__ import annotations

from bus.errors.base import BusError

__all__ = [
    "AccessDeniedError",
    "DuplicateSenderError",
    "HorizonError",
    "MachineNameConflictError",
    "VersionMismatchError",
]


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

"""`CAPABILITIES`: the table of supported capabilities, by system.

``bus doctor`` shows the rows that this system lacks, and a page of the documentation
has the table. `FACILITIES` lists the facilities of each system; `here` finds those of
this one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from queuebroker import _files, _net

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CAPABILITIES", "FACILITIES", "Capability", "Facility", "here"]


class Facility(enum.Enum):
    """A part of a system that a capability needs."""

    UNIX_SOCKETS = enum.auto()
    SEALED_MEMORY = enum.auto()  # memory that its owner cannot shrink


@attrs.frozen
class Capability:
    """One row of the table.

    name: the capability, in words.
    needs: the facility that it needs; None for a capability of every system.
    otherwise: the substitute on a system without that facility, in words.
    """

    name: str
    needs: Facility | None = None
    otherwise: str = ""

    def on(self, facilities: frozenset[Facility]) -> str:
        """Return "yes", or the substitute on a system with these facilities."""
        has = self.needs is None or self.needs in facilities
        return "yes" if has else self.otherwise


# The facilities by system. The tests compare each with `here`, in a portable run.
FACILITIES: Final[Mapping[str, frozenset[Facility]]] = {
    "Linux": frozenset(Facility),
    "macOS": frozenset({Facility.UNIX_SOCKETS}),
    "Windows": frozenset(),
}

CAPABILITIES: Final = (
    Capability("queues between threads, typed queues, asyncio, the explorer"),
    Capability("conformance suite, models"),
    Capability("journal, `bus check`, the demo in threads"),
    Capability("sockets over TCP and TLS"),
    Capability("sockets at a path (`ipc://`)", Facility.UNIX_SOCKETS, "no"),
    Capability("a bus in one process"),
    Capability(
        "a bus between processes of a machine",
        Facility.UNIX_SOCKETS,
        "each process is a machine, with a `machine`, a run directory and a `Network` "
        "of its own",
    ),
    Capability("a bus between machines"),
    Capability(
        "commands for a live bus: `bus call`, `bus list`, `bus record` and others",
        Facility.UNIX_SOCKETS,
        "`bus replay` alone, with `--network`; a program does what the others do",
    ),
    Capability("`bus.pattern` over `tcp` and `inproc`"),
    Capability("`bus.pattern` over `ipc`", Facility.UNIX_SOCKETS, "no"),
    Capability(
        "long messages in shared memory",
        Facility.SEALED_MEMORY,
        "sent over the link",
    ),
    Capability(
        "access lists by user and group (`AccessList`)",
        Facility.UNIX_SOCKETS,
        "no, a certificate admits a peer",
    ),
)


def here() -> frozenset[Facility]:
    """Return the facilities of this system."""
    has = {
        Facility.UNIX_SOCKETS: _net.HAS_UNIX,
        Facility.SEALED_MEMORY: _files.HAS_SEALED_MEMORY,
    }
    return frozenset(each for each, there in has.items() if there)

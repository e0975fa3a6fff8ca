"""What control frames are made of: bounded numbers, texts and names, and who is who.

Lengths and ranges are checked by the decoder, before anything is made of them; what a
legal name is, by `bus.address`, and that also for who makes a frame. Every bound here
is part of the protocol: to widen one is a change of version.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from bus.address import check_bus_name, check_machine_name, check_module_name
from bus.core.routing_table import Overflow, RegistrationId, Visibility

__all__ = [
    "U16",
    "U32",
    "U64",
    "Addresses",
    "BusName",
    "Characteristics",
    "Identity",
    "LinkKind",
    "MachineName",
    "ModuleName",
    "Number",
    "Overflow",
    "Part",
    "Reason",
    "RequestId",
    "Role",
    "Text",
    "Versions",
    "check_registration",
]

U16: TypeAlias = Annotated[int, Meta(ge=0, lt=2**16)]
U32: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
U64: TypeAlias = Annotated[int, Meta(ge=0)]  # MessagePack has no greater ones
Number: TypeAlias = Annotated[int, Meta(ge=1)]

# As long as BUS-NAME-6 lets them be.
MachineName: TypeAlias = Annotated[str, Meta(max_length=63)]
ModuleName: TypeAlias = Annotated[str, Meta(max_length=128)]
BusName: TypeAlias = Annotated[str, Meta(max_length=32)]
Text: TypeAlias = Annotated[str, Meta(max_length=256)]

Versions: TypeAlias = tuple[U16, U16]
# Where a process listens, each as its link layer writes it.
Addresses: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=8)
]

_NAME_MAX: Final = 128


class Role(Enum):
    """What a process is on its machine (BUS-ENT-13)."""

    MASTER = "master"
    SLAVE = "slave"


class LinkKind(Enum):
    """What a link is for (BUS-ENT-12)."""

    SIGNALLING = "signalling"
    DATA = "data"


class Reason(Enum):
    """Why something was refused or failed: what the typed error is made from."""

    VERSION = "version"  # BUS-WIRE-3
    ACCESS = "access"  # BUS-INIT-5, BUS-SEC-1, BUS-SEC-7
    BUS = "bus"  # BUS-ENT-12: the link was opened for another one
    BUSY = "busy"  # BUS-SEC-9, BUS-FLOW-1: something bounded is full
    DUPLICATE = "duplicate"  # BUS-INIT-6, AMO-18: somebody is that already
    MACHINE_NAME = "machine-name"  # BUS-DISC-8: another machine has the name
    NAME_TAKEN = "name-taken"  # BUS-NAME-7
    UNREACHABLE = "unreachable"  # BUS-ROUTE-16
    WIRE = "wire"  # BUS-WIRE-4: it was not understood
    CLOSING = "closing"  # BUS-DEREG-12


class Part(Struct, frozen=True, omit_defaults=True):
    """A frame or a part of one: by keys, unknown ones ignored, defaults left out."""


class Identity(Part, frozen=True, kw_only=True):
    """Who is at the other end of a link (BUS-INIT-4).

    machine_id: tells two machines of one name apart (BUS-DISC-8).
    process: as registrations name it; process_id: as its machine's system does.
    incarnation: one life of the process (AMO-19, BUS-ROUTE-11).
    """

    bus: BusName
    machine: MachineName
    machine_id: MachineName
    process: ModuleName
    process_id: U64
    incarnation: U64
    role: Role

    def __post_init__(self) -> None:
        check_bus_name(self.bus)
        check_machine_name(self.machine)
        check_machine_name(self.machine_id)
        check_module_name(self.process)


class RequestId(Part, frozen=True, kw_only=True):
    """One search or one subscription, wherever it has come to (OPEN-9, AMO-29).

    machine, process: who asks; number: that process's own, never used twice.
    """

    machine: MachineName
    process: ModuleName
    number: Number

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.process)


class Characteristics(Part, frozen=True, kw_only=True):
    """What a relay of a task is made from, in another process (BUS-RELAY-4).

    relay: the number by which message frames mean the task; its process chooses it,
      and never gives it to another task in one incarnation (BUS-WIRE-1).
    incarnation: of the task's process, since the relay ends with it.
    overflow: what becomes of commands that it has no room for: its relay does likewise.
    closed: who is told this may not send it commands (BUS-SEC-1): by its name it is to
      ask the master, who says so.
    user: whose process it is, as the system has told the master that passes this on.
    """

    relay: U32
    id: RegistrationId
    name: ModuleName
    visibility: Visibility = Visibility.PUBLIC
    incarnation: U64
    overflow: Overflow = "error"
    closed: bool = False
    user: U32 | None = None

    def __post_init__(self) -> None:
        check_registration(self.id)
        check_module_name(self.name)


def check_registration(registration: RegistrationId) -> None:
    """Raise unless it is one that a registration can have.

    It is not a part of frames only, and so has no bounds of its own.

    Raises:
        ValueError: a name is not legal, or the number is not positive and of 64 bits.
    """
    for name in (registration.machine, registration.process):
        if len(name) > _NAME_MAX:
            # Its own words: those of the checks below would quote all of it.
            msg = f"name in a registration must be <= {_NAME_MAX} long, got {len(name)}"
            raise ValueError(msg)
    check_machine_name(registration.machine)
    check_module_name(registration.process)
    if not 1 <= registration.number < 2**64:
        msg = f"number of a registration must be >= 1, got {registration.number}"
        raise ValueError(msg)

"""Parts of control frames: bounded numbers, texts and names, and identities.

The decoder checks lengths and ranges before it makes any object. `bus.model.address`
checks whether a name is legal, also when a frame is made. Every bound here is part of
the protocol: a wider one needs a new version.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from bus.errors import VersionMismatchError
from bus.model.address import (
    ANY_MACHINE,
    Address,
    check_bus_name,
    check_machine_name,
    check_module_name,
)
from bus.model.registration import Overflow, RegistrationId, Visibility

__all__ = [
    "ADDRESS_MAX",
    "TEXT_MAX",
    "U16",
    "U32",
    "U64",
    "VERSIONS",
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
    "check_moved_to",
    "check_registration",
    "check_versions",
    "negotiate",
]

# The versions that this code supports, lowest and highest. A new version is needed only
# for a frame that older code would refuse; keys and optional types are added without
# one.
VERSIONS: Final = (2, 2)


def negotiate(ours: tuple[int, int], theirs: tuple[int, int]) -> int:
    """Return the highest version that both sides support.

    ours, theirs: the lowest and the highest version of each side.

    Both sides get the same result.

    Raises:
        VersionMismatchError: there is none.
    """
    lowest = max(ours[0], theirs[0])
    highest = min(ours[1], theirs[1])
    if lowest > highest:
        raise VersionMismatchError(ours, theirs)
    return highest


U16: TypeAlias = Annotated[int, Meta(ge=0, lt=2**16)]
U32: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
U64: TypeAlias = Annotated[int, Meta(ge=0)]  # MessagePack has no greater numbers
Number: TypeAlias = Annotated[int, Meta(ge=1)]

# The lengths that BUS-NAME-6 allows.
MachineName: TypeAlias = Annotated[str, Meta(max_length=63)]
ModuleName: TypeAlias = Annotated[str, Meta(max_length=128)]
BusName: TypeAlias = Annotated[str, Meta(max_length=32)]
TEXT_MAX: Final = 256  # characters
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)]

Versions: TypeAlias = tuple[U16, U16]
ADDRESS_MAX: Final = 128
# The addresses on which a process listens, each as its link layer writes it.
Addresses: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(max_length=ADDRESS_MAX)], ...], Meta(max_length=8)
]

_NAME_MAX: Final = 128


class Role(Enum):
    """The role of a process on its machine (BUS-ENT-13)."""

    MASTER = "master"
    SLAVE = "slave"


class LinkKind(Enum):
    """The purpose of a link (BUS-ENT-12)."""

    SIGNALLING = "signalling"
    DATA = "data"


class Reason(Enum):
    """The reason for a refusal or a failure: the typed error is made from it."""

    VERSION = "version"  # BUS-WIRE-3
    ACCESS = "access"  # BUS-INIT-5, BUS-SEC-1, BUS-SEC-7
    BUS = "bus"  # BUS-ENT-12: the link was opened for another bus
    BUSY = "busy"  # BUS-SEC-9, BUS-FLOW-1: a bounded resource is full
    DUPLICATE = "duplicate"  # BUS-INIT-6, AMO-18: the identity is in use
    MACHINE_NAME = "machine-name"  # BUS-DISC-8: another machine has the name
    NAME_TAKEN = "name-taken"  # BUS-NAME-7
    UNREACHABLE = "unreachable"  # BUS-ROUTE-16
    MOVED = "moved"  # BUS-MOVE-9: the task goes on at another machine
    ABSENT = "absent"  # BUS-ROUTE-21: no task of this machine has the name yet
    WIRE = "wire"  # BUS-WIRE-4: the frame was not understood
    CLOSING = "closing"  # BUS-DEREG-12


class Part(Struct, frozen=True, omit_defaults=True):
    """A frame or a part of one: a map that omits defaults; unknown keys are ignored."""


class Identity(Part, frozen=True, kw_only=True):
    """The process at the other end of a link (BUS-INIT-4).

    machine_id: distinguishes two machines of one name (BUS-DISC-8).
    process: its name in registrations; process_id: its number in the operating system.
    incarnation: identifies one start of the process (AMO-19, BUS-ROUTE-11).
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
    """The identity of one search or subscription, in all processes (OPEN-9, AMO-29).

    machine, process: the asker; number: assigned by the asker, never used twice.
    """

    machine: MachineName
    process: ModuleName
    number: Number

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.process)


class Characteristics(Part, frozen=True, kw_only=True):
    """The data from which another process makes the relay of a task (BUS-RELAY-4).

    relay: the number of the task in message frames. Its process assigns it, and never
      gives it to another task in one incarnation (BUS-WIRE-1).
    incarnation: of the task's process, since the relay ends with it.
    overflow: policy for commands that exceed the task's capacity, which its relay
      follows, too.
    closed: True if the receiver of this may not send the task commands (BUS-SEC-1). It
      must then search for the name at the master, which refuses.
    user: the user of the task's process, as the operating system reported it to the
      master that forwards this.
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


def check_moved_to(text: str) -> None:
    """Raise unless a text is the address of a task on a machine of the same bus.

    Raises:
        ValueError: it is none (BUS-MOVE-9).
    """
    address = Address.parse(text)
    if address.machine in {None, ANY_MACHINE} or address.bus is not None:
        raise ValueError(f"new address must name a machine and no bus, got {text!r}")


def check_registration(registration: RegistrationId) -> None:
    """Raise unless a registration can have this identity.

    The type is not used in frames only, and so has no bounds of its own.

    Raises:
        ValueError: a name is not legal, or the number is not positive and of 64 bits.
    """
    for name in (registration.machine, registration.process):
        if len(name) > _NAME_MAX:
            # A message of its own: those of the checks below would quote the whole
            # name.
            msg = f"name in a registration must be <= {_NAME_MAX} long, got {len(name)}"
            raise ValueError(msg)
    check_machine_name(registration.machine)
    check_module_name(registration.process)
    if not 1 <= registration.number < 2**64:
        msg = f"number of a registration must be >= 1, got {registration.number}"
        raise ValueError(msg)


def check_versions(versions: tuple[int, int]) -> None:
    """Raise unless the versions are the lowest and the highest of a process.

    Raises:
        ValueError: they are in the wrong order.
    """
    if versions[0] > versions[1]:
        msg = f"versions must be lowest and highest, got {versions[0]}, {versions[1]}"
        raise ValueError(msg)

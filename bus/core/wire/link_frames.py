"""Frames about the link itself, and the process behind it (BUS-WIRE-2).

The docstring of each frame names the clauses that need its fields.
"""

from __future__ import annotations

from bus.address import check_machine_name, check_module_name
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.parts import (
    U16,
    U32,
    U64,
    Addresses,
    Identity,
    LinkKind,
    MachineName,
    ModuleName,
    Reason,
    RequestId,
    Text,
    Versions,
    check_moved_to,
    check_registration,
    check_versions,
)
from bus.registration import RegistrationId  # read by `msgspec`

__all__ = [
    "Bye",
    "ConnectOffer",
    "Error",
    "Hello",
    "Ping",
    "Pong",
    "Refused",
    "Welcome",
]


class Hello(ControlFrame, frozen=True, kw_only=True):
    """The first frame of the process that dialled (BUS-INIT-4).

    versions: the lowest and the highest version that it supports (BUS-WIRE-3).
    kind: the purpose of the link (BUS-ENT-12).
    message_bytes_max: the longest body that it accepts (OPEN-6).
    inside_address: the address at which it listens for its own machine, if it dials its
      master; for links that the master forwards (BUS-ROUTE-16).
    """

    type = FrameType.HELLO
    versions: Versions
    identity: Identity
    kind: LinkKind
    message_bytes_max: U32
    inside_address: Text = ""

    def __post_init__(self) -> None:
        check_versions(self.versions)


class Welcome(ControlFrame, frozen=True, kw_only=True):
    """The acceptance of a HELLO: all other frames may follow (BUS-INIT-4).

    version: the version that both sides use (BUS-WIRE-3).
    """

    type = FrameType.WELCOME
    version: U16
    identity: Identity
    message_bytes_max: U32


class Refused(ControlFrame, frozen=True, kw_only=True):
    """The refusal of a HELLO, before the link is closed (BUS-INIT-5).

    text: if the reason is MACHINE_NAME, and another machine of that name has a link
      with the refusing one: the address of that other machine (BUS-DISC-8).
    versions: those of the refusing process, for the peer's error (BUS-WIRE-3).
    machine: its machine, so that the peer knows which one is at the address that it
      dialled; "" from a process of an earlier version.
    """

    type = FrameType.REFUSED
    reason: Reason
    text: Text = ""
    versions: Versions
    machine: Text = ""

    def __post_init__(self) -> None:
        check_versions(self.versions)


class ConnectOffer(ControlFrame, frozen=True, kw_only=True):
    """The addresses where a process can be dialled for a data link (BUS-ROUTE-14).

    incarnation: of that process; one of another incarnation is another peer.
    """

    type = FrameType.CONNECT_OFFER
    machine: MachineName
    process: ModuleName
    incarnation: U64
    addresses: Addresses

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.process)


class Error(ControlFrame, frozen=True, kw_only=True):
    """The refusal of a request, a message or a frame (OPEN-3, BUS-MSG-20, BUS-WIRE-4).

    text: a description; if the reason is MOVED, the new address of the task; if it is
      MACHINE_NAME, the address of another machine with the name of the receiver's.
    id, request: the registration or the request that it is about, if any.
    message: the number of the message that was not delivered (BUS-MSG-20); 0 for none.
    """

    type = FrameType.ERROR
    reason: Reason
    text: Text = ""
    id: RegistrationId | None = None
    request: RequestId | None = None
    message: U64 = 0

    def __post_init__(self) -> None:
        if self.id is not None:
            check_registration(self.id)
        if self.reason is Reason.MOVED:
            check_moved_to(self.text)


class Ping(ControlFrame, frozen=True, kw_only=True):
    """A request for a sign of life (OPEN-2).

    number: repeated in the answer.
    """

    type = FrameType.PING
    number: U64


class Pong(ControlFrame, frozen=True, kw_only=True):
    """The answer to the PING of this number."""

    type = FrameType.PONG
    number: U64


class Bye(ControlFrame, frozen=True, kw_only=True):
    """The last frame of a link that is closed in order (BUS-DEREG-12, BUS-DISC-12)."""

    type = FrameType.BYE
    reason: Reason = Reason.CLOSING
    text: Text = ""

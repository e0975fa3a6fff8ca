"""What managers say of tasks: who is there, who is sought, who hears whom (BUS-WIRE-2).

Of each frame the docstring says which clauses need its fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bus.address import check_machine_name, check_module_name
from bus.core.routing_table import RegistrationId  # noqa: TC001  # read by `msgspec`
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.parts import (
    U32,
    U64,
    Addresses,
    Characteristics,
    MachineName,
    ModuleName,
    Overflow,
    RequestId,
    Text,
    check_registration,
)
from bus.specification import Specification

__all__ = [
    "AddRelay",
    "Cancel",
    "Dismiss",
    "Dismissed",
    "Eliminate",
    "Export",
    "Gap",
    "Search",
    "Subscribe",
    "Unexport",
    "Unrelay",
    "Unsubscribe",
]

_HOPS_MAX: Final = 3  # OPEN-9


class Export(ControlFrame, frozen=True, kw_only=True):
    """A public name of this process, for the master's table (BUS-INIT-11).

    registered_ns: when it was registered, since the machine's start: of two the
      earlier stays (OPEN-1).
    """

    type = FrameType.EXPORT
    id: RegistrationId
    name: ModuleName
    registered_ns: U64

    def __post_init__(self) -> None:
        check_registration(self.id)
        check_module_name(self.name)


class Unexport(ControlFrame, frozen=True, kw_only=True):
    """It is in the master's table no more, though its task may live (BUS-INIT-12)."""

    type = FrameType.UNEXPORT
    id: RegistrationId

    def __post_init__(self) -> None:
        check_registration(self.id)


class Search(ControlFrame, frozen=True, kw_only=True):
    """Who has this name? (BUS-ROUTE-6).

    machine: where it is sought, alone (BUS-ROUTE-14).
    sender: for whom; its relay is made from this (BUS-RELAY-12).
    hops: how many links it may still cross (OPEN-9).
    milliseconds_left: how long it is kept by who cannot answer (BUS-ROUTE-18); None
      until it is cancelled.
    """

    type = FrameType.SEARCH
    id: RequestId
    machine: MachineName
    name: ModuleName
    sender: Characteristics
    hops: Annotated[int, Meta(ge=0, le=_HOPS_MAX)]
    milliseconds_left: U32 | None = None

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.name)


class Cancel(ControlFrame, frozen=True, kw_only=True):
    """Nobody waits for the answer to a search any more (BUS-ROUTE-19)."""

    type = FrameType.CANCEL
    id: RequestId


class AddRelay(ControlFrame, frozen=True, kw_only=True):
    """Make a relay of this task: messages to and from it follow (BUS-ROUTE-6).

    search: the one that this answers, and whose way back it takes; None where a task
      announces itself before its first message (BUS-RELAY-12).
    addresses: where its process listens; none means over this link (BUS-ROUTE-9).
    """

    type = FrameType.ADD_RELAY
    task: Characteristics
    search: RequestId | None = None
    addresses: Addresses = ()


class Unrelay(ControlFrame, frozen=True, kw_only=True):
    """A task leaves, and this is the last message that it took (BUS-DEREG-4).

    relay: its number; extracted: a number of the stream from the other side, 0 where
      it took nothing.
    final: what waits for it fails, instead of waiting for the next (BUS-DEREG-8).
    more: some of what it sent is still to come; another UNRELAY follows that.
    """

    type = FrameType.UNRELAY
    relay: U32
    extracted: U64
    final: bool = False
    more: bool = False


class Dismiss(ControlFrame, frozen=True, kw_only=True):
    """Nobody here uses the relay of this task any more: may it go? (BUS-DEREG-13).

    relay: the task's number.
    """

    type = FrameType.DISMISS
    relay: U32


class Dismissed(ControlFrame, frozen=True, kw_only=True):
    """Of this task nothing comes any more, until it is introduced anew (BUS-DEREG-13).

    relay: its number, as it was asked for.
    """

    type = FrameType.DISMISSED
    relay: U32


class Gap(ControlFrame, frozen=True, kw_only=True):
    """Notifications of a task that were dropped before its next one (BUS-FLOW-3).

    relay: its number; count: how many, since the last GAP of this task.
    """

    type = FrameType.GAP
    relay: U32
    count: U64


class Eliminate(ControlFrame, frozen=True, kw_only=True):
    """A task is gone (BUS-DEREG-2), this registration of it alone (BUS-DEREG-7).

    final: what waits for it fails, instead of waiting for the next (BUS-DEREG-8).
    """

    type = FrameType.ELIMINATE
    id: RegistrationId
    name: ModuleName
    final: bool = False

    def __post_init__(self) -> None:
        check_registration(self.id)
        check_module_name(self.name)


class Subscribe(ControlFrame, frozen=True, kw_only=True):
    """A task wants the notifications that a specification means (BUS-RELAY-8).

    presence: it wants to know only who of those is there; nothing is sent to it.
    id: said again, it is the same subscription (AMO-29).
    specification: as `Specification.parse` reads it (OPEN-16).
    subscriber: what its relay is made from.
    overflow: what becomes of notifications it has no room for (BUS-FLOW-6).
    hops: how many links it may still cross (OPEN-9).
    confirm: the number of the PONG to send once it has reached all; 0 for none.
    """

    type = FrameType.SUBSCRIBE
    id: RequestId
    specification: Text
    subscriber: Characteristics
    overflow: Overflow = "drop-oldest"
    presence: bool = False
    hops: Annotated[int, Meta(ge=0, le=_HOPS_MAX)]
    confirm: U64 = 0

    def __post_init__(self) -> None:
        Specification.parse(self.specification)


class Unsubscribe(ControlFrame, frozen=True, kw_only=True):
    """It wants them no more (AMO-26)."""

    type = FrameType.UNSUBSCRIBE
    id: RequestId

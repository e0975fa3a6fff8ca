"""Frames about tasks: registrations, searches and subscriptions (BUS-WIRE-2).

The docstring of each frame names the clauses that need its fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bus.address import check_machine_name, check_module_name
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
    check_moved_to,
    check_registration,
)
from bus.registration import RegistrationId  # read by `msgspec`
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
    """A public name of the sending process, for the master's table (BUS-INIT-11).

    registered_ns: the time of registration, in nanoseconds since the machine's start;
      of two registrations the earlier stays (OPEN-1).
    asks: True if no master has granted the name yet; a task that was granted it
      precedes (OPEN-3). False by default, so that other frames have the bytes that they
      had.
    """

    type = FrameType.EXPORT
    id: RegistrationId
    name: ModuleName
    registered_ns: U64
    asks: bool = False

    def __post_init__(self) -> None:
        check_registration(self.id)
        check_module_name(self.name)


class Unexport(ControlFrame, frozen=True, kw_only=True):
    """Withdrawal of a task that may live: of another machine, by the master."""

    type = FrameType.UNEXPORT
    id: RegistrationId

    def __post_init__(self) -> None:
        check_registration(self.id)


class Search(ControlFrame, frozen=True, kw_only=True):
    """A search for the task with this name (BUS-ROUTE-6).

    machine: the only machine where it is sought (BUS-ROUTE-14).
    sender: the task that needs it, from which the relay is made (BUS-RELAY-12).
    hops: how many links it may still cross (OPEN-9).
    milliseconds_left: how long a process that cannot answer keeps it (BUS-ROUTE-18);
      None until it is cancelled.
    anywhere: True if the name may be of any machine (BUS-ROUTE-21). From a slave to its
      master, ``machine`` is then its own one, which precedes all others. From a master
      to another one, it is the machine of the latter, which reports if it lacks the
      name. False by default, so that all other searches have the bytes that they had.
    """

    type = FrameType.SEARCH
    id: RequestId
    machine: MachineName
    name: ModuleName
    sender: Characteristics
    hops: Annotated[int, Meta(ge=0, le=_HOPS_MAX)]
    milliseconds_left: U32 | None = None
    anywhere: bool = False

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.name)


class Cancel(ControlFrame, frozen=True, kw_only=True):
    """The end of a search whose answer no message waits for (BUS-ROUTE-19)."""

    type = FrameType.CANCEL
    id: RequestId


class AddRelay(ControlFrame, frozen=True, kw_only=True):
    """The introduction of a task, from which a relay is made (BUS-ROUTE-6).

    Messages to and from the task follow.

    search: the search or subscription that this answers, whose route it takes back;
      None if a task is announced before its first message (BUS-RELAY-12).
    addresses: the addresses on which its process listens; empty if its messages use
      this link (BUS-ROUTE-9).
    """

    type = FrameType.ADD_RELAY
    task: Characteristics
    search: RequestId | None = None
    addresses: Addresses = ()


class Unrelay(ControlFrame, frozen=True, kw_only=True):
    """The departure of a task, with the last message that it took (BUS-DEREG-4).

    relay: its number.
    extracted: the number of that message in the stream from the other side, 0 if the
      task took none.
    final: True if messages that wait for it fail, instead of waiting for the next
      holder of its name (BUS-DEREG-8).
    more: True if messages of the task are still to come; another UNRELAY follows them.
    """

    type = FrameType.UNRELAY
    relay: U32
    extracted: U64
    final: bool = False
    more: bool = False


class Dismiss(ControlFrame, frozen=True, kw_only=True):
    """A request to release the relay of a task that no task here uses (BUS-DEREG-13).

    relay: the task's number.
    """

    type = FrameType.DISMISS
    relay: U32


class Dismissed(ControlFrame, frozen=True, kw_only=True):
    """The end of a task's messages, until it is introduced anew (BUS-DEREG-13).

    relay: its number, as in the request.
    """

    type = FrameType.DISMISSED
    relay: U32


class Gap(ControlFrame, frozen=True, kw_only=True):
    """The notifications of a task that were dropped before its next one (BUS-FLOW-3).

    relay: its number; count: how many, since the last GAP of this task.
    """

    type = FrameType.GAP
    relay: U32
    count: U64


class Eliminate(ControlFrame, frozen=True, kw_only=True):
    """The departure of a task (BUS-DEREG-2), of this registration alone (BUS-DEREG-7).

    final: True if messages that wait for it fail, instead of waiting for the next
      holder of its name (BUS-DEREG-8).
    moved_to: its address at the machine where it goes on; "" if it does not say
      (BUS-MOVE-9).
    """

    type = FrameType.ELIMINATE
    id: RegistrationId
    name: ModuleName
    final: bool = False
    moved_to: Text = ""

    def __post_init__(self) -> None:
        check_registration(self.id)
        check_module_name(self.name)
        if self.moved_to:
            check_moved_to(self.moved_to)


class Subscribe(ControlFrame, frozen=True, kw_only=True):
    """A task's subscription to the notifiers of a specification (BUS-RELAY-8).

    presence: True if the task only watches which of them are present; nothing is sent
      to it.
    id: if sent again, it is the same subscription (AMO-29).
    specification: as `Specification.parse` reads it (OPEN-16).
    subscriber: the data from which the subscriber's relay is made.
    overflow: policy for notifications that exceed its capacity (BUS-FLOW-6).
    hops: how many links it may still cross (OPEN-9).
    confirm: the number of the PONG to send once all processes have received it; 0 for
      none.
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
    """The end of a subscription (AMO-26)."""

    type = FrameType.UNSUBSCRIBE
    id: RequestId

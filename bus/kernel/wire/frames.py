"""`ControlFrame`: the frames between managers, each type with a number (BUS-WIRE-2).

Each type has a struct of the same name: first those about the link and the process
behind it, then those about a stream of messages, then those about tasks. The docstring
of each names the clauses that need its fields. Keys may be added to a struct, with a
default; an existing key keeps its meaning. MSG, the frame of messages, is in `batch`. A
feature registers the structs of its own types in `codec`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.wire.parts import (
    U16,
    U32,
    U64,
    Addresses,
    Characteristics,
    Identity,
    LinkKind,
    MachineName,
    ModuleName,
    Number,
    Part,
    Reason,
    RequestId,
    Text,
    Versions,
    check_moved_to,
    check_registration,
    check_versions,
)
from bus.model.address import check_machine_name, check_module_name
from bus.model.registration import RegistrationId

__all__ = [
    "EXTRACTED_MAX",
    "MISSING_MAX",
    "Ack",
    "AddRelay",
    "Bye",
    "Cancel",
    "ConnectOffer",
    "ControlFrame",
    "Dismiss",
    "Dismissed",
    "Eliminate",
    "Error",
    "Export",
    "FrameType",
    "Gap",
    "Hello",
    "OpenStream",
    "Ping",
    "Pong",
    "Refused",
    "RequestEnd",
    "RequestFrame",
    "Search",
    "Unrelay",
    "Welcome",
]


class FrameType(IntEnum):
    """The first byte of a frame; its top bit is `OPTIONAL` (BUS-WIRE-3)."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    OPEN_STREAM = 4
    EXPORT = 5
    UNEXPORT = 6
    SEARCH = 7
    CANCEL = 8
    ADD_RELAY = 9
    UNRELAY = 10
    ELIMINATE = 11
    SUBSCRIBE = 12
    UNSUBSCRIBE = 13
    MSG = 14
    ACK = 15
    RELEASE = 17
    CONNECT_OFFER = 18
    ERROR = 19
    PING = 20
    PONG = 21
    BYE = 22
    DISMISS = 23
    DISMISSED = 24
    GAP = 25
    SLAB_ANSWER = 26
    CLOSE_SLAB = 27
    # Skipped by older code, which then gets no message in shared memory.
    OFFER_SLAB = 0x80 + 16


class ControlFrame(Part, frozen=True):
    """Any frame except MSG."""

    type: ClassVar[FrameType]


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


MISSING_MAX: Final = 128  # gaps in an ACK
EXTRACTED_MAX: Final = 256  # relays in an ACK
_KEYS: Final = {"controls": "heard"}  # the key on the wire stays (BUS-WIRE-2)


class OpenStream(ControlFrame, frozen=True, kw_only=True, rename=_KEYS):
    """The start of a stream, or its continuation over this link (BUS-RELAY-10).

    epoch: of its numbers (AMO-16); nonce: random, distinguishes rivals (AMO-17).
    incarnation: of the receiver that it is meant for (AMO-19).
    first: the number of its first message (AMO-6).
    window: how many numbers may be outstanding (AMO-13).
    known: the newest epoch known of the process that gets this frame; 0 for none. If it
      is greater than that process's own, that process takes a greater one (AMO-17).
    last: the greatest number received in that epoch; controls: how many control frames
      were received. All later ones are sent again, in their original order.
    """

    type = FrameType.OPEN_STREAM
    epoch: U64
    nonce: U64
    incarnation: U64
    first: Number
    window: Annotated[int, Meta(ge=1, lt=2**32)]
    known: U64 = 0
    last: U64 = 0
    controls: U64 = 0


class Ack(ControlFrame, frozen=True, kw_only=True, rename=_KEYS):
    """The receipt of a stream's messages, and their extraction by tasks (BUS-RELAY-9).

    epoch: the newest epoch known of the stream's sender, also in answer to a superseded
      one (AMO-16); incarnation: of the process that acknowledges (AMO-19).
    last: the greatest number that was received or given up; 0 for none. It is one below
      ``next`` of the `Acknowledgement`, which may not fit into 64 bits.
    missing: as in the `Acknowledgement` (AMO-23).
    extracted: relays of the acknowledger's tasks, with the last number that each took;
      relay 0 stands for all subscribers there (BUS-RELAY-7).
    controls: how many control frames were received; the sender may drop these.
    """

    type = FrameType.ACK
    epoch: U64
    incarnation: U64
    last: U64
    missing: Annotated[tuple[tuple[U64, U64], ...], Meta(max_length=MISSING_MAX)] = ()
    extracted: Annotated[
        tuple[tuple[U32, Number], ...], Meta(max_length=EXTRACTED_MAX)
    ] = ()
    controls: U64 = 0

    def __post_init__(self) -> None:
        below = 0
        for start, stop in self.missing:
            # Ranges that touch would be one.
            if not below < start < stop:
                msg = f"missing ranges must rise, got {start} to {stop} after {below}"
                raise ValueError(msg)
            below = stop
        if below > self.last:
            msg = f"missing ranges must end at {self.last}, got {below}"
            raise ValueError(msg)

    @staticmethod
    def of(
        has: Acknowledgement,
        *,
        epoch: int,
        incarnation: int,
        extracted: tuple[tuple[int, int], ...] = (),
        controls: int = 0,
    ) -> Ack:
        """Return the ACK for the state of a receiver.

        With more than `MISSING_MAX` gaps it claims nothing above the first gap that
        does not fit. That is correct as well, and a later ACK covers the rest.
        """
        stop = has.next
        if len(has.missing) > MISSING_MAX:
            stop = has.missing[MISSING_MAX][0]
        return Ack(
            epoch=epoch,
            incarnation=incarnation,
            last=stop - 1,
            missing=has.missing[:MISSING_MAX],
            extracted=extracted,
            controls=controls,
        )

    @property
    def acknowledgement(self) -> Acknowledgement:
        """The acknowledgement, for the sender's end of the stream."""
        return Acknowledgement(self.last + 1, self.missing)


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


class RequestEnd(ControlFrame, frozen=True, kw_only=True):
    """The end of a request."""

    id: RequestId


class RequestFrame(ControlFrame, frozen=True, kw_only=True):
    """A request that is forwarded from process to process until it ends.

    id: if sent again, it is the same request (AMO-29).
    hops: how many links it may still cross (OPEN-9).
    end: the type of the frame that ends it.
    """

    end: ClassVar[type[RequestEnd]]
    id: RequestId
    hops: Annotated[int, Meta(ge=0, le=_HOPS_MAX)]


class Cancel(RequestEnd, frozen=True, kw_only=True):
    """The end of a search whose answer no message waits for (BUS-ROUTE-19)."""

    type = FrameType.CANCEL


class Search(RequestFrame, frozen=True, kw_only=True):
    """A search for the task with this name (BUS-ROUTE-6).

    machine: the only machine where it is sought (BUS-ROUTE-14).
    sender: the task that needs it, from which the relay is made (BUS-RELAY-12).
    milliseconds_left: how long a process that cannot answer keeps it (BUS-ROUTE-18);
      None until it is cancelled.
    anywhere: True if the name may be of any machine (BUS-ROUTE-21). From a slave to its
      master, ``machine`` is then its own one, which precedes all others. From a master
      to another one, it is the machine of the latter, which reports if it lacks the
      name. False by default, so that all other searches have the bytes that they had.
    """

    type = FrameType.SEARCH
    end = Cancel
    machine: MachineName
    name: ModuleName
    sender: Characteristics
    milliseconds_left: U32 | None = None
    anywhere: bool = False

    def __post_init__(self) -> None:
        check_machine_name(self.machine)
        check_module_name(self.name)


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

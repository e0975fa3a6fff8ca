"""The messages between the tasks of the demo.

Commands and notifications go over the bus, as lists that name their type: `ENCODERS`
makes these of the classes. Content and receipts go over message queues, as MessagePack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ENCODERS",
    "Again",
    "Content",
    "Damaged",
    "Event",
    "Give",
    "Head",
    "HungUp",
    "Leave",
    "Linked",
    "Order",
    "PassDone",
    "Paused",
    "Piece",
    "Receipt",
    "Rescued",
    "Stored",
    "Took",
    "Unread",
    "decode_content",
    "decode_receipt",
    "encode",
    "sent",
]


class _Tagged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message that names its type."""


# Commands: from the lister to a worker.


class Give(_Tagged, frozen=True):
    """Read this file and send it to the collector; the answer reports its arrival."""

    pass_number: int
    index: int


class Leave(_Tagged, frozen=True):
    """No more work follows: leave."""


# Content: from a worker to the collector. One `Head` and its pieces, or one `Unread`;
# a worker that is to be killed also sends one `Paused`, among the pieces.


class Head(_Tagged, frozen=True):
    """The beginning of a file."""

    pass_number: int
    index: int
    digest: str


class Piece(_Tagged, frozen=True):
    """Some of its bytes; every file has a last piece, though it may be empty."""

    data: bytes
    last: bool


class Unread(_Tagged, frozen=True):
    """A file that could not be read."""

    pass_number: int
    index: int
    reason: str


class Paused(_Tagged, frozen=True):
    """The worker stops in the middle of a file, until its process is ended."""


# Receipts: from the collector to a worker, one for each last piece and each `Unread`.


class Stored(_Tagged, frozen=True):
    """The collector has the file."""


class Again(_Tagged, frozen=True):
    """The content does not match its head: send it again."""


# Notifications: from the collector to its subscribers.


class Took(_Tagged, frozen=True):
    """One more file has arrived."""

    pass_number: int
    index: int
    size: int


class Damaged(_Tagged, frozen=True):
    """The content from a worker arrived damaged, and is to be sent again."""

    worker: str


class HungUp(_Tagged, frozen=True):
    """A worker left in the middle of a file.

    drained: the number of messages received from it after it had disconnected.
    unfinished: the index of that file.
    """

    worker: str
    drained: int
    unfinished: int


class PassDone(_Tagged, frozen=True):
    """Every file of a pass has arrived."""

    pass_number: int


# Notifications: from the lister.


class Rescued(_Tagged, frozen=True):
    """A file is done that was assigned to a worker whose process was lost.

    told: the outcome of the command that the bus reported, "in doubt" or "peer lost".
    by: the worker that did it instead.
    """

    worker: str
    index: int
    told: str
    by: str


# Notifications: from the cable between two machines.


class Linked(_Tagged, frozen=True):
    """A step of the outage of the link between two machines.

    event: "cut"; "lost", once the last worker of the other machine is reported lost;
      "healed"; "restored", once all of them are reported again.
    seconds: since the cut; for "restored" since the cable was healed.
    """

    event: str
    seconds: float


Order = Give | Leave
Content = Head | Piece | Unread | Paused
Receipt = Stored | Again
Event = Took | Damaged | HungUp | PassDone | Rescued | Linked

# By the name in a message: a conversion to one class costs a twentieth of one to a
# union of all.
_SENT: Final = {
    each.__name__: each
    for each in (Give, Leave, Took, Damaged, HungUp, PassDone, Rescued, Linked)
}
ENCODERS: Final[dict[type, Callable[[Any], Any]]] = dict.fromkeys(
    _SENT.values(), msgspec.to_builtins
)

_content: msgspec.msgpack.Decoder[Content] = msgspec.msgpack.Decoder(Content)
_receipts: msgspec.msgpack.Decoder[Receipt] = msgspec.msgpack.Decoder(Receipt)

# Each decodes one message, and raises msgspec.DecodeError for other bytes.
decode_content = _content.decode
decode_receipt = _receipts.decode


def encode(message: _Tagged) -> bytes:
    """Return a message for a queue as bytes."""
    return msgspec.msgpack.encode(message)


def sent(payload: Any) -> Any:
    """Return the command or notification in a payload.

    Raises:
        KeyError, msgspec.ValidationError: it holds none.
    """
    return msgspec.convert(payload, _SENT[payload[0]])

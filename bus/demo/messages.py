"""What the tasks of the demo say to one another.

Over the bus go commands and notifications, as lists that name their type: `ENCODERS`
makes those of the classes. Over message queues go content and receipts, as MessagePack.
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
    "Give",
    "Head",
    "HungUp",
    "Leave",
    "News",
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
    """Every message names its type."""


# Commands: from the lister to a worker.


class Give(_Tagged, frozen=True):
    """Read this file and send it to the collector; the answer says that it is there."""

    pass_number: int
    index: int


class Leave(_Tagged, frozen=True):
    """There is nothing more to do."""


# Content: from a worker to the collector. One `Head` and its pieces, or one `Unread`;
# from a worker that is to be killed also one `Paused`, among the pieces.


class Head(_Tagged, frozen=True):
    """A file follows."""

    pass_number: int
    index: int
    digest: str


class Piece(_Tagged, frozen=True):
    """Some of its bytes; every file has a last piece, though it may be empty."""

    data: bytes
    last: bool


class Unread(_Tagged, frozen=True):
    """This file could not be read."""

    pass_number: int
    index: int
    reason: str


class Paused(_Tagged, frozen=True):
    """I stop in the middle of a file, until somebody ends this process."""


# Receipts: from the collector to a worker, one for each last piece and each `Unread`.


class Stored(_Tagged, frozen=True):
    """I have it."""


class Again(_Tagged, frozen=True):
    """What came is not what its head says: send it again."""


# Notifications: from the collector to whoever hears it.


class Took(_Tagged, frozen=True):
    """One more file is here."""

    pass_number: int
    index: int
    size: int


class Damaged(_Tagged, frozen=True):
    """What a worker sent came damaged, and is to be sent again."""

    worker: str


class HungUp(_Tagged, frozen=True):
    """A worker left in mid-stream.

    drained: messages received from it after it had hung up.
    unfinished: the index of the file that was on its way.
    """

    worker: str
    drained: int
    unfinished: int


class PassDone(_Tagged, frozen=True):
    """Every file of a pass is in."""

    pass_number: int


# And from the lister.


class Rescued(_Tagged, frozen=True):
    """A file that was in the hands of a worker whose process was lost is done.

    told: what the bus said of the command, "in doubt" or "peer lost".
    by: the worker that did it instead.
    """

    worker: str
    index: int
    told: str
    by: str


Order = Give | Leave
Content = Head | Piece | Unread | Paused
Receipt = Stored | Again
News = Took | Damaged | HungUp | PassDone | Rescued

# By the name that stands in a message: to convert to one class costs a twentieth of
# what it costs to a union of them.
_SENT: Final = {
    each.__name__: each
    for each in (Give, Leave, Took, Damaged, HungUp, PassDone, Rescued)
}
ENCODERS: Final[dict[type, Callable[[Any], Any]]] = dict.fromkeys(
    _SENT.values(), msgspec.to_builtins
)

_content: msgspec.msgpack.Decoder[Content] = msgspec.msgpack.Decoder(Content)
_receipts: msgspec.msgpack.Decoder[Receipt] = msgspec.msgpack.Decoder(Receipt)

# Each returns the message in some bytes, and raises msgspec.DecodeError for others.
decode_content = _content.decode
decode_receipt = _receipts.decode


def encode(message: _Tagged) -> bytes:
    """Return a message for a queue as bytes."""
    return msgspec.msgpack.encode(message)


def sent(payload: Any) -> Any:
    """Return the command or notification that a payload is.

    Raises:
        KeyError, msgspec.ValidationError: it is none.
    """
    return msgspec.convert(payload, _SENT[payload[0]])

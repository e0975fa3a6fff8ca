"""What the tasks of the demo say to one another, as MessagePack.

Content itself travels as plain messages between a `Head` and its `Stored`.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Done",
    "Give",
    "Head",
    "HungUp",
    "News",
    "PassDone",
    "Ready",
    "Stored",
    "Took",
    "Unread",
    "decode_give",
    "decode_news",
    "decode_order",
    "decode_receipt",
    "decode_request",
    "encode",
]


class _Tagged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Every message names its type."""


class Ready(_Tagged, frozen=True):
    """Worker to lister: give me a file."""


class Give(_Tagged, frozen=True):
    """Lister to worker: read this one."""

    pass_number: int
    index: int


class Done(_Tagged, frozen=True):
    """Worker to lister: that one is stored; give me another."""


class Head(_Tagged, frozen=True):
    """Worker to collector: ``chunks`` messages of content follow."""

    pass_number: int
    index: int
    size: int
    digest: str
    chunks: int


class Unread(_Tagged, frozen=True):
    """Worker to collector: this file could not be read."""

    pass_number: int
    index: int
    reason: str


class Stored(_Tagged, frozen=True):
    """Collector to worker: I have it."""


class Took(_Tagged, frozen=True):
    """Collector to console: one more file."""

    pass_number: int
    index: int
    size: int


class HungUp(_Tagged, frozen=True):
    """Collector to console: a worker left in mid-stream.

    drained: messages received from it after it had hung up.
    unfinished: the index of the file that was on its way, None if none was.
    """

    worker: str
    drained: int
    unfinished: int | None


class PassDone(_Tagged, frozen=True):
    """Collector to console: every file of a pass is in."""

    pass_number: int


News = Took | HungUp | PassDone

_requests: msgspec.msgpack.Decoder[Ready | Done] = msgspec.msgpack.Decoder(Ready | Done)
_gives = msgspec.msgpack.Decoder(Give)
_orders: msgspec.msgpack.Decoder[Head | Unread] = msgspec.msgpack.Decoder(Head | Unread)
_receipts = msgspec.msgpack.Decoder(Stored)
_news: msgspec.msgpack.Decoder[News] = msgspec.msgpack.Decoder(News)

# Each returns the message in some bytes, and raises msgspec.DecodeError for others.
decode_request = _requests.decode
decode_give = _gives.decode
decode_order = _orders.decode
decode_receipt = _receipts.decode
decode_news = _news.decode


def encode(message: _Tagged) -> bytes:
    """Return a message as bytes."""
    return msgspec.msgpack.encode(message)
